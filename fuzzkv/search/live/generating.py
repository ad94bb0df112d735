"""How Hypothesis generates schedules of a target: the strategy of a hunt, what it climbs for, and what it remembers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase

from fuzzkv.strategies.memory import Failures, failed_before
from fuzzkv.strategies.portfolio import Portfolio
from fuzzkv.strategies.ways import generated
from fuzzkv.targets.base import Arm, Language


class Novelty:
    """What was reached so far."""

    def __init__(self) -> None:
        self.seen: set[Hashable] = set()

    def new(self, states: frozenset[Hashable]) -> int:
        """How many of these states are new; they no longer are from now on."""
        reached = states - self.seen
        self.seen |= reached
        return len(reached)


def drawn(portfolio: Portfolio[Any]) -> st.SearchStrategy[Any]:
    """Hypothesis' own ways and the portfolio, half and half."""
    return generated(portfolio.space, numbered=portfolio.numbered)


def scores_of(arm: Arm[Any], states: frozenset[Hashable]) -> Mapping[str, float]:
    """What Hypothesis makes large: abstract states of a run, and policies that acted."""
    return {
        "abstract states": float(len(states)),
        "policies that acted": float(len(arm.policies) - len(arm.idle)),
    }


def remembered(
    database: ExampleDatabase | None, language: Language[Any], policies: Sequence[Any]
) -> Failures[Any] | None:
    """What ``database`` remembers of a set; nothing without one."""
    return failed_before(database, language.space_of(policies), [policy.name for policy in policies])


def remember(
    database: ExampleDatabase | None, language: Language[Any], policies: Sequence[Any], schedule: Any
) -> None:
    """Keep a schedule that failed for a set, less the events that mean nothing to it."""
    memory = remembered(database, language, policies)
    if memory is not None:
        space = language.space_of(policies)
        machine, rows = language.space.take(schedule)
        memory.keep(language.space.make(machine, [row for row in rows if row[0] in space.names]))
