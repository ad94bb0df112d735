"""What happened in a run of the model, and what rests on what, as sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from fuzzkv.core.glossary import ASKED, LANDING, SAID, counted, joined
from fuzzkv.explain.dependencies import Cells
from fuzzkv.explain.graph import HistoryNode, Tie
from fuzzkv.explain.links import ReadLink, Thing
from fuzzkv.explain.naming import Names, page_of_session, session_name
from fuzzkv.semantics.layout import INT8, PAGES
from fuzzkv.simulator.history import Record
from fuzzkv.simulator.traced import Node

BECAUSE: Final[Mapping[str, str]] = {
    "wrote": "{then} {verb} the bytes of {page} that {first} wrote",
    "copied": "{then} {verb} the copy of {page} {on} that {first} completed",
    "rewrote": "{then} {verb} the bytes of {page} {on} as {first} left them",
    "carried": "{then} is the end of what {first} put in flight",
    "in-flight": "what {first} put in flight is still {in_flight} {page}'s {frame} when {then} begins",
    "unfilled": "{then} comes before what {first} began has filled {page}'s {frame}",
    "dropped": "{then} finds no copy of {page} {on} after {first}",
    "promised": "the quote of {page} that {actor} gave at {first} still stands at {then}",
    "withdrew": "{actor} has withdrawn its quote of {page} at {first}",
    "declared": "{then} finds {page} written off by {first}",
    "charged": "{session} has lost {value} permille by {first} already",
    "queued": "the link serves what comes first and is taken till tick {value} by {first} and what came before it",
    "waited": "{then} waits for {first}",
    "freed": "{then} takes a device frame that {first} gave back",
    "fenced": "the frames that {first} gave up are still behind the fence at {then}",
    "held": "at {then} no device frame is free, and {frames} of them {hold} what {first} put there",
    "deferred": "frees are deferred from {first} on",
    "aged": "{then} counts the steps of {session} up to {first}",
    "read": "{first} is the last step that {then} knows to have read {page}",
    "certified": "{then} acts on the certificate of {page} that {actor} gave at {first}",
    "published": "{then} takes the index entry that {first} made",
    "pinned": "the pin that {first} took is still held at {then}",
    "orphaned": "{first} left behind a pinned host frame that {then} finds",
    "filed": "the frame stands where {first} filed it",
    "laid-out": "the pool has the layout that {first} gave it",
    "scaled": "the scales beside {page} at {then} are those that {first} wrote",
    "expected": "what is expected of {page} at {then} was set by {first}",
    "boundary": "{then} meets the group that {first} set up",
    "ring": "{then} meets the ring as {first} left it",
    "cached": "{then} takes a frame that {first} left to the index",
    "kept": "{then} meets the handle that {first} keeps",
    "asked": "{then} does what {first} asked for",
    "idle": "{first} had ended without progress too",
    "failed": "nothing came of the copy after {first}",
    "opened": "{then} finds {session} as {first} left it",
    "saw": "{actor_then} decides on {then} after a look at what {first} did",
}
"""A clause a kind of dependency, to be read after "(1) comes before (2), because"."""


VERB: Final[Mapping[str, str]] = {
    "begin_store": "reads",
    "begin_load": "reads",
    "spill": "reads",
    "demand_load": "loads",
    "end_store": "stores",
    "drop_device": "gives up",
    "drop_host": "destroys",
    "quantise": "rewrites",
    "encode": "encodes",
    "read": "reads",
    "remote_read": "reads",
    "hit": "takes",
    "publish": "publishes",
    "promise": "vouches for",
}
"""What a primitive does with bytes that it meets; the others find them."""
OPENED: Final[Mapping[str, str]] = {
    "arrive": "{then} is about {session}, which {first} opened",
    "queue": "{then} is about {session}, which {first} opened",
    "draft": "{then} counts the page of {session} that {first} opened",
    "grow": "{then} counts the page of {session} that {first} opened",
    "preempt": "{then} finds {session} waiting since {first}",
    "pause": "{then} finds {session} waiting since {first}",
    "finish": "{then} finds {session} ended by {first}",
    "prefill": "{then} finds {session} running since {first}",
}


class Speaker:
    """Says nodes and dependencies of one run, with the names of :class:`Names`."""

    def __init__(self, nodes: Sequence[Node], first: Sequence[int]) -> None:
        self.nodes, self.names = nodes, Names(page_of_session)
        self._cells: list[Cells] = []
        cells = Cells(first)
        for node in nodes:
            cells.after(node)
            self._cells.append(cells.copy())

    def actor(self, number: int) -> str:
        """The policy whose act a node is, or is a part of; empty for nobody's."""
        node = self.nodes[number]
        if node.record.actor is None and node.within >= 0:
            node = self.nodes[node.within]
        return node.record.actor or ""

    def page_of(self, number: int, p: int) -> Thing:
        """The page that a number meant when a node had run."""
        return self._cells[number].page(p)

    def after(self, number: int) -> Cells:
        """What had been written when a node had run."""
        return self._cells[number]

    def act(self, number: int) -> HistoryNode:
        """A node in words."""
        record = self.nodes[number].record
        pages = (self.names.page(self.page_of(number, record.page)),) if self._paged(number) else ()
        return HistoryNode(
            number=number,
            event=record.event,
            time=record.time,
            actor=self.actor(number),
            what=record.primitive if self.nodes[number].told else f"event {record.primitive}",
            text=self._text(number, record),
            pages=pages,
            lane=self._lane(number, record),
            short=record.primitive.replace("_", " "),
        )

    def _lane(self, number: int, record: Record) -> str:
        if record.page < 0 or not self.nodes[number].told:
            return "workload"
        r = record.page // PAGES
        return session_name(r, self._cells[number].get("R_EPOCH", r))

    def _paged(self, number: int) -> bool:
        record = self.nodes[number].record
        return self.nodes[number].told and record.page >= 0 and "{page}" in SAID[record.primitive]

    def _text(self, number: int, record: Record) -> str:
        if not self.nodes[number].told:
            return f"{record.actor or ''} {ASKED.get(record.primitive, record.primitive)}".strip()
        template = re.sub(
            r"\{detail (\w+(?: \w+)?)\}", lambda m: counted(record.detail, m[1]), SAID[record.primitive]
        )
        r = max(record.page, 0) // PAGES
        text = template.format(
            page=self.names.page(self.page_of(number, record.page)) if self._paged(number) else "",
            session=session_name(r, self._cells[number].get("R_EPOCH", r)),
            actor=record.actor,
            detail=record.detail,
            loss=f", which costs the request {record.detail} permille"
            if record.primitive == "drop_host" and record.detail
            else "",
            bits=8 if record.detail == INT8 else 4,
        )
        within = self.nodes[number].within
        if record.actor is None and within >= 0:
            return f"{text}, as {self.actor(number)} wants it"
        return f"{record.actor} {text}" if record.actor and record.primitive not in LANDING else text

    def tie(self, link: ReadLink) -> Tie:
        """A dependency in words."""
        page = self.names.page(link.about) if link.about[0] == "page" else ""
        r = int(link.about[1]) if link.about[0] in ("page", "session") else 0
        times = int(link.about[2]) if link.about[0] in ("page", "session") else 0
        device = link.where == "device"
        begun = self.nodes[link.first].record.primitive
        clause = BECAUSE[link.kind]
        if link.kind == "copied" and link.where == "store":
            clause = "{then} takes what {first} brought into the external store"
        if link.kind == "opened":
            clause = OPENED.get(begun, "{then} finds {session} as {first} left it")
        said = {
            "page": page,
            "session": session_name(r, times),
            "on": {"device": "on the device", "host": "on the host", "store": "in the external store"}.get(
                link.where, ""
            ),
            "frame": "device frame" if device else "host frame",
            "in_flight": _uses(begun, device),
            "verb": _verb(self.nodes[link.then].record.primitive, device),
            "frames": str(len(link.cells)),
            "hold": "holds" if len(link.cells) == 1 else "hold",
            "actor": self.actor(link.first),
            "actor_then": self.actor(link.then),
            "value": link.value,
        }
        because = clause.format(first="{first}", then="{then}", **said)
        about = page or (
            session_name(r, times) if link.about[0] == "session" else joined([str(x) for x in link.about])
        )
        return Tie(
            link.first,
            link.then,
            link.kind,
            f"{about} {link.where}".strip(),
            " ".join(because.split()),
            link.cells,
        )


def _verb(act: str, device: bool) -> str:
    """What a primitive does with bytes on that tier."""
    other = {"drop_device": not device, "drop_host": device, "quantise": not device}.get(act, False)
    return "finds" if other else VERB.get(act, "finds")


def _uses(begun: str, device: bool) -> str:
    """What a copy does with a frame of that tier."""
    reads = {"begin_store": device, "spill": True, "begin_load": not device}.get(begun, False)
    return "reading" if reads else "filling"
