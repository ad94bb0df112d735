"""Draws of strategies in tests: so many of them, or what certain choices draw."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase

from fuzzkv.strategies.memory import StartFrom

T = TypeVar("T")


def drawn(strategy: st.SearchStrategy[T], count: int, number: int = 0) -> list[T]:
    """What Hypothesis draws of a strategy."""
    return _drawn(strategy, None, Phase.generate, count, number)


def drawn_from(strategy: st.SearchStrategy[T], choices: bytes) -> T:
    """What these choices draw."""
    (found,) = _drawn(strategy, StartFrom(choices), Phase.reuse, 1, 0)
    return found


def _drawn(
    strategy: st.SearchStrategy[T], database: ExampleDatabase | None, phase: Phase, count: int, number: int
) -> list[T]:
    found: list[T] = []

    @settings(
        database=database,
        phases=[phase],
        max_examples=count,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @seed(number)
    @given(strategy)
    def note(value: T) -> None:
        found.append(value)

    note()
    return found
