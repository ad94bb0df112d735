"""The schedule space of the model: what the semantics' events mean to whoever draws them.

The compiled generator (:mod:`fuzzkv.strategies.drawing`) draws from its table for the bulk search, Hypothesis from the same
description for users' tests and for hunts with policies in ordinary Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fuzzkv.semantics.schedule import ACT, ARRIVE, BOUNDS, EXTRA, OF_SESSION, OPS, QUEUE, Schedule
from fuzzkv.strategies.space import ENVIRONMENT, POLICY, REQUEST, Operation, Row, ScheduleSpace

LONGEST: Final = 64
"""Most events of a drawn schedule."""
WEIGHTS: Final = {"tick": 2, "arrive": 2, "step": 8, "act": 12, "fade": 2, "queue": 2, "grow": 4}
"""How often events are drawn; the others: once."""
MOODS: Final = (
    ("act",),
    ("act", "act", "tick"),
    ("act", "step"),
    ("step", "tick"),
    ("arrive", "act", "act"),
    ("arrive", "finish", "act", "tick"),
    ("queue", "act", "tick"),
    ("text", "queue", "arrive"),
    ("grow", "verify", "abort", "act"),
    ("fade", "act", "step"),
    ("pause", "act", "tick"),
    ("weights", "sleep", "act", "arrive"),
    ("pressure", "act", "fail", "late"),
)
"""Favourites of a stretch."""


def model_space(policies: Sequence[str], workload: Sequence[str] = ()) -> ScheduleSpace[Schedule]:
    """The space of a set of policies (names, slot by slot), which ask for these extra events."""

    def make(machine: Sequence[int], rows: Sequence[Row]) -> Schedule:
        return Schedule(tuple(policies), tuple((OPS.index(name), a, b) for name, (a, b) in rows))

    def take(schedule: Schedule) -> tuple[Sequence[int], Sequence[Row]]:
        return (), [(OPS[op], (a, b)) for op, a, b in schedule.events]

    whole = ScheduleSpace(
        target="model",
        operations=tuple(_operation(code, name) for code, name in enumerate(OPS)),
        machine={},
        longest=LONGEST,
        usual=(10, LONGEST - 1),
        moods=MOODS,
        make=make,
        take=take,
    )
    names = [name for name in OPS if name not in EXTRA or name in workload]
    return whole.only(names, act=((0, len(policies) - 1), (0, 0)))


def _operation(code: int, name: str) -> Operation:
    low_a, high_a, low_b, high_b = BOUNDS[code]
    return Operation(
        name,
        ((low_a, high_a), (low_b, high_b)),
        WEIGHTS.get(name, 1),
        opens=code in (ARRIVE, QUEUE),
        extra=name in EXTRA,
        owner=POLICY if code == ACT else REQUEST if code in OF_SESSION else ENVIRONMENT,
    )
