"""Shrinking a schedule of a session, where every run is dear: by the passes of its language, with few engines asked.

The set of policies is the smallest already (:mod:`fuzzkv.targets.arms`).  While events are cut, only the set itself runs; in
the end every proper subset runs too.  One that fails there becomes a guard, which from then on has to pass for every
candidate, and shrinking begins again.  So few engines are asked, and the result is one that no subset shows.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Generic

from fuzzkv.core.results import FailureClass
from fuzzkv.strategies.passes import Pass, improve
from fuzzkv.targets.arms import below
from fuzzkv.targets.base import Arm, Language, P, Session

TRIES: Final = 600
"""Most candidates of one shrink: an engine runs some twenty a second of the small ones."""
LEAPS: Final = 80
"""Leaps from where cutting ends; half as many from a long schedule, before it is cut."""
RESTARTS: Final = 3


@dataclass
class SessionShrinker(Generic[P]):
    """Shrinks one schedule to one that shows the same class.  ``counts`` tells how often each pass tried and helped;
    ``guards`` are subsets that have to pass.
    """

    session: Session[P]
    language: Language[Any]
    failure_class: FailureClass
    policies: tuple[P, ...]
    tries: int = TRIES
    counts: dict[str, list[int]] = field(default_factory=dict)
    guards: list[tuple[P, ...]] = field(default_factory=list)
    tried: int = 0
    _known: dict[Any, bool] = field(default_factory=dict)

    def interesting(self, schedule: Any) -> bool:
        """Whether the set still shows the class, every policy acted, and the guards pass."""
        if schedule not in self._known:
            self.tried += 1
            arm = self.session.run(self.policies, schedule)
            self._known[schedule] = (
                self.failure_class in arm.classes()
                and not arm.idle
                and not any(self.session.run(guard, schedule).failed for guard in self.guards)
            )
        return self._known[schedule]

    def add_guard(self, policies: tuple[P, ...]) -> None:
        """From now on these have to pass.  What didn't show it before doesn't with one guard more, and isn't run again."""
        self.guards.append(policies)
        self._known = {schedule: shown for schedule, shown in self._known.items() if not shown}

    def shrink(self, schedule: Any) -> tuple[Any, tuple[Arm[P], ...]] | None:
        """The shrunk schedule with its arms, subsets first; ``None`` if no schedule was found that no subset shows."""
        for _ in range(RESTARTS):
            small = self._fixpoint(schedule)
            ran = tuple(below(self.session, self.policies, small))
            if not (ran and ran[-1].failed):
                whole = self.session.run(self.policies, small, fresh=True)
                return (small, (*ran, whole)) if self.failure_class in whole.classes() else None
            self.add_guard(ran[-1].policies)
        return None

    def _fixpoint(self, schedule: Any) -> Any:
        best, before = schedule, None
        while best != before:
            before = best
            if self.language.leaps_first(best):
                best = self._leap(best, [schedule], LEAPS // 2)
            for pass_ in self.language.passes():
                best = self._apply(pass_, best)
            if best == before:
                best = self._leap(best, list(dict.fromkeys((schedule, best))), LEAPS)
        return best

    def _leap(self, best: Any, sources: Sequence[Any], most: int) -> Any:
        rng = random.Random(f"{self.failure_class} {sources}")
        drawn = self.language.leaps(sources, best, self.policies, rng)

        def candidates(_: Any) -> Generator[Any, bool, None]:
            for candidate in islice(drawn, most):
                if (yield candidate):
                    return

        return self._apply(Pass("leaps", candidates), best)

    def _apply(self, pass_: Pass[Any], best: Any) -> Any:
        count = self.counts.setdefault(pass_.name, [0, 0])
        lowest = [self.language.cost(best)]

        def takes(candidate: Any) -> bool:
            cost = self.language.cost(candidate)
            if cost >= lowest[0] or (self.tried >= self.tries and candidate not in self._known):
                return False
            if not self.language.events(candidate):
                return False
            count[0] += 1
            shown = self.interesting(candidate)
            if shown:
                count[1] += 1
                lowest[0] = cost
            return shown

        return improve(pass_, best, takes)
