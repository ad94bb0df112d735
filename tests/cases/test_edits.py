"""Leaps are shorter, within bounds, and the same each time."""

from __future__ import annotations

import random

from fuzzkv.cases.edits import leap, leaps
from fuzzkv.semantics.schedule import ACT, ARRIVE, BOUNDS, STEP, TICK, Event

START: tuple[Event, ...] = (
    (ARRIVE, 0, 6),
    (ACT, 0, 0),
    (TICK, 8, 0),
    (ACT, 1, 0),
    (STEP, 0, 3),
    (ACT, 0, 0),
    (STEP, 0, 1),
)


def test_a_leap_is_shorter_and_within_bounds() -> None:
    rng = random.Random(1)
    for _ in range(500):
        made = leap(START, rng)
        assert 1 <= len(made) < len(START)
        for op, a, b in made:
            low_a, high_a, low_b, high_b = BOUNDS[op]
            assert low_a <= a <= high_a and low_b <= b <= high_b
            assert op in {event[0] for event in START}


def test_leaps_are_the_same_each_time() -> None:
    assert list(leaps(START, 50)) == list(leaps(START, 50))
    assert list(leaps(START, 50)) != list(leaps(START[:-1], 50))
    # They leave the neighbourhood of single cuts: another number and another order come up.
    made = set(leaps(START, 2000))
    assert any((ARRIVE, 0, n) in events for events in made for n in (1, 2, 3, 8))
    assert any(
        events.index((TICK, 8, 0)) > events.index((STEP, 0, 3))
        for events in made
        if {(TICK, 8, 0), (STEP, 0, 3)} <= set(events)
    )


def test_no_leap_comes_twice_and_none_is_lost() -> None:
    short = START[:4]
    made = list(leaps(short, 5000))
    rng = random.Random(repr(short))
    assert made == list(dict.fromkeys(leap(short, rng) for _ in range(5000)))
    assert 10 < len(made) < 5000


def test_the_shortest_schedule_can_be_leapt_from() -> None:
    made = list(leaps(((TICK, 1, 0), (TICK, 2, 0)), 20))
    assert made and all(len(events) == 1 for events in made)
