"""Asks of known schedules whether they are the shortest of their classes: one event less each, the shortest first.

One named class is asked about far more cheaply than anything new (``solver.ascent``), so depths are reached here that a
search without a start wouldn't come to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuzzkv.semantics.schedule import Event
from fuzzkv.solver.ascent import Judge
from fuzzkv.solver.asking import SolverQuestion, Space, unrolled
from fuzzkv.solver.unrolling import Breach, Unrolling

Events = tuple[Event, ...]


@dataclass
class Claim:
    """A class of a set and the shortest schedule known of it; ``shown`` once the space has none that is shorter.

    ``denied``: the solver had a schedule that the machine and the smaller sets say nothing of.  ``tries`` questions about it
    came to no answer in time.
    """

    mask: int
    target: Breach
    events: Events
    shown: bool = False
    denied: bool = False
    tries: int = 0


Tell = Callable[[Claim], None]
LEAST, PARTS, TURNS = 15.0, 8, 8
"""A question gets so many seconds, or this part of all, if others wait for their turn; twice as long the next time, and so
many turns at most: what ends without an answer long before its time (for its memory) will do so again.
"""


class Refuting:
    """Claims, ``workers`` questions at a time.

    ``judge`` is the machine; ``tell`` hears of each answer.  A schedule under which a smaller set fails too is no answer: the
    sets that failed are run beside from then on.
    """

    def __init__(
        self,
        spaces: dict[int, Space],
        claims: Sequence[Claim],
        judge: Judge,
        *,
        workers: int | None = None,
        tell: Tell | None = None,
    ) -> None:
        self.claims = list(claims)
        self._spaces = {(claim.mask, claim.target): spaces[claim.mask] for claim in claims}
        self._judge, self._tell = judge, tell
        self._workers = workers or max(1, min(2, os.cpu_count() or 1))
        self._running: list[tuple[Claim, SolverQuestion]] = []
        self._unrolled: dict[tuple[int, tuple[int, ...]], Unrolling] = {}

    def run(self, seconds: float) -> None:
        """Go on for so long.  An interrupt ends the questions and is raised."""
        until = time.monotonic() + seconds
        turn = max(LEAST, seconds / PARTS)
        try:
            while True:
                self._start(until, turn)
                if not self._running or time.monotonic() > until:
                    return
                self._take()
                time.sleep(0.01)
        finally:
            for _, asked in self._running:
                asked.cancel()
            self._running.clear()

    def _start(self, until: float, turn: float) -> None:
        busy = [id(claim) for claim, _ in self._running]
        open_ = [c for c in self.claims if not (c.shown or c.denied or c.tries >= TURNS)]
        waiting = [c for c in open_ if id(c) not in busy]
        for claim in sorted(
            waiting, key=lambda c: (c.tries, len(c.events), c.mask, c.target[0], str(c.target))
        ):
            left = until - time.monotonic()
            if len(self._running) >= self._workers or left <= 0:
                return
            if len(claim.events) == 1:
                claim.shown = True
                continue
            space, depth = self._spaces[claim.mask, claim.target], len(claim.events) - 1
            # Classes of one set are asked about on the same unrolling, the shortest first: to unroll takes half of the time.
            key = claim.mask, space.arms
            shared = self._unrolled.get(key)
            if shared is None or len(shared.events) > depth:
                shared = self._unrolled[key] = unrolled(space)
            longest = left if len(open_) <= self._workers else min(left, turn * 2**claim.tries)
            asked = SolverQuestion(space, depth, target=claim.target, seconds=longest, unrolling=shared)
            self._running.append((claim, asked))

    def _take(self) -> None:
        for pair in [pair for pair in self._running if not pair[1].running]:
            self._running.remove(pair)
            claim, asked = pair
            answer = asked.answer()
            if answer is None:
                claim.tries += 1
            elif isinstance(answer, bool):
                claim.shown = True
            else:
                self._look(claim, answer)
            if self._tell is not None:
                self._tell(claim)

    def _look(self, claim: Claim, events: Events) -> None:
        judged = self._judge(claim.mask, events)
        # A smaller set may fail after the class shows: then the schedule is cut there.
        cuts = (events, *(events[:n] for n in range(1, len(events)))) if self._arms(claim) else (events,)
        for cut in cuts:
            if claim.target in (judged if cut is events else self._judge(claim.mask, cut)).shown:
                claim.events = cut
                return
        key = claim.mask, claim.target
        if set(judged.failing) <= set(self._arms(claim)):
            claim.denied = True
            return
        self._spaces[key] = self._spaces[key].beside(judged.failing)

    def _arms(self, claim: Claim) -> tuple[int, ...]:
        return self._spaces[claim.mask, claim.target].arms
