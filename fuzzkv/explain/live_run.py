"""The dependencies between the rows of a live run's page-event log.

A block that is given out holds what its new owner computes only from the end of that engine step on: transfers of the same step
still meet what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fuzzkv.explain.graph import Tie
from fuzzkv.explain.links import ReadLink, Thing
from fuzzkv.explain.naming import Names
from fuzzkv.explain.page_rows import PageRow

BREAKS: Final = "breaks"
"""The name of the row that is put where a violation was seen; its numbers are the request and the page."""
MISCOPIED: Final = "miscopied"
"""The same where the page is one of the host tier."""

BECAUSE: Final[Mapping[str, str]] = {
    "reused": "{then} gives out anew block {block}, which {first} gave back",
    "returned": "{then} gives back {page}, which {first} gave out",
    "wrote": "{then} reads {page}, which block {block} is since {first}",
    "carried": "{then} is the end of what {first} put in flight",
    "stored": "{then} reads host page {host}, which {first} filled",
    "loaded": "{then} reads in {page} what {first} brought there",
    "offered": "{then} is the store that {first} announced",
    "forgot": "{then} announces again what was stored before {first}",
    "claimed": "{then} is the load that {first} announced",
    "published": "{then} takes what {first} made known",
    "failed": "{then} is what became of {first}",
    "opened": "{then} is about request {request}, which came with {first}",
    "in-flight": "{then} comes while what {first} put in flight still uses block {block}",
}
"""A clause a kind of dependency, to be read after "(1) comes before (2), because"."""


class LiveRun:
    """Reads the rows in order; ``links`` are the dependencies, ``names`` those of blocks as they were given out."""

    def __init__(self, rows: Sequence[PageRow]) -> None:
        self.rows, self.names = rows, Names(_described(rows))
        self.links: list[ReadLink] = []
        self._pages: dict[ReadLink, Thing] = {}
        self._given: dict[int, Thing] = {}  # block -> the page that it was last given out as
        self._held: dict[
            int, tuple[int, Thing]
        ] = {}  # block -> the row that wrote what it holds, and the page
        self._coming: dict[int, tuple[int, Thing]] = {}
        self._freed: dict[int, int] = {}
        self._filled: dict[int, int] = {}  # host page -> the row that filled it
        self._begun: dict[tuple[str, int], PageRow] = {}
        self._known: dict[tuple[str, int], int] = {}  # block, key or request -> the row that made it known
        self._keys = _keys_of_stores(rows)
        self._reset = self._claim = -1
        reads: Mapping[str, Callable[[PageRow], None]] = {
            "step": self._step,
            "arrive": self._arrive,
            "alloc": self._alloc,
            "hit": self._hit,
            "free": self._free,
            "window": self._free,
            "preempt": self._of_request,
            "finish": self._of_request,
            "abort": self._of_request,
            "publish": self._publish,
            "reset": self._tier_reset,
            "offer": self._offer,
            "ready": self._ready,
            "claim": self._claimed,
            BREAKS: self._breaks,
            MISCOPIED: self._breaks,
        }
        for row in rows:
            if row.what[:-1] in ("store", "load"):
                self._transfer(row)
            elif row.what in reads:
                reads[row.what](row)

    def tie(self, link: ReadLink) -> Tie:
        """A dependency in words."""
        about = dict(zip(link.about[::2], link.about[1::2], strict=True))
        page = self._pages.get(link)
        clause = BECAUSE[link.kind].format(
            first="{first}",
            then="{then}",
            page=self.names.page(page) if page is not None else "",
            **{sort: about.get(sort, "") for sort in ("block", "host", "request")},
        )
        named = tuple(f"{sort} {number}" for sort, number in about.items())
        return Tie(link.first, link.then, link.kind, " ".join(named), clause, named)

    def page_of(self, link: ReadLink) -> Thing | None:
        """The page that a dependency is about, if it is about one."""
        return self._pages.get(link)

    def given_at(self, block: int, number: int) -> Thing:
        """The page as which a block had been given out by a row."""
        given = [row for row in self.rows[:number] if row.what == "alloc" and block in row.numbers[1:]]
        return ("page", block, given[-1].numbers[0], given[-1].number) if given else ("page", block)

    def _link(
        self, first: int, row: PageRow, kind: str, *about: str | int, page: Thing | None = None
    ) -> None:
        if first >= 0:
            link = ReadLink(first, row.number, kind, about)
            self.links.append(link)
            if page is not None:
                self._pages[link] = page

    # -- requests and device blocks ----------------------------------------------------------------------

    def _step(self, row: PageRow) -> None:
        self._held.update(self._coming)
        self._coming.clear()

    def _arrive(self, row: PageRow) -> None:
        self._known["request", row.numbers[0]] = row.number

    def _of_request(self, row: PageRow) -> None:
        request = row.numbers[0]
        self._link(self._known.get(("request", request), -1), row, "opened", "request", request)

    def _alloc(self, row: PageRow) -> None:
        request, *blocks = row.numbers
        self._of_request(row)
        for block in blocks:
            page: Thing = ("page", block, request, row.number)
            self._link(self._freed.get(block, -1), row, "reused", "block", block, page=page)
            self._given[block] = page
            self._coming[block] = row.number, page
            for begun in self._begun.values():
                if block in [d for d, _ in begun.pairs]:
                    self._link(begun.number, row, "in-flight", "block", block)

    def _hit(self, row: PageRow) -> None:
        self._of_request(row)
        for block in row.numbers[1:]:
            self._link(self._known.get(("block", block), -1), row, "published", "block", block)

    def _free(self, row: PageRow) -> None:
        for block in row.numbers[1:]:
            if block in self._given:
                page = self._given[block]
                self._link(int(page[3]), row, "returned", "block", block, page=page)
            self._freed[block] = row.number

    def _publish(self, row: PageRow) -> None:
        self._known["block", row.numbers[0]] = row.number

    # -- the host tier -----------------------------------------------------------------------------------

    def _tier_reset(self, row: PageRow) -> None:
        if row.numbers[0]:
            self._reset = row.number

    def _offer(self, row: PageRow) -> None:
        request, *keys = row.numbers
        self._of_request(row)
        if any(0 <= self._known.get(("stored", key), -1) < self._reset for key in keys):
            self._link(self._reset, row, "forgot", "request", request)
        for key in keys:
            self._known["offered", key] = row.number

    def _ready(self, row: PageRow) -> None:
        for key in row.numbers:
            self._known["stored", key] = row.number

    def _claimed(self, row: PageRow) -> None:
        for key in row.numbers[1:]:
            self._link(self._known.get(("stored", key), -1), row, "published", "key", key)
        self._claim = row.number

    def _transfer(self, row: PageRow) -> None:
        kind, sign, job = row.what[:-1], row.what[-1], row.numbers[0]
        begun = self._begun.get((kind, job))
        if sign == "+":
            self._begun[kind, job] = row
            self._begins(row, kind)
        elif begun is not None and sign == "-":
            for device, host in begun.pairs:
                self._link(begun.number, row, "carried", "block", device, "host", host)
                if kind == "store":
                    self._filled[host] = row.number
                elif device in self._given:
                    self._held[device] = row.number, self._given[device]
                    self._coming.pop(device, None)
            del self._begun[kind, job]
        elif begun is not None and sign in "!~":
            self._link(begun.number, row, "failed", kind, job)

    def _begins(self, row: PageRow, kind: str) -> None:
        if kind == "load":
            self._link(self._claim, row, "claimed", "load", row.numbers[0])
            for _, host in row.pairs:
                self._link(self._filled.get(host, -1), row, "stored", "host", host)
            return
        offers = {self._known.get(("offered", key), -1) for key in self._keys.get(row.numbers[0], ())}
        for offer in sorted(offers):
            self._link(offer, row, "offered", "store", row.numbers[0])
        for device, _ in row.pairs:
            writer, page = self._held.get(device, (-1, None))
            self._link(writer, row, "wrote", "block", device, page=page)

    def _breaks(self, row: PageRow) -> None:
        request, page = row.numbers
        if request >= 0:
            self._of_request(row)
        if row.what == MISCOPIED:
            self._link(self._filled.get(page, -1), row, "stored", "host", page)
            return
        self._step(row)
        if page in self._held:
            writer, thing = self._held[page]
            kind = "loaded" if self.rows[writer].what == "load-" else "wrote"
            self._link(writer, row, kind, "block", page, page=thing)


def _described(rows: Sequence[PageRow]) -> Callable[[Thing], str]:
    def described(page: Thing) -> str:
        _, block, request, given = page
        return f"block {block} of request {request} from step {rows[int(given)].step} on"

    return described


def _keys_of_stores(rows: Sequence[PageRow]) -> dict[int, tuple[int, ...]]:
    """The keys of every store: the engine tells of them in the order in which it hears that the stores ended."""
    told = [row.numbers[0] for row in rows if row.what == "store="]
    keys = [row.numbers for row in rows if row.what in ("ready", "lost")]
    return dict(zip(told, keys, strict=False))
