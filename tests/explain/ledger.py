"""The dependencies of a run of the model once more, from its records alone: who has which page where, since when.

Written against the meaning of the primitives, without a look at the state that the simulator keeps and without the
product's builder, so that the two can be compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PAGES = 8
Page = tuple[int, int, int]
Edge = tuple[str, int, int]

COMPUTES = {"arrive", "prefill", "grow", "draft", "verify"}
GIVE_UP_SESSION = {"finish", "preempt", "pause"}
ENDS = {"end_store", "end_load", "end_copy", "fail_copy"}
BEGINS = {"begin_store", "begin_load", "receive", "spill", "run_ahead"}


@dataclass(frozen=True)
class Seen:
    """A node as the ledger knows it: a record of a history, or an event that told none (``what`` begins with "event ")."""

    event: int
    time: int
    actor: str
    what: str
    page: int
    detail: int


@dataclass
class Copy:
    """What a place holds: who filled it, and who rewrote it since."""

    by: int
    how: str
    rewritten: int = -1
    before: int = -1


class Ledger:
    """Reads the nodes in order.  ``edges`` maps each dependency (kind, first, then) to the pages that it is about."""

    def __init__(self, nodes: Sequence[Seen], frames: int, page_cost: int) -> None:
        self.nodes, self.cost = nodes, page_cost
        self.edges: dict[Edge, set[Page | None]] = defaultdict(set)
        self.key_of: dict[int, Page] = {}
        self.epoch = [0, 0]
        self.size = [0, 0]
        self.open = [False, False]
        self.device: dict[Page, Copy] = {}
        self.host: dict[Page, Copy] = {}
        self.written: dict[Page, int] = {}
        self.lost: dict[tuple[str, Page], int] = {}
        self.quotes: dict[tuple[str, Page], int] = {}
        self.withdrawn: dict[tuple[str, Page], int] = {}
        self.flights: list[tuple[int, str, str, Page]] = []
        self.last: dict[tuple[Any, ...], int] = {}
        self.frame: dict[Page, int] = {}
        self.free = set(range(frames))
        self.cached: dict[int, tuple[int, int]] = {}
        self.freed_by: dict[int, int] = {}
        self.scales: dict[int, int] = {}
        self.published: set[Page] = set()
        self.pins: dict[Page, int] = {}
        self.link = (-1, 0)
        for n, node in enumerate(nodes):
            if node.what == "arrive" or node.what == "queue":
                self.epoch[node.page // PAGES] += 1
            p = node.page
            if p >= 0:
                self.key_of[n] = (p // PAGES, self.epoch[p // PAGES], p % PAGES)
            self._begin(n, node)
            self._before(n, node)
            self._after(n, node)

    def _begin(self, n: int, node: Seen) -> None:
        """A step begins before the copies that end while it waits: it meets what was there then as well."""
        if n > 0 and self.nodes[n - 1].event == node.event:
            return
        for later in range(n, len(self.nodes)):
            step = self.nodes[later]
            if step.event != node.event:
                return
            if step.what == "step":
                p = step.page
                self.key_of[later] = (p // PAGES, self.epoch[p // PAGES], p % PAGES)
                self._pages_before(later, step)

    # -- what a node rests on ----------------------------------------------------------------------------

    def _edge(self, kind: str, first: int | None, then: int, page: Page | None = None) -> None:
        if first is not None and 0 <= first < then:
            self.edges[kind, first, then].add(page)

    def _touched(self, n: int, node: Seen) -> Iterator[Page]:
        """The pages that a node may be about: its own, those of its session, or all where it is about nobody's."""
        p = self.key_of.get(n)
        if p is None:
            for r in (0, 1):
                yield from ((r, self.epoch[r], i) for i in range(PAGES))
            return
        yield p
        whole = ("step", "grow", "report", "resume", "rewind", "trim", "prefill", "admit", *GIVE_UP_SESSION)
        if node.what in whole:
            yield from ((p[0], p[1], i) for i in range(PAGES) if i != p[2])

    def _before(self, n: int, node: Seen) -> None:
        self._pages_before(n, node)
        session = self.key_of[n][:2] if n in self.key_of else None
        for r in (0, 1):
            if session is None or node.what in ("end_round", "finish", "arrive") or session[0] == r:
                for kind in ("charged", "boundary", "ring", "kept", "asked", "opened", "grown", "waits"):
                    name = {"grown": "opened", "waits": "opened"}.get(kind, kind)
                    self._edge(name, self.last.get((kind, r, self.epoch[r])), n)
        for kind in ("deferred", "laid-out", "idle", "fenced", "failed"):
            self._edge(kind, self.last.get((kind,)), n)
        self._special(n, node)
        for r in (0, 1) if node.what in ("preempt", "prefill") else ():
            self._edge("opened", self.last.get(("opened", r, self.epoch[r])), n)

    def _pages_before(self, n: int, node: Seen) -> None:
        for p in self._touched(n, node):
            here, there = self.device.get(p), self.host.get(p)
            for copy in (here, there):
                if copy is not None:
                    self._edge(copy.how, copy.by, n, p)
                    self._edge(copy.how, copy.before, n, p)
                    self._edge("rewrote", copy.rewritten, n, p)
            for tier, copy in (("device", here), ("host", there)):
                if copy is None:
                    self._edge("dropped", self.lost.get((tier, p)), n, p)
            for (_, quoted), since in self.withdrawn.items():
                if quoted == p:
                    self._edge("withdrew", since, n, p)
            for (_, quoted), since in self.quotes.items():
                if quoted == p:
                    self._edge("promised", since, n, p)
            for begun, _, _, flying in self.flights:
                if flying == p:
                    self._edge("in-flight", begun, n, p)
                    self._edge("unfilled", begun, n, p)
            if p in self.frame:
                self._edge("scaled", self.scales.get(self.frame[p]), n, p)
            for kind in ("read", "certified", "expected", "aged", "declared"):
                self._edge(kind, self.last.get((kind, p)), n, p)

    def _special(self, n: int, node: Seen) -> None:
        what, p = node.what, self.key_of.get(n)
        if what in ENDS:
            kinds = {"end_store": ("begin_store",), "end_load": ("begin_load",)}.get(
                what, ("receive", "spill", "run_ahead")
            )
            mine = [f for f in self.flights if f[1] in kinds and (f[2] == node.actor or what == "fail_copy")]
            if mine:
                self._edge("carried", mine[0][0], n, p)
        taken, until = self.link
        waits = node.detail if what in ("demand_load", "remote_read") else 0
        if (what in BEGINS or what in ("demand_load", "remote_read")) and until > node.time - waits:
            self._edge("queued", taken, n)
        if what == "step" and self.last.get(("demand",)) is not None:
            demanded = self.last["demand",]
            if self.nodes[demanded].event == node.event:
                self._edge("waited", demanded, n)
        if what == "dequeue":
            self._edge("filed", self.last.get(("filed", node.detail)), n)
        if what in ("expire", "fail_copy", "end_copy"):
            self._edge("published", self.last.get(("published", node.page % PAGES)), n)
        if what in ("hit", "expire"):
            for place, since in self.cached.values():
                if place == node.page % PAGES:
                    self._edge("cached", since, n)
        if what == "hit":
            for q, since in self.written.items():
                if q[2] == node.page % PAGES:
                    self._edge("wrote", since, n, p)
            for kind in ("published", "stored"):
                self._edge(
                    {"stored": "copied"}.get(kind, kind), self.last.get((kind, node.page % PAGES)), n, None
                )
        if what == "event finish":
            for copy in self.device.values():
                self._edge("held", copy.by, n)
        if what == "finish" and p is not None:
            for pinned, since in self.pins.items():
                if pinned[:2] == p[:2]:
                    self._edge("pinned", since, n)
        if what == "arrive":
            self._edge("orphaned", self.last.get(("orphan", node.page // PAGES)), n)

    # -- what a node changes -----------------------------------------------------------------------------

    def _take(self, n: int, p: Page) -> None:
        frame = min(self.free)
        self.free.discard(frame)
        self._edge("freed", self.freed_by.get(frame), n)
        self.frame[p] = frame

    def _give(self, n: int, p: Page) -> None:
        frame = self.frame.pop(p, None)
        if frame is None:
            return
        if p in self.published:
            self.cached[frame] = (p[2], n)
            return
        self.free.add(frame)
        self.freed_by[frame] = n
        self.scales.pop(frame, None)

    def _fill(self, n: int, p: Page, how: str) -> None:
        self.device[p] = Copy(n, how)
        if how == "wrote":
            self.written[p] = n

    def _drop(self, n: int, p: Page) -> None:
        if self.device.pop(p, None) is not None or p in self.frame:
            self.lost["device", p] = n
        self._give(n, p)

    def _after(self, n: int, node: Seen) -> None:
        what, p = node.what, self.key_of.get(n)
        if what in ("arrive", "queue") and p is not None:
            r, e = p[:2]
            self.size[r] = node.detail
            self.last["opened", r, e] = n
            for i in range(node.detail if what == "arrive" else 0):
                self._take(n, (r, e, i))
                self._fill(n, (r, e, i), "wrote")
        elif what == "prefill" and p is not None:
            r, e = p[:2]
            for i in range(node.detail):
                q = (r, e, i)
                self.last["expected", q] = n
                if q not in self.frame:
                    self._take(n, q)
                    self._fill(n, q, "wrote")
            self.last["waits", r, e] = n
        elif what in ("grow", "draft") and p is not None:
            r, e, i = p
            self.last["grown", r, e] = n
            for j in (i, i + 1):
                q = (r, e, j)
                self.last["expected", q] = n
                if (q not in self.frame and self.free and what == "draft" and j == i) or (
                    q not in self.frame and self.free and what == "grow" and j == i + 1
                ):
                    self._take(n, q)
                    self._fill(n, q, "wrote")
        elif what in GIVE_UP_SESSION and p is not None:
            r, e = p[:2]
            for i in range(PAGES):
                q = (r, e, i)
                if q in self.pins and what == "finish":
                    self.last["orphan", r] = n
                self._drop(n, q)
            if what == "finish":
                # Nothing comes of the copies of a session that has ended, but for a step that ran ahead.
                self.flights = [f for f in self.flights if f[3][:2] != (r, e) or f[1] == "run_ahead"]
            self.last["waits", r, e] = n
            if self.last.get(("deferred",)) is not None:
                self.last["fenced",] = n
        elif p is not None:
            self._page(n, node, p)
        self._machine(n, node)

    def _page(self, n: int, node: Seen, p: Page) -> None:
        what = node.what
        if what in BEGINS:
            self.flights.append((n, what, node.actor, p))
            if what == "receive" or (what == "begin_load" and p not in self.frame):
                self._take(n, p)
        elif what in ENDS:
            kinds = {"end_store": ("begin_store",), "end_load": ("begin_load",)}.get(
                what, ("receive", "spill", "run_ahead")
            )
            mine = next(
                f for f in self.flights if f[1] in kinds and (f[2] == node.actor or what == "fail_copy")
            )
            self.flights.remove(mine)
            if what == "end_store":
                self.host[p] = Copy(n, "copied")
            elif what == "end_load" or (what == "end_copy" and mine[1] == "receive"):
                if p in self.frame:  # it may have been given up under the copy
                    self._fill(n, p, "copied")
            elif what == "end_copy" and mine[1] == "spill":
                self.last["stored", p[2]] = n
            elif what == "fail_copy":
                self.last["failed",] = n
        elif what in ("demand_load", "remote_read"):
            if what == "demand_load":
                self._take(n, p)
                self._fill(n, p, "copied")
            self.last["demand",] = n
        elif what == "drop_device":
            self._drop(n, p)
        elif what == "drop_host":
            self.host.pop(p, None)
            self.lost["host", p] = n
            if node.detail:
                self.last["charged", p[0], p[1]] = n
                self.last["declared", p] = n
        elif what in ("quantise", "encode", "write_scale") and p in self.device:
            if what == "quantise":
                self.device[p].rewritten = n
            elif what == "write_scale":
                self.scales[self.frame[p]] = n
        elif what == "promise":
            self.quotes[node.actor, p] = n
            self.withdrawn.pop((node.actor, p), None)
        elif what == "withdraw":
            self.quotes.pop((node.actor, p), None)
            self.withdrawn[node.actor, p] = n
        elif what == "read":
            self.last["read", p] = self.last["aged", p] = n
        elif what == "step":
            for i in range(PAGES):
                q = (p[0], p[1], i)
                if q not in self.device:
                    self.last["aged", q] = n
        elif what == "pin":
            self.pins[p] = n
        elif what == "unpin":
            self.pins.clear()
        elif what == "publish":
            self.published.add(p)
            self.last["published", p[2]] = n
        elif what == "expire":
            for frame, (place, _) in list(self.cached.items()):
                if place == p[2]:
                    del self.cached[frame]
                    self.free.add(frame)
                    self.freed_by[frame] = n
        elif what == "hit":
            near = next((f for f, (place, _) in self.cached.items() if place == p[2]), None)
            if near is None:
                self._take(n, p)
            else:
                del self.cached[near]
                self.frame[p] = near
                self.published.add(p)
        elif what == "verify" and p in self.device:
            self.device[p] = Copy(n, "wrote", before=self.device[p].by)
        elif what in ("certify", "lose"):
            self.last["certified" if what == "certify" else "declared", p] = n
        elif what in ("rewind", "serve_as"):
            for i in range(PAGES if what == "serve_as" else PAGES - p[2]):
                self.last["expected", (p[0], p[1], i + (0 if what == "serve_as" else p[2]))] = n
        elif what in ("hold", "make_ring", "split_groups"):
            kind = {"hold": "kept", "make_ring": "ring", "split_groups": "boundary"}[what]
            self.last[kind, p[0], p[1]] = n
        if what == "spill":
            self.last["published", p[2]] = n

    def _machine(self, n: int, node: Seen) -> None:
        if node.what in ("demand_load", "remote_read"):
            self.link = (n, node.time)
        elif node.what == "late_copy" and self.link[1] > node.time:
            self.link = (n, self.link[1] + node.detail)
        elif node.what in BEGINS - {"run_ahead"}:
            self.link = (n, max(self.link[1], node.time) + self.cost)
        elif node.what == "enqueue":
            self.last["filed", node.detail] = n
        kind = {
            "defer_frees": "deferred",
            "relayout": "laid-out",
            "end_round": "idle",
            "event fail": "failed",
        }.get(node.what)
        if node.what == "event abort":
            for r in (0, 1):
                self.last["asked", r, self.epoch[r]] = n
        if kind is not None:
            self.last[kind,] = n
