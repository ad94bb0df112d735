"""Shrinking a live schedule: fewer requests, fewer events, a roomier pool, smaller numbers, by small named passes.

The set of policies is the smallest already (:mod:`fuzzkv.targets.vllm.arms`).  While events are cut, only the set itself runs;
in the end every proper subset runs too.  One that fails there becomes a guard, which from then on has to pass for every
candidate, and shrinking begins again.  So few engines are asked, and the result is one that no subset shows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from fuzzkv.cases.live_leaps import FEW, leaps
from fuzzkv.cases.live_passes import MANY, PASSES, TIGHT, Pass, Test, cost
from fuzzkv.targets.vllm.arms import Arm, Arms, LiveKind
from fuzzkv.targets.vllm.policies import LivePolicy
from fuzzkv.targets.vllm.portfolio import form_of
from fuzzkv.targets.vllm.schedule import LiveSchedule

TRIES: Final = 600
"""Most candidates of one shrink: an engine runs some twenty a second of the small ones."""
LEAPS: Final = 80
"""Leaps from where cutting ends; half as many from a long schedule, before it is cut."""
RESTARTS: Final = 3


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

    def add_guard(self, policies: tuple[LivePolicy, ...]) -> None:
        """From now on these have to pass.  What didn't show it before doesn't with one guard more, and isn't run again."""
        self.guards.append(policies)
        self._known = {schedule: shown for schedule, shown in self._known.items() if not shown}

    def shrink(self, schedule: LiveSchedule) -> tuple[LiveSchedule, tuple[Arm, ...]] | None:
        """The shrunk schedule with its arms, subsets first; ``None`` if no schedule was found that no subset shows."""
        for _ in range(RESTARTS):
            small = self._fixpoint(schedule)
            below = tuple(self.arms.subsets(self.policies, small))
            if not (below and below[-1].failed):
                whole = self.arms.run(self.policies, small, fresh=True)
                return (small, (*below, whole)) if self.kind in whole.kinds() else None
            self.add_guard(below[-1].policies)
        return None

    def _fixpoint(self, schedule: LiveSchedule) -> LiveSchedule:
        best, before = schedule, None
        while best != before:
            before = best
            if best.requests > MANY:
                # One costs less than a cut of so long a schedule.
                best = self._leap(best, [schedule], LEAPS // 2)
            for pass_ in PASSES:
                best = self._apply(pass_, best)
            if best == before and best.requests > FEW:
                best = self._leap(best, list(dict.fromkeys((schedule, best))), LEAPS)
        return best

    def _leap(self, best: LiveSchedule, sources: Sequence[LiveSchedule], most: int) -> LiveSchedule:
        rng = random.Random(f"{self.kind} {sources}")
        fewer = min(best.requests - 1, FEW + 1)
        candidates = leaps(sources, form_of(self.policies).ops, TIGHT, rng, fewer)

        def run(schedule: LiveSchedule, test: Test) -> LiveSchedule:
            return next(filter(test, islice(candidates, most)), schedule)

        return self._apply(Pass("leaps", run), best)

    def _apply(self, pass_: Pass, best: LiveSchedule) -> LiveSchedule:
        count = self.counts.setdefault(pass_.name, [0, 0])
        lowest = [best]

        def test(candidate: LiveSchedule) -> bool:
            if cost(candidate) >= cost(lowest[0]) or (
                self.tried >= self.tries and candidate not in self._known
            ):
                return False
            count[0] += 1
            shown = self.interesting(candidate)
            if shown:
                count[1] += 1
                lowest[0] = candidate
            return shown

        return pass_.run(best, test)
