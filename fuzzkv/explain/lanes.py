"""The stages of explanations: stays and moves of pages, from the states of a run or the rows of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fuzzkv.explain.links import Thing
from fuzzkv.explain.live_run import LiveRun
from fuzzkv.explain.page_rows import PageRow
from fuzzkv.explain.sentences import Speaker
from fuzzkv.explain.stage import DEVICE, HOST, STORE, Look, Move, Stage, Stay
from fuzzkv.semantics.layout import INT8, PAGES


def model_stage(speaker: Speaker, pages: Sequence[Thing], broke: int) -> Stage:
    """The stage of a run of the model for some of its pages, up to the node that broke."""
    stays: list[Stay] = []
    moves: list[Move] = []
    for page in pages:
        p = int(page[1]) * PAGES + int(page[3])
        for lane, frame in ((DEVICE, "D"), (HOST, "H")):
            stays += _stays(speaker, page, p, lane, frame, broke)
        moves += _moves(speaker, page, broke)
    tiers = tuple(
        lane for lane in (DEVICE, HOST, STORE) if lane != STORE or any(m.target == STORE for m in moves)
    )
    return Stage(tuple(stays), tuple(moves), tiers)


def _stays(speaker: Speaker, page: Thing, p: int, lane: str, tier: str, broke: int) -> list[Stay]:
    found: list[Stay] = []
    name, now, since = speaker.names.page(page), None, 0
    for n in range(broke + 1):
        look = _look(speaker, n, page, p, tier)
        if look != now:
            if now is not None:
                found.append(Stay(lane, name, since, n, now))
            now, since = look, n
    return [*found, Stay(lane, name, since, -1, now)] if now is not None else found


def _look(speaker: Speaker, n: int, page: Thing, p: int, tier: str) -> Look | None:
    cells = speaker.after(n)
    frame = cells.get("DEV" if tier == "D" else "HOST", p)
    if cells.page(p) != page or cells.get("OWNED", p) == 0 or frame < 0:
        return None
    if cells.get(f"{tier}_FILL", frame) == 0:
        return "unfilled"
    if cells.get(f"{tier}_TAG", frame) != cells.get("WANT", p):
        return "other"
    level = cells.get(f"{tier}_PREC", frame)
    return "exact" if level == 0 else "8 bits" if level == INT8 else "4 bits"


_WAYS: Final[Mapping[str, tuple[str, str]]] = {
    "begin_store": (DEVICE, HOST),
    "begin_load": (HOST, DEVICE),
    "receive": (STORE, DEVICE),
    "spill": (DEVICE, STORE),
    "run_ahead": (DEVICE, DEVICE),
}


def _moves(speaker: Speaker, page: Thing, broke: int) -> list[Move]:
    found: list[Move] = []
    open_: dict[str, tuple[int, str]] = {}
    for n in range(broke + 1):
        record = speaker.nodes[n].record
        if record.page < 0 or not speaker.nodes[n].told or speaker.page_of(n, record.page) != page:
            continue
        actor = record.actor or ""
        if record.primitive in _WAYS:
            open_[actor] = n, record.primitive
        elif record.primitive in ("end_store", "end_load", "end_copy", "fail_copy"):
            begun = open_.pop(actor, None) or (open_.popitem()[1] if open_ else None)
            if begun is not None:
                by = speaker.nodes[begun[0]].record.actor or ""
                found.append(Move(speaker.names.page(page), *_WAYS[begun[1]], begun[0], n, by))
    for actor, (n, begun_by) in open_.items():
        found.append(Move(speaker.names.page(page), *_WAYS[begun_by], n, -1, actor))
    return found


def live_stage(run: LiveRun, names: Mapping[str, Thing], hosts: frozenset[int], broke: int) -> Stage:
    """The stage of a live run: of blocks those that have names, of host pages ``hosts``."""
    return _LiveStage(run, names, hosts).until(broke)


class _LiveStage:
    def __init__(self, run: LiveRun, names: Mapping[str, Thing], hosts: frozenset[int]) -> None:
        self.run, self.hosts = run, hosts
        self.given = {thing: name for name, thing in names.items()}
        self.stays: list[Stay] = []
        self.moves: list[Move] = []
        self.here: dict[tuple[str, int], Stay] = {}  # what is on a block or a host page now
        self.holds: dict[int, str] = {}  # block -> the name of the page whose bytes it holds
        self.coming: dict[int, str] = {}
        self.begun: dict[tuple[str, int], PageRow] = {}

    def until(self, broke: int) -> Stage:
        """The stage up to a row."""
        for row in self.run.rows[:broke]:
            kind, sign = row.what[:-1], row.what[-1:]
            if row.what == "step":
                self.holds |= self.coming
                for block in self.coming:
                    self._look(block, row.number, "exact", "")
                self.coming = {}
            elif row.what == "alloc":
                self._alloc(row)
            elif row.what in ("free", "window"):
                for block in row.numbers[1:]:
                    self._end(DEVICE, block, row.number)
            elif kind in ("store", "load") and sign == "+":
                self.begun[kind, row.numbers[0]] = row
            elif kind in ("store", "load") and sign in "-!~":
                self._ends(row, kind, sign)
        for block in self.coming:
            self._look(block, broke, "exact", "")
        stays = [*self.stays, *(replace(stay, end=-1) for stay in self.here.values())]
        return Stage(tuple(stays), tuple(self.moves), (DEVICE, HOST))

    def _alloc(self, row: PageRow) -> None:
        for block in row.numbers[1:]:
            name = self.given.get(("page", block, row.numbers[0], row.number))
            self.coming[block] = name or f"block {block}"
            if name is not None:
                label = f"{name} = block {block}"
                self.here[DEVICE, block] = Stay(DEVICE, label, row.number, -1, "unfilled", label)

    def _end(self, lane: str, place: int, number: int) -> None:
        if (lane, place) in self.here:
            self.stays.append(replace(self.here.pop((lane, place)), end=number))

    def _look(self, block: int, number: int, look: Look, more: str) -> None:
        stay = self.here.get((DEVICE, block))
        if stay is not None and stay.look != look:
            self._end(DEVICE, block, number)
            self.here[DEVICE, block] = replace(stay, begin=number, look=look, label=f"{stay.name}{more}")

    def _ends(self, row: PageRow, kind: str, sign: str) -> None:
        begun = self.begun.pop((kind, row.numbers[0]), None)
        for block, host in begun.pairs if begun is not None else ():
            if host not in self.hosts or begun is None:
                continue
            held = self.holds.get(block, f"block {block}")
            target = self.given.get(self.run.given_at(block, begun.number), f"block {block}")
            ways = (held, DEVICE, HOST) if kind == "store" else (target, HOST, DEVICE)
            self.moves.append(Move(*ways, begun.number, row.number, begun.actor))
            if sign == "-" and kind == "store":
                self._end(HOST, host, row.number)
                name = f"host page {host}"
                self.here[HOST, host] = Stay(HOST, name, row.number, -1, "exact", f"{name}: bytes of {held}")
            elif sign == "-":
                self.coming.pop(block, None)
                self._look(block, row.number, "exact", f", from host page {host}")
