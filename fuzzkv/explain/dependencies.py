"""Which primitive of a run depends on which, from the numbers that each read and wrote.

One row a column of the state says what it means that a primitive read what another wrote there.  Numbers that decide
nothing (clocks, tallies, a policy's own memory) have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fuzzkv.explain.links import ReadLink, Thing
from fuzzkv.semantics.layout import (
    ABANDONED,
    CACHED,
    COLUMNS,
    FREE,
    LOAD,
    NP,
    ORPHAN,
    PAGES,
    PENDING,
    SPILL,
    STORE,
)
from fuzzkv.simulator.traced import Access, Node

COMPUTES = frozenset({"arrive", "prefill", "grow", "draft", "verify", "fork"})
"""What the device computes."""
LANDS = frozenset({"end_store", "end_load", "end_copy", "demand_load"})
"""What brings bytes from elsewhere."""
BEGINS = frozenset({"begin_store", "begin_load", "receive", "spill", "hit", "run_ahead"})
"""What takes a place that something in flight will fill."""
OPENS = frozenset({"arrive", "queue", "fork", "grow", "draft"})
"""What brings new pages."""

BYTES = frozenset({"D_FILL", "D_TAG", "D_PREC", "H_FILL", "H_TAG", "H_PREC"})
BOUND: Final[Mapping[str, str]] = {
    "D_SIDE": "scaled",
    "D_CODED": "scaled",
    "D_PAY": "scaled",
    "D_QUEUE": "filed",
    "H_PIN": "pinned",
    "EVICTED": "declared",
    "PAID": "declared",
    "WANT": "expected",
    "P_BRANCH": "expected",
    "P_LINEAGE": "expected",
    "CERT": "certified",
    "CERT_AT": "certified",
    "CERT_FOR": "certified",
    "LIFE": "aged",
    "SEEN": "read",
    "CKPT": "boundary",
    "GROUP": "boundary",
    "G_AT": "boundary",
    "R_BOUND": "boundary",
    "RING": "ring",
    "RING_IDX": "ring",
    "RING_OFF": "ring",
    "HOLD": "kept",
    "R_LOSS": "charged",
    "R_ADAPTER": "expected",
    "R_SCHEME": "expected",
    "WEIGHTS": "expected",
    "LAYOUT": "laid-out",
    "DEFER": "deferred",
    "IDLE": "idle",
    "R_ASKED": "asked",
    "W_ASKED": "asked",
    "S_ASKED": "asked",
    "F_ASKED": "asked",
    "R_N": "opened",
    "R_TODO": "opened",
    "R_ACTIVE": "opened",
    "R_DRAFT": "opened",
    "RUN_ON": "opened",
    "TODO": "opened",
    "OWNED": "opened",
    "X_FULL": "published",
    "X_TAG": "published",
    "X_KEY": "published",
}
"""Columns in which a number that isn't 0 binds whoever reads it, and how."""
_OF_SESSION = {"HOLD", "GROUP", "G_AT", "RING", "RUN_ON"} | {
    name for name in BOUND if name.startswith(("R_", "RING_"))
}
MACHINE: Thing = ("machine",)


class Cells:
    """The state of a run, node by node."""

    def __init__(self, first: Sequence[int]) -> None:
        self.state = list(first)

    def get(self, column: str, place: int = 0) -> int:
        """A number of the state."""
        return self.state[COLUMNS[column] + place]

    def copy(self) -> Cells:
        """The same numbers, apart from what is written later."""
        return Cells(self.state)

    def after(self, node: Node) -> None:
        """The node has run."""
        for (column, place), (_, new) in node.writes.items():
            self.state[COLUMNS[column] + place] = new

    def page(self, p: int) -> Thing:
        """A page with the session that has it now: slot, how many sessions the slot has had, place in the session."""
        return "page", p // PAGES, self.get("R_EPOCH", p // PAGES), p % PAGES

    def session(self, r: int) -> Thing:
        """The session that a slot has now."""
        return "session", r, self.get("R_EPOCH", r)


def links_of(nodes: Sequence[Node], first: Sequence[int]) -> list[ReadLink]:
    """The dependencies between the nodes of a run that began in the state ``first``."""
    states = [Cells(first)]
    for node in nodes:
        states.append(states[-1].copy())
        states[-1].after(node)
    found: dict[tuple[int, int, str, Thing, str], tuple[int, list[str]]] = {}
    for n, node in enumerate(nodes):
        before, after = states[node.began], states[n + 1]
        for access, looked in _accesses(node):
            for kind, about, where in _means(access, node, nodes[access.writer], before, after, looked):
                key = (access.writer, n, "saw" if looked else kind, about, where)
                cell = f"{access.column}[{access.place}]={access.value}"
                found.setdefault(key, (access.value, []))[1].append(cell)
    return [ReadLink(*key, value, tuple(cells)) for key, (value, cells) in found.items()]


def _accesses(node: Node) -> Iterator[tuple[Access, bool]]:
    """What a node read of others, and whether only its policy did, to decide."""
    own = {(access.column, access.place) for access in node.reads}
    yield from ((access, False) for access in node.reads if access.writer >= 0)
    for access in node.looked:
        if access.writer >= 0 and (access.column, access.place) not in own:
            yield access, True


def _means(
    access: Access, node: Node, writer: Node, before: Cells, after: Cells, looked: bool
) -> Iterator[tuple[str, Thing, str]]:
    """What it means that a node read this number (``looked``: that its policy did)."""
    column, place, value = access.column, access.place, access.value
    if node.record.primitive in ("tick", "late_copy"):
        return  # time passes for all of them alike
    act, made = node.record.primitive, writer.record.primitive
    if column in ("DEV", "HOST"):
        gone = value < 0 and made not in OPENS
        if looked and column == "DEV" and value >= 0 and _concerns(node, place):
            yield "saw", after.page(place), "device"
        if gone and _concerns(node, place):
            yield "dropped", after.page(place), "device" if column == "DEV" else "host"
        begun = value >= 0 and column == "HOST" and made in BEGINS and act not in LANDS
        if begun and _concerns(node, place) and before.get("H_FILL", value) == 0:
            yield "unfilled", after.page(place), "host"
    elif column in BYTES:
        device = column.startswith("D_")
        filled = access.writer >= node.began or before.get("D_FILL" if device else "H_FILL", place) == 1
        if not column.endswith("FILL") and not filled:
            return  # what a frame held before doesn't count any more
        for p in _pages_of(node, place, device):
            yield from _bytes(column, value, made, after.page(p), "device" if device else "host", act)
    elif column == "QUOTE":
        if _concerns(node, place % NP) and (value == 1 or made == "withdraw"):
            yield "promised" if value == 1 else "withdrew", after.page(place % NP), str(place // NP)
    elif column == "D_PAGE":
        yield from _frame(value, place, node, made)
    elif column == "H_PAGE":
        if act in ("arrive", "queue") and value == ORPHAN - node.record.page // PAGES:
            yield "orphaned", ("session", ORPHAN - value, after.get("R_EPOCH", ORPHAN - value)), "host"
    elif column == "J_KIND" and value == 0 and made == "fail_copy" and act == "hit":
        yield "failed", ("entry", after.get("J_DST", place)), "store"
    elif column == "J_FAIL" and value == 1:
        yield "failed", ("entry", before.get("J_DST", place)), ""
    elif column == "J_KIND" and value != 0:
        yield from _flight(place, node, before, after)
    elif column == "LINK_FREE":
        if made in ("demand_load", "remote_read") and act == "step":
            if writer.record.event == node.record.event:
                yield "waited", MACHINE, ""
        elif value > before.get("NOW") and act in BEGINS | {"demand_load", "remote_read"}:
            yield "queued", MACHINE, ""
    elif column in BOUND and value != 0:
        yield from _bound(column, place, node, made, after)


def _bytes(
    column: str, value: int, made: str, page: Thing, where: str, act: str
) -> Iterator[tuple[str, Thing, str]]:
    if act == "begin_load" and where == "device":
        return
    if made in COMPUTES:
        yield "wrote", page, where
    elif made in LANDS:
        yield "copied", page, where
    elif made in BEGINS:
        if column.endswith("FILL") and value == 0 and act not in LANDS:
            yield "unfilled", page, where
    elif (value != 0 and column.endswith(("TAG", "PREC"))) or (made == "trust" and column == "D_FILL"):
        yield "rewrote", page, where


def _frame(value: int, place: int, node: Node, made: str) -> Iterator[tuple[str, Thing, str]]:
    taken = node.writes.get(("D_PAGE", place))
    if value == FREE and taken is not None and taken[1] >= 0:
        yield "freed", ("frame", place), "device"
    elif value == PENDING and node.record.primitive == "end_round":
        yield "fenced", MACHINE, "device"
    elif value == CACHED and taken is not None:
        yield "cached", ("frame", place), "device"
    elif value >= 0 and node.record.primitive in ("finish", "grow") and ("V_COUNT", 14) in _judged(node):
        yield "held", MACHINE, "device"


def _judged(node: Node) -> frozenset[tuple[str, int]]:
    return frozenset(("V_COUNT", int(name[1:])) for name in node.broke)


def _flight(j: int, node: Node, before: Cells, after: Cells) -> Iterator[tuple[str, Thing, str]]:
    page = before.get("J_PAGE", j)
    ended = node.writes.get(("J_KIND", j), (0, 1))[1] == 0
    if ended and node.record.primitive in (*LANDS, "fail_copy"):
        yield "carried", after.page(page), ""
        return
    kind, source, target = (before.get(f"J_{part}", j) for part in ("KIND", "SRC", "DST"))
    on_device = {STORE: {source}, SPILL: {source}, ABANDONED: set[int]()}.get(kind, {target})
    on_host = {STORE: {target}, LOAD: {source}}.get(kind, set())
    for p in range(NP):
        if not _concerns(node, p):
            continue
        (device, host), _ = node.frames[p]
        tiers = _GIVES.get(node.record.primitive, ("device", "host"))
        for tier, frame, busy in (("device", device, on_device), ("host", host, on_host)):
            if tier in tiers and frame >= 0 and frame in busy:
                yield "in-flight", after.page(p), tier


_GIVES: Final[Mapping[str, tuple[str, ...]]] = {
    "drop_device": ("device",),
    "quantise": ("device",),
    "encode": ("device",),
    "drop_host": ("host",),
}
"""The tier whose frame a primitive gives back or rewrites."""


def _bound(column: str, place: int, node: Node, made: str, after: Cells) -> Iterator[tuple[str, Thing, str]]:
    kind = BOUND[column]
    if column in ("D_SIDE", "D_CODED", "D_PAY"):
        for p in _pages_of(node, place, True):
            yield kind, after.page(p), "device"
    elif column == "H_PIN":
        yield kind, ("frame", place), "host"
    elif column == "D_QUEUE":
        yield kind, ("frame", place), "device"
    elif column.startswith("X_"):
        yield "copied" if made in LANDS else kind, ("entry", place), "store"
    elif column in _OF_SESSION:
        if node.record.page // PAGES in (place, -1) or node.record.primitive in _SCHEDULES:
            yield kind, after.session(place), ""
    elif column in ("LAYOUT", "DEFER", "IDLE", "WEIGHTS", "W_ASKED", "S_ASKED", "F_ASKED"):
        yield kind, MACHINE, ""
    elif kind == "expected" and made in ("arrive", "queue"):
        return
    elif _concerns(node, place) and (kind != "opened" or place == node.record.page):
        yield kind, after.page(place), ""


def _concerns(node: Node, p: int) -> bool:
    """Whether a node is about this page: its own, or one of its session's where it is about all of them."""
    mine, whole = node.record.page, node.record.primitive
    return p == mine or (mine < 0) or (whole in _WHOLE and p // PAGES == mine // PAGES)


_SCHEDULES = frozenset({"end_round", "admit", "prefill", "preempt", "arrive", "finish"})
"""Primitives that look at other sessions than their own."""
_WHOLE = frozenset(
    {"step", "grow", "report", "resume", "preempt", "rewind", "trim", "fork", "finish", "pause"}
)
_WHOLE |= {"prefill", "end_round", "doze", "load_weights", "admit"}
"""Primitives that are about all pages of a session."""


def _pages_of(node: Node, frame: int, device: bool) -> list[int]:
    """The pages that a node is about and that have this frame; a page that it finds in the index has it from then on."""
    tier, found = (0 if device else 1), node.record.primitive == "hit"
    return [
        p
        for p, (before, after) in enumerate(node.frames)
        if _concerns(node, p) and frame in ((before[tier], after[tier]) if found else (before[tier],))
    ]
