"""Shrinking a live schedule: fewer requests, fewer events, a roomier pool, smaller numbers, by small named passes.

The set of policies is the smallest already (:mod:`fuzzkv.live.arms`).  While events are cut, only the set itself runs;
in the end every proper subset runs too.  One that fails there becomes a guard, which from then on has to pass for every
candidate, and shrinking begins again.  So few engines are asked, and the result is one that no subset shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from fuzzkv.live.arms import Arm, Arms, LiveKind
from fuzzkv.live.policies import LivePolicy
from fuzzkv.live.schedule import ARRIVE, BOUNDS, FORK, HOLD, NEXT, OPS, STEP, Event, LiveSchedule
from fuzzkv.live.strategy import CHUNKS, POOLS

TRIES: Final = 600
"""Most candidates of one shrink: an engine runs a few a second."""
RESTARTS: Final = 3
_PAIRS: Final = 24


def cost(schedule: LiveSchedule) -> tuple[int, int, int, int, int, tuple[Event, ...]]:
    """What shrinking lowers: requests, events, their kinds, how tight pool and chunk are, numbers."""
    tight = max(0, POOLS[0] - schedule.pool) + max(0, CHUNKS[0] - schedule.chunk)
    kinds = sum(OPS.index(op) for op, *_ in schedule.events)
    numbers = sum(a + b + c for _, a, b, c in schedule.events)
    return schedule.requests, len(schedule.events), kinds, tight, numbers, schedule.events


@dataclass(frozen=True)
class Pass:
    """One way to make a schedule simpler: proposes candidates, in the order in which they are worth trying."""

    name: str
    candidates: Callable[[LiveSchedule], Iterator[LiveSchedule]]


def _cut(schedule: LiveSchedule) -> Iterator[LiveSchedule]:
    events = schedule.events
    size = len(events) // 2
    while size >= 1:
        for start in range(len(events) - size, -1, -size):
            yield schedule.with_events(events[:start] + events[start + size :])
        size //= 2
    for at in range(len(events) - 1, -1, -1):
        yield schedule.with_events(events[:at] + events[at + 1 :])


def _cut_two(schedule: LiveSchedule) -> Iterator[LiveSchedule]:
    events = schedule.events
    if len(events) <= _PAIRS:
        for i in range(len(events)):
            for j in range(i + 1, len(events)):
                yield schedule.with_events(events[:i] + events[i + 1 : j] + events[j + 1 :])


def _fewer_requests(schedule: LiveSchedule) -> Iterator[LiveSchedule]:
    opens = [at for at, event in enumerate(schedule.events) if event[0] in (ARRIVE, FORK)]
    for keep in range(1, len(opens)):
        # The last ones matter most: what breaks, breaks late.
        gone = set(opens[:-keep])
        yield schedule.with_events([event for at, event in enumerate(schedule.events) if at not in gone])


def _merge_steps(schedule: LiveSchedule) -> Iterator[LiveSchedule]:
    events = schedule.events
    for at in range(len(events) - 1):
        one, two = events[at], events[at + 1]
        if one[0] == STEP == two[0] and one[1] + two[1] <= BOUNDS[STEP][0][1]:
            yield schedule.with_events((*events[:at], (STEP, one[1] + two[1], 0, 0), *events[at + 2 :]))


def _simpler_events(schedule: LiveSchedule) -> Iterator[LiveSchedule]:
    for at, (op, a, b, c) in enumerate(schedule.events):
        if op == FORK:
            yield _with(schedule, at, (ARRIVE, a, b, c))
        elif op in (HOLD, NEXT):
            yield _with(schedule, at, (STEP, 1, 0, 0))


def _calmer(schedule: LiveSchedule) -> Iterator[LiveSchedule]:
    for pool in POOLS:
        if pool > schedule.pool:
            yield replace(schedule, pool=pool)
    for chunk in CHUNKS:
        if chunk > schedule.chunk:
            yield replace(schedule, chunk=chunk)


def _smaller_numbers(schedule: LiveSchedule) -> Iterator[LiveSchedule]:
    for at, (op, *numbers) in enumerate(schedule.events):
        for place, value in enumerate(numbers):
            low = BOUNDS[op][place][0]
            for lower in sorted({low, (low + value) // 2, value - 4, value - 1}):
                if low <= lower < value:
                    fewer = [*numbers]
                    fewer[place] = lower
                    yield _with(schedule, at, (op, fewer[0], fewer[1], fewer[2]))


def _with(schedule: LiveSchedule, at: int, event: Event) -> LiveSchedule:
    return schedule.with_events((*schedule.events[:at], event, *schedule.events[at + 1 :]))


PASSES: Final[tuple[Pass, ...]] = (
    Pass("fewer requests", _fewer_requests),
    Pass("runs of events", _cut),
    Pass("steps together", _merge_steps),
    Pass("simpler events", _simpler_events),
    Pass("roomier machine", _calmer),
    Pass("smaller numbers", _smaller_numbers),
    Pass("two events", _cut_two),
)
"""The passes, in order."""


@dataclass
class LiveShrinker:
    """Shrinks one schedule to one that shows the same kind.  ``counts`` tells how often each pass tried and helped;
    ``guards`` are subsets that have to pass.
    """

    arms: Arms
    kind: LiveKind
    policies: tuple[LivePolicy, ...]
    tries: int = TRIES
    counts: dict[str, list[int]] = field(default_factory=dict)
    guards: list[tuple[LivePolicy, ...]] = field(default_factory=list)
    tried: int = 0
    _known: dict[LiveSchedule, bool] = field(default_factory=dict)

    def interesting(self, schedule: LiveSchedule) -> bool:
        """Whether the set still shows the kind, every policy acted, and the guards pass."""
        if schedule not in self._known:
            self.tried += 1
            arm = self.arms.run(self.policies, schedule)
            self._known[schedule] = (
                self.kind in arm.kinds()
                and not arm.idle
                and not any(self.arms.run(guard, schedule).failed for guard in self.guards)
            )
        return self._known[schedule]

    def shrink(self, schedule: LiveSchedule) -> tuple[LiveSchedule, tuple[Arm, ...]] | None:
        """The shrunk schedule with its arms, subsets first; ``None`` if no schedule was found that no subset shows."""
        for _ in range(RESTARTS):
            small = self._fixpoint(schedule)
            below = tuple(self.arms.subsets(self.policies, small))
            if not (below and below[-1].failed):
                whole = self.arms.run(self.policies, small, fresh=True)
                return (small, (*below, whole)) if self.kind in whole.kinds() else None
            self.guards.append(below[-1].policies)
            self._known.clear()
        return None

    def _fixpoint(self, schedule: LiveSchedule) -> LiveSchedule:
        best, before = schedule, None
        while best != before:
            before = best
            for pass_ in PASSES:
                best = self._apply(pass_, best)
        return best

    def _apply(self, pass_: Pass, best: LiveSchedule) -> LiveSchedule:
        tried, helped = self.counts.setdefault(pass_.name, [0, 0])
        progress = True
        while progress:
            progress = False
            for candidate in pass_.candidates(best):
                if self.tried >= self.tries:
                    break
                tried += 1
                if cost(candidate) < cost(best) and self.interesting(candidate):
                    best, progress, helped = candidate, True, helped + 1
                    break
        self.counts[pass_.name] = [tried, helped]
        return best
