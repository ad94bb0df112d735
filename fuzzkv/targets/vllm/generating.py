"""How Hypothesis generates live schedules: the strategy of a hunt, what it climbs for, and what it remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase

from fuzzkv.strategies.memory import Failures
from fuzzkv.strategies.ways import as_choices, beside
from fuzzkv.targets.vllm.arms import Arm
from fuzzkv.targets.vllm.novelty import states
from fuzzkv.targets.vllm.policies import LivePolicy
from fuzzkv.targets.vllm.portfolio import Portfolio, form_of
from fuzzkv.targets.vllm.schedule import LiveSchedule

SHARE: Final = 7
"""How often the portfolio draws, beside each of Hypothesis' own ways once."""


def drawn(portfolio: Portfolio) -> st.SearchStrategy[LiveSchedule]:
    """Hypothesis' own ways and the portfolio."""
    return beside(portfolio.form.space, portfolio.numbered, SHARE)


def scores_of(arm: Arm) -> Mapping[str, float]:
    """What Hypothesis makes large: abstract states of page events in a run, and policies that acted."""
    return {
        "abstract states": float(len(states(arm.history))),
        "policies that acted": float(len(arm.policies) - len(arm.idle)),
    }


def failed_before(
    database: ExampleDatabase | None, policies: Sequence[LivePolicy]
) -> Failures[LiveSchedule] | None:
    """What ``database`` remembers of a set; nothing without one."""
    if database is None:
        return None
    space = form_of(policies).space
    name = f"{space.target} {' '.join(sorted(policy.name for policy in policies))}"
    return Failures(database, name, lambda schedule: as_choices(space, schedule, way=True))
