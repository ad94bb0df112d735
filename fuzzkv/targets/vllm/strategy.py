"""The schedule space of a live engine, and Hypothesis' strategy of its schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hypothesis import strategies as st

from fuzzkv.strategies import ways
from fuzzkv.strategies.numbers import Numbers
from fuzzkv.strategies.space import ENVIRONMENT, REQUEST, Operation, Row, ScheduleSpace
from fuzzkv.targets.vllm.schedule import (
    ABORT,
    ARRIVE,
    BOUNDS,
    COMPLETE,
    FAIL,
    FORK,
    HOLD,
    LONGEST,
    NEXT,
    OPS,
    PROMPTS,
    RESET,
    SHORT,
    STEP,
    Event,
    LiveSchedule,
)

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


TROUBLE: Final = (STEP, STEP, STEP, ARRIVE, ARRIVE, RESET, ABORT, COMPLETE, COMPLETE, FAIL, SHORT, FORK, HOLD)
"""What comes while pages are on their way back."""


def live_space(*, tier: bool = True, adapters: int = BOUNDS[NEXT][1][1]) -> ScheduleSpace[LiveSchedule]:
    """The space of schedules of an engine with or without a host tier, with so many adapters."""
    names = [name for name in OPS if tier or name not in OF_TRANSFERS]
    priorities, _, none = BOUNDS[NEXT]
    space = LIVE.only(names, next=(priorities, (0, adapters), none))
    return space if tier else replace(space, ways=())


def live_schedules(*, max_events: int = LONGEST) -> st.SearchStrategy[LiveSchedule]:
    """Schedules of a live engine, for a user's ``@given``."""
    return ways.schedules(LIVE, max_events)


def returns(space: ScheduleSpace[LiveSchedule], numbers: Numbers) -> list[Row]:
    """A prompt comes again after its pages have left the device, while transfers are held, and then there is trouble."""

    def some(names: Sequence[str], count: int) -> list[Row]:
        return numbers.rows([space.operation(name) for name in names], count)

    prompt, size = numbers.below(PROMPTS), numbers.between(8, 20)
    found: list[Row] = [(ARRIVE, (prompt, size, numbers.between(1, 4))), (STEP, (8, 0, 0))]
    # Others push its pages out, or a reset does.
    found += some((ARRIVE, ARRIVE, STEP, STEP), 4) if numbers.below(2) else [(RESET, (0, 0, 0))]
    found.append((HOLD, (1, 0, 0)))
    again = [(ARRIVE, (prompt, size + numbers.below(4), numbers.between(1, 8)))]
    others = [*some((ARRIVE,), 1), *some((STEP,), 1)]
    found += [*again, *others] if numbers.below(2) else [*others, *again]
    return [*found, *some(TROUBLE, numbers.between(3, 12))]


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
            owner=REQUEST if name in (ARRIVE, FORK, ABORT) else ENVIRONMENT,
        )
        for name in OPS
    ),
    machine={"pool": POOLS, "chunk": CHUNKS},
    longest=LONGEST,
    usual=USUAL,
    moods=MOODS,
    make=_make,
    take=_take,
    ways=(returns,),
)
"""All of them."""
