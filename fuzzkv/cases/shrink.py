"""Shrinking: over the set of policies first, then over events, to a case in which nothing can be left out.

Our own passes are small named objects that know schedules (drop the acts of others, cut runs, end early, make
sessions small, times short); Hypothesis' shrinker starts from what they leave; in the end every single event
is tried once more, so the result is 1-minimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from fuzzkv.cases.edits import TRIES, leaps
from fuzzkv.core.results import FailureClass, mask_of
from fuzzkv.oracles.conflict import Finding, findings
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.semantics.contract.minimal import subsets
from fuzzkv.semantics.schedule import (
    ABORT,
    ACT,
    ARRIVE,
    BOUNDS,
    FADE,
    FAIL,
    FINISH,
    LATE,
    OF_SESSION,
    OPS,
    QUEUE,
    STEP,
    TICK,
    Event,
    Schedule,
)
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.strategies.memory import StartFrom
from fuzzkv.strategies.model import LONGEST, model_space
from fuzzkv.strategies.passes import Candidates, Pass, improve, runs_of_events, two_events
from fuzzkv.strategies.ways import as_choices, plain

Events = tuple[Event, ...]
OPENS = (ARRIVE, QUEUE)
"""Events in which a session of ``b`` pages begins."""


def cost(events: Events) -> tuple[int, int, int, Events]:
    """What shrinking lowers: number of events, then their kinds (time passing is the simplest), then their
    numbers.
    """
    return len(events), sum(op for op, _, _ in events), sum(a + b for _, a, b in events), events


@dataclass(frozen=True)
class Goal:
    """What a shrunk schedule must still show: this class of conflict, and these qualities if the first
    schedule had them.
    """

    failure_class: FailureClass
    worse: bool
    consequence: bool


class _Found(Exception):
    """A drawn schedule reaches the goal."""


@dataclass
class Shrinker:
    """Shrinks one schedule for one goal.  ``counts`` tells how often each pass tried and how often it
    helped; ``tries`` leaps are drawn from each schedule that the passes leave.
    """

    engine: BulkEngine
    goal: Goal
    counts: dict[str, list[int]] = field(default_factory=dict)
    thorough: bool = True
    tries: int = TRIES

    @property
    def mask(self) -> int:
        """The mask of the goal's policies."""
        return mask_of(self.engine.names, self.goal.failure_class.policies)

    def look(self, events: Events) -> Finding | None:
        """The conflict of the goal's kind that these events show, or ``None``."""
        mask = self.mask
        whole = self.engine.outcome(events, mask)
        if not whole.failed or whole.acted & mask != mask:
            return None
        if not any(v.invariant == self.goal.failure_class.invariant for v in whole.failures):
            return None
        arms = {mask: whole}
        for sub in subsets(mask):
            arms[sub] = self.engine.outcome(events, sub)
            if arms[sub].failed:
                return None
        for finding in findings(arms, mask, self.engine.names):
            if finding.failure_class == self.goal.failure_class:
                return finding
        return None

    def interesting(self, events: Events) -> bool:
        """Whether these events still reach the goal."""
        kind = self.goal.failure_class
        causes = () if self.goal.consequence else BY_ID[kind.invariant].implied_by
        return bool(events) and self.engine.shows(events, kind, self.goal.worse, causes)

    def hasten(self, events: Events) -> Events:
        """The events after our own passes alone, which takes hundredths of a second; 1-minimal."""
        best, before = events, None
        while best != before:
            before = best
            for pass_ in passes_of(self.mask):
                best = self._apply(pass_, best)
        return best

    def shorten(self, events: Events) -> Events:
        """The events after our own passes and random leaps, without Hypothesis."""
        best = self.hasten(events)
        while (leapt := self._leap(best)) != best:
            best = self.hasten(leapt)
        return best

    def shrink(self, events: Events) -> Events:
        """The shrunk events; 1-minimal: without any one event the goal isn't reached."""
        if self.goal.consequence or not self.thorough:
            # A consequence is no kind of its own, so it isn't filed: not worth the slower passes.
            return self.hasten(events)
        best = self.shorten(events)
        while (finished := self._hypothesis(best)) != best:
            best = self.shorten(finished)
        return best

    def _leap(self, best: Events) -> Events:
        tried, helped = self.counts.setdefault("leaps", [0, 0])
        for candidate in leaps(best, self.tries):
            tried += 1
            if self.interesting(candidate):
                self.counts["leaps"] = [tried, helped + 1]
                return candidate
        self.counts["leaps"] = [tried, helped]
        return best

    def _apply(self, pass_: Pass[Events], best: Events) -> Events:
        count = self.counts.setdefault(pass_.name, [0, 0])
        lowest = [best]

        def takes(candidate: Events) -> bool:
            count[0] += 1
            shown = cost(candidate) < cost(lowest[0]) and self.interesting(candidate)
            if shown:
                count[1] += 1
                lowest[0] = candidate
            return shown

        # A run takes microseconds, so a pass begins anew with each success, and misses less.
        return improve(pass_, best, takes, anew=True)

    def _hypothesis(self, best: Events) -> Events:
        names = self.engine.names
        workload = sorted({name for policy in self.engine.policies for name in policy.workload})
        space = model_space(names, workload)
        if len(best) > LONGEST or not {OPS[op] for op, _, _ in best} <= set(space.names):
            return best
        last = [best]

        # Seeded, so that the same schedule shrinks to the same case; the settings come after the seed, which
        # would take the database away.
        @settings(
            database=StartFrom(as_choices(space, Schedule(names, best))),
            phases=(Phase.reuse, Phase.shrink),
            max_examples=600,
            deadline=None,
            verbosity=Verbosity.quiet,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @seed(0)
        @given(plain(space))
        def no_conflict(drawn: Schedule) -> None:
            if self.interesting(drawn.events):
                last[0] = drawn.events
                raise _Found

        with suppress(_Found):
            no_conflict()
        smaller = cost(last[0]) < cost(best)
        self.counts["hypothesis"] = [1, int(smaller)]
        return last[0] if smaller else best


def _cut_two(events: Events) -> Candidates[Events]:
    # Pairs matter: a session that opens and closes, an act and the time it needs.
    return two_events(events, len(events) if len(events) <= 40 else 0)


def _replace(events: Events, i: int, event: Event) -> Events:
    return (*events[:i], event, *events[i + 1 :])


def _smaller_numbers(events: Events) -> Candidates[Events]:
    for i, (op, a, b) in enumerate(events):
        low_a, _, low_b, _ = BOUNDS[op]
        if op in (TICK, LATE):
            for shorter in sorted({low_a, a // 2, a - 4, a - 1}):
                if low_a <= shorter < a:
                    yield _replace(events, i, (op, shorter, b))
        elif op not in (ACT, FINISH, FAIL):
            for lower in range(low_b, b):
                yield _replace(events, i, (op, a, lower))
            for lower in range(low_a, a):
                yield _replace(events, i, (op, lower, b))


def _same_session(events: Events) -> Candidates[Events]:
    # All of session 1 becomes session 0, and all pages move down by one, at once.
    moved = tuple((op, 0 if op in OF_SESSION else a, b) for op, a, b in events)
    if moved != events:
        yield moved
    for page in range(1, 8):
        yield tuple(
            (op, a, b - 1 if (op in (STEP, FADE, ABORT) and b >= page) or (op in OPENS and b > page) else b)
            for op, a, b in events
        )


def _merge_ticks(events: Events) -> Candidates[Events]:
    for i, j in zip(range(len(events)), range(1, len(events)), strict=False):
        if events[i][0] == TICK == events[j][0] and events[i][1] + events[j][1] <= BOUNDS[TICK][1]:
            yield (*events[:i], (TICK, events[i][1] + events[j][1], 0), *events[j + 1 :])
    for i, (op, _, _) in enumerate(events):
        # A step that only lets time pass is a tick.
        if op == STEP:
            yield _replace(events, i, (TICK, 5, 0))
            yield _replace(events, i, (TICK, 10, 0))


PASSES: tuple[Pass[Events], ...] = (
    Pass("runs of events", lambda events: runs_of_events(events, everywhere=True)),
    Pass("two events", _cut_two),
    Pass("one session, fewer pages", _same_session),
    Pass("ticks", _merge_ticks),
    Pass("smaller numbers", _smaller_numbers),
)
"""The passes of any set, in order."""


def passes_of(mask: int) -> tuple[Pass[Events], ...]:
    """All passes for a set of policies: what others do goes first."""

    def own(events: Events) -> Candidates[Events]:
        kept = tuple(e for e in events if e[0] != ACT or mask >> e[1] & 1)
        if kept != events:
            yield kept

    return (Pass("acts of other policies", own), *PASSES)


def shrink(
    engine: BulkEngine,
    kind: FailureClass,
    events: Sequence[Event],
    *,
    thorough: bool = True,
    damage: bool = True,
) -> tuple[Events, Finding] | None:
    """Shrink a schedule that shows a conflict of this kind; ``None`` if it doesn't show one.

    ``thorough`` lets Hypothesis have the last word; without it our own passes alone make it 1-minimal.
    Keeps what makes a case worth confirming: bytes that end up worse than in every subset (with ``damage``), and
    being no mere consequence of another violation.
    """
    start = tuple(events)
    first = Shrinker(engine, Goal(kind, False, True)).look(start)
    if first is None:
        return None
    shrinker = Shrinker(engine, Goal(kind, damage and first.worse, first.consequence), thorough=thorough)
    small = shrinker.shrink(start)
    last = shrinker.look(small)
    # A policy that remembers something outside the state may show it once and never again.
    return None if last is None else (small, last)
