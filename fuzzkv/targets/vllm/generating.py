"""How Hypothesis generates live schedules: the strategy of a hunt, what it climbs for, and what it remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase

from fuzzkv.strategies.memory import Failures, failed_before
from fuzzkv.strategies.ways import generated
from fuzzkv.targets.vllm.arms import Arm
from fuzzkv.targets.vllm.novelty import states
from fuzzkv.targets.vllm.policies import LivePolicy
from fuzzkv.targets.vllm.portfolio import Portfolio, form_of
from fuzzkv.targets.vllm.schedule import LiveSchedule


def drawn(portfolio: Portfolio) -> st.SearchStrategy[LiveSchedule]:
    """Hypothesis' own ways and the portfolio, half and half."""
    return generated(portfolio.form.space, numbered=portfolio.numbered)


def scores_of(arm: Arm) -> Mapping[str, float]:
    """What Hypothesis makes large: abstract states of page events in a run, and policies that acted."""
    return {
        "abstract states": float(len(states(arm.history))),
        "policies that acted": float(len(arm.policies) - len(arm.idle)),
    }


def remembered(
    database: ExampleDatabase | None, policies: Sequence[LivePolicy]
) -> Failures[LiveSchedule] | None:
    """What ``database`` remembers of a set; nothing without one."""
    return failed_before(database, form_of(policies).space, [policy.name for policy in policies])


def remember(
    database: ExampleDatabase | None, policies: Sequence[LivePolicy], schedule: LiveSchedule
) -> None:
    """Keep a schedule that failed for a set, less the events that mean nothing to it."""
    memory = remembered(database, policies)
    if memory is not None:
        ops = form_of(policies).ops
        memory.keep(schedule.with_events([event for event in schedule.events if event[0] in ops]))
