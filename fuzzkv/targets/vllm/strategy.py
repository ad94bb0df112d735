"""The schedule space of a live engine, and Hypothesis' strategy of its schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

from fuzzkv.strategies import ways
from fuzzkv.strategies.space import ENVIRONMENT, REQUEST, Operation, Row, ScheduleSpace
from fuzzkv.targets.vllm.schedule import ARRIVE, BOUNDS, FORK, LONGEST, NEXT, OPS, Event, LiveSchedule

POOLS: Final = (48, 40, 32, 26, 22, 18, 16, 14, 12, 11, 10, 9)
"""Pools that are drawn, the roomiest first."""
CHUNKS: Final = (256, 192, 128, 96, 80, 64, 48, 40, 33, 32)
"""Token budgets of a step that are drawn."""
USUAL: Final = (8, 40)
"""Least and most events of a schedule whose length is chosen."""
WEIGHTS: Final = {
    "step": 18,
    "arrive": 16,
    "fork": 7,
    "abort": 4,
    "reset": 3,
    "hold": 3,
    "complete": 4,
    "fail": 2,
    "short": 2,
    "next": 5,
}
"""How often events are drawn."""
MOODS: Final[tuple[tuple[str, ...], ...]] = (
    ("arrive", "arrive", "step"),
    ("arrive", "fork", "step", "step"),
    ("step", "step", "complete"),
    ("hold", "arrive", "step", "complete", "abort"),
    ("reset", "arrive", "step"),
    ("abort", "step", "arrive", "fork"),
    ("fail", "short", "step", "complete", "arrive"),
    ("next", "arrive", "step"),
)
"""Favourites of a stretch."""
OF_TRANSFERS: Final = ("hold", "complete", "fail", "short")
"""Events that mean something only where a host tier is."""


def live_space(*, tier: bool = True, adapters: int = BOUNDS[NEXT][1][1]) -> ScheduleSpace[LiveSchedule]:
    """The space of schedules of an engine with or without a host tier, with so many adapters."""
    names = [name for name in OPS if tier or name not in OF_TRANSFERS]
    priorities, _, none = BOUNDS[NEXT]
    return LIVE.only(names, next=(priorities, (0, adapters), none))


def live_schedules(*, max_events: int = LONGEST) -> st.SearchStrategy[LiveSchedule]:
    """Schedules of a live engine, for a user's ``@given``."""
    return ways.schedules(LIVE, max_events)


def _make(machine: Sequence[int], rows: Sequence[Row]) -> LiveSchedule:
    pool, chunk = machine
    return LiveSchedule(pool, chunk, tuple(_event(row) for row in rows))


def _event(row: Row) -> Event:
    name, (a, b, c) = row
    return name, a, b, c


def _take(schedule: LiveSchedule) -> tuple[Sequence[int], Sequence[Row]]:
    if schedule.adapter:
        raise ValueError(f"adapter {schedule.adapter} is none that is drawn")
    return (schedule.pool, schedule.chunk), [(name, (a, b, c)) for name, a, b, c in schedule.events]


LIVE: Final = ScheduleSpace(
    target="vllm",
    operations=tuple(
        Operation(
            name,
            BOUNDS[name],
            WEIGHTS[name],
            opens=name in (ARRIVE, FORK),
            owner=REQUEST if name in (ARRIVE, FORK, "abort") else ENVIRONMENT,
        )
        for name in OPS
    ),
    machine={"pool": POOLS, "chunk": CHUNKS},
    longest=LONGEST,
    usual=USUAL,
    moods=MOODS,
    make=_make,
    take=_take,
)
"""All of them."""
