"""The language of live schedules: which events mean something to a set of policies, which sets one engine can have, what a run
shows that is new, and how a schedule is made simpler.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from fuzzkv.strategies.passes import Pass
from fuzzkv.strategies.space import ScheduleSpace
from fuzzkv.targets.base import Arm, Language
from fuzzkv.targets.vllm.leaps import FEW, leaps
from fuzzkv.targets.vllm.novelty import states
from fuzzkv.targets.vllm.passes import MANY, PASSES, TIGHT, cost
from fuzzkv.targets.vllm.policies import LivePolicy, compatible, compose
from fuzzkv.targets.vllm.portfolio import EnginePortfolio, form_of
from fuzzkv.targets.vllm.schedule import BOUNDS, STEP, LiveSchedule
from fuzzkv.targets.vllm.strategy import LIVE


class EngineLanguage(Language[LiveSchedule]):
    """Schedules of an engine, and its policies as changes of one configuration."""

    def __init__(self) -> None:
        super().__init__(LIVE)

    def space_of(self, policies: Sequence[LivePolicy]) -> ScheduleSpace[LiveSchedule]:
        """The schedules that mean something to a set: with transfers where a host tier is, with adapters where they are."""
        return form_of(policies).space

    def portfolio(self, policies: Sequence[LivePolicy], seed: str) -> EnginePortfolio:
        """What draws for a set beside Hypothesis' own ways."""
        return EnginePortfolio(form_of(policies), seed)

    def states(self, arm: Arm[Any]) -> frozenset[Hashable]:
        """Abstract states of page events."""
        return frozenset(states(arm.history))

    def events(self, schedule: LiveSchedule) -> Sequence[tuple[Any, ...]]:
        """Its events."""
        return schedule.events

    def as_json(self, schedule: LiveSchedule) -> dict[str, Any]:
        """Pool, chunk and events, and the adapter if there is one."""
        return schedule.as_json()

    def cost(self, schedule: LiveSchedule) -> Any:
        """Requests first, then events, their kinds, how tight pool and chunk are, numbers."""
        return cost(schedule)

    def passes(self) -> Sequence[Pass[LiveSchedule]]:
        """Ways to make a schedule simpler, in order."""
        return PASSES

    def leaps(
        self,
        sources: Sequence[LiveSchedule],
        best: LiveSchedule,
        policies: Sequence[LivePolicy],
        rng: random.Random,
    ) -> Iterator[LiveSchedule]:
        """Small schedules of the parts of others; none where there are few requests already."""
        if best.requests <= FEW:
            return iter(())
        return leaps(sources, form_of(policies).ops, TIGHT, rng, min(best.requests - 1, FEW + 1))

    def leaps_first(self, schedule: LiveSchedule) -> bool:
        """Of many requests one leap costs less than a cut."""
        return schedule.requests > MANY

    def near(self, schedule: LiveSchedule) -> Iterator[LiveSchedule]:
        """The schedule with one stretch of steps longer or shorter."""
        events, (least, most) = schedule.events, BOUNDS[STEP][0]
        for i, (op, a, b, c) in enumerate(events):
            for steps in range(least, most + 1) if op == STEP else ():
                if steps != a:
                    yield schedule.with_events((*events[:i], (op, steps, b, c), *events[i + 1 :]))

    def possible(self, policies: Sequence[LivePolicy]) -> bool:
        """Whether one engine can have these, and each changes something that the others don't."""
        return compatible(policies) and distinct(policies)


def distinct(chosen: Sequence[LivePolicy]) -> bool:
    """Whether every policy of a set changes something that the others don't: else a smaller set is the same engine."""
    whole = _engine(chosen)
    return all(_engine([p for p in chosen if p is not left_out]) != whole for left_out in chosen)


def _engine(policies: Sequence[LivePolicy]) -> tuple[object, ...]:
    return compose(policies), frozenset(policy.drives for policy in policies) - {""}
