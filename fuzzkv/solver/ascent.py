"""Iterative deepening: every set of some policies, one event deeper at a time, until the time is over.

At each depth a set is asked for a violation that isn't known yet; an answer is judged on the machine, its class is taken
away, and the set is asked again.  When there is none, every schedule of that many events is safe but for the classes found,
and each of these is at its shortest, for the depth before held none of it.  Schedules that begin with idle time aren't among
them: they are asked about where a case is certified (``solver.shortest``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fuzzkv.semantics.schedule import Event
from fuzzkv.solver.asking import SolverQuestion, Space
from fuzzkv.solver.unrolling import Breach

Events = tuple[Event, ...]
PATIENCE = 60
"""Answers that are none after which a set with a policy in ordinary Python is given up."""


@dataclass(frozen=True)
class Judged:
    """The verdict of the machine on a schedule: the classes that the whole set shows, or which smaller sets fail under it."""

    shown: tuple[Breach, ...] = ()
    failing: tuple[int, ...] = ()


Judge = Callable[[int, Events], Judged]


@dataclass
class Climb:
    """How far one set has come: every schedule of up to ``depth`` events shows only what was ``found`` (class -> shortest
    schedule) or set ``aside`` (class -> the length from which on it isn't asked for: what is known from elsewhere is still
    looked for in fewer events).  ``ending`` says why it ended, empty while it goes on; ``spurious`` answers were none.
    """

    mask: int
    space: Space
    depth: int = 0
    found: dict[Breach, Events] = field(default_factory=dict)
    aside: dict[Breach, int] = field(default_factory=dict)
    spurious: int = 0
    questions: int = 0
    seconds: float = 0.0
    ending: str = ""

    @property
    def known(self) -> tuple[Breach, ...]:
        """Classes that aren't asked for any more, in one event more than ``depth``."""
        aside = [target for target, length in self.aside.items() if length <= self.depth + 1]
        return (*self.found, *sorted(set(aside) - set(self.found), key=str))


Tell = Callable[[Climb], None]


class Ascent:
    """All sets at once, ``workers`` questions at a time, the shallowest set first.

    ``judge`` is the machine; ``tell`` hears of each answer.
    """

    def __init__(
        self,
        spaces: dict[int, Space],
        judge: Judge,
        *,
        workers: int | None = None,
        tell: Tell | None = None,
    ) -> None:
        self.climbs = [Climb(mask, space) for mask, space in spaces.items()]
        self._judge, self._deepest, self._tell = judge, 0, tell
        self._workers = workers or max(1, min(2, os.cpu_count() or 1))
        self._running: dict[int, tuple[SolverQuestion, float]] = {}

    def run(self, seconds: float, deepest: int = 64) -> None:
        """Go on for so long, or to so many events.  An interrupt ends the questions and is raised."""
        self._deepest = deepest
        for climb in self.climbs:
            if climb.ending in ("time", "depth"):
                climb.ending = "depth" if climb.depth >= deepest else ""
        until = time.monotonic() + seconds
        try:
            while self._start(until) or self._running:
                self._wait(until)
        finally:
            for asked, _ in self._running.values():
                asked.cancel()
            self._running.clear()
        for climb in self.climbs:
            climb.ending = climb.ending or "time"

    def _ready(self) -> Sequence[Climb]:
        open_ = [c for c in self.climbs if not c.ending and c.mask not in self._running]
        # A larger set waits for its parts: what they show is none of its own.
        return sorted(
            (c for c in open_ if not any(self._behind(other, c) for other in self.climbs)),
            key=lambda c: (c.depth, c.mask.bit_count(), c.mask),
        )

    @staticmethod
    def _behind(part: Climb, climb: Climb) -> bool:
        inside = part.mask != climb.mask and part.mask & climb.mask == part.mask
        return inside and not part.ending and part.depth <= climb.depth

    def _start(self, until: float) -> bool:
        for climb in self._ready():
            if len(self._running) >= self._workers:
                break
            left = until - time.monotonic()
            if left <= 0:
                return False
            for part in self.climbs:
                if part.mask & climb.mask == part.mask:
                    # What a part shows in more events is none of this set's own either.
                    theirs = {*part.found, *part.aside} if part is not climb else ()
                    climb.aside.update(dict.fromkeys(theirs, 0))
            began = time.monotonic()
            asked = SolverQuestion(climb.space, climb.depth + 1, known=climb.known, seconds=left)
            climb.questions += 1
            self._running[climb.mask] = (asked, began)
        return bool(self._running)

    def _wait(self, until: float) -> None:
        while True:
            for climb in self.climbs:
                if climb.mask in self._running and not self._running[climb.mask][0].running:
                    asked, began = self._running.pop(climb.mask)
                    climb.seconds += time.monotonic() - began
                    self._take(climb, asked.answer())
                    if self._tell is not None:
                        self._tell(climb)
                    return
            if time.monotonic() > until:
                for asked, _ in self._running.values():
                    asked.cancel()
                self._running.clear()
                return
            time.sleep(0.01)

    def _take(self, climb: Climb, answer: Events | bool | None) -> None:
        if answer is None:
            climb.ending = "time"
        elif isinstance(answer, bool):
            climb.depth += 1
            if climb.depth >= self._deepest:
                climb.ending = "depth"
        else:
            self._look(climb, answer)

    def _look(self, climb: Climb, events: Events) -> None:
        judged = self._judge(climb.mask, events)
        new = [target for target in judged.shown if target not in climb.known]
        climb.found.update(dict.fromkeys(new, events))
        if new:
            return
        climb.spurious += 1
        excused = not set(judged.failing) <= set(climb.space.arms)
        if climb.space.wide:
            # What a manifest declares is more than the policy does; arms of it would be as wide and exclude what is real.
            climb.space = climb.space.without(events)
            if climb.spurious >= PATIENCE:
                climb.ending = "envelope"
        elif excused:
            climb.space = climb.space.beside(judged.failing)
        else:
            # Neither shown nor excused: the interpreters disagree, and whoever asked has to say so.
            climb.ending = "disagreement"
