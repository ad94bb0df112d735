"""Plans: which set, which way of drawing, which sessions, pools and kinds of events a schedule has.

They come from covering arrays, so that after one cycle through the rows every pair (or triple) of levels of any
two (three) factors has been drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from fuzzkv.errors import UsageError, did_you_mean
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, EXTRA, OPS, PRESSURE, STEP, Event
from fuzzkv.strategies import drawing
from fuzzkv.strategies.model import model_space

PRESSURES = 4
"""Levels of pressure: none, a tight device pool, a tight host pool, both."""


def enabled(policies: Sequence[Policy]) -> tuple[int, ...]:
    """Codes of the events that are drawn for a set.  Raises ``UsageError`` (FKV034) for a name that is none."""
    named = set()
    for policy in policies:
        for name in policy.workload:
            if name not in EXTRA:
                raise UsageError(
                    code="FKV034",
                    value=f"{policy.name}: {name!r}",
                    reason="is no event that can be drawn",
                    cure=did_you_mean(name, EXTRA),
                )
            named.add(OPS.index(name))
    return tuple(op for op in range(len(OPS)) if OPS[op] not in EXTRA or op in named)


def odds_of(policies: Sequence[Policy]) -> Any:
    """The table of events: weight (0: not drawn), bounds of ``a`` and ``b``, owner."""
    table = np.zeros((len(OPS), 6), dtype=np.int64)
    space = model_space([policy.name for policy in policies], [OPS[op] for op in enabled(policies)])
    for operation in space.operations:
        (low_a, high_a), (low_b, high_b) = operation.bounds
        table[OPS.index(operation.name)] = (
            operation.weight,
            low_a,
            high_a,
            low_b,
            high_b,
            operation.owner,
        )
    return table


def masks_of(slots: int, only: int) -> tuple[int, ...]:
    """The sets that are drawn: all of at least two policies, the full one first; or the one that is asked for."""
    full = (1 << slots) - 1
    if only or slots == 1:
        return (only or full,)
    return (full, *(mask for mask in range(full) if mask.bit_count() >= 2))


def levels_of(policies: Sequence[Policy], masks: Sequence[int]) -> tuple[int, ...]:
    """How many levels each factor has; a factor of one level isn't varied."""
    codes = enabled(policies)
    levels = [1] * drawing.NFACTORS
    levels[drawing.SET] = len(masks)
    levels[drawing.WAY] = drawing.WAYS
    levels[drawing.SIZES] = 2
    levels[drawing.FRAMES] = PRESSURES if PRESSURE in codes else 1
    for op in codes:
        if op not in (ACT, STEP):
            levels[drawing.KINDS + op] = 3
    return tuple(levels)


@lru_cache(maxsize=64)
def covering(levels: tuple[int, ...], strength: int) -> Any:
    """The rows of a covering array of this strength, factors of one level at 0."""
    from covertable import make

    varied = [f for f, count in enumerate(levels) if count > 1]
    found = make([list(range(levels[f])) for f in varied], strength=min(strength, len(varied)))
    rows = np.zeros((len(found), len(levels)), dtype=np.int64)
    rows[:, varied] = found
    return rows


def covered(levels: tuple[int, ...], strength: int, drawn: int) -> tuple[int, int]:
    """How many combinations of levels of ``strength`` factors the first schedules of a search had, and how many
    there are.
    """
    rows = covering(levels, strength)[:drawn].tolist()
    varied = [f for f, count in enumerate(levels) if count > 1]
    groups = list(combinations(varied, min(strength, len(varied))))
    reached = sum(len({tuple(row[f] for f in group) for row in rows}) for group in groups)
    return reached, sum(prod(levels[f] for f in group) for group in groups)


def draws_of(policies: Sequence[Policy], masks: Sequence[int], strength: int = 2) -> drawing.Draws:
    """The tables that schedules of a set are drawn from, with plans of this strength."""
    levels = levels_of(policies, masks)
    room = np.zeros((2, drawing.WHEEL), dtype=np.int64)
    return drawing.Draws(odds_of(policies), covering(levels, strength), np.array(levels), room[0], room[1])


def drawn(policies: Sequence[Policy], number: int) -> list[Event]:
    """Schedule ``number`` of seed 0 for a set, in plain Python: for a look before anything is compiled."""
    events = np.zeros((drawing.MAX_EVENTS, 3), dtype=np.int64)
    with np.errstate(over="ignore"):
        length = drawing.draw(0, number, draws_of(policies, masks_of(len(policies), 0)), events)
    return [(op, a, b) for op, a, b in events[:length].tolist()]
