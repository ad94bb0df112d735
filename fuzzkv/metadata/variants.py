"""Draws schedules near a given one: other numbers, other orders, events left out or added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from fuzzkv.semantics.schedule import ACT, BOUNDS, FADE, FAIL, STEP, TICK, Event

Events = tuple[Event, ...]
LONGEST = 34
"""Events of a varied schedule, at most."""
_TICKS = (1, 1, 2, 3, 5, 8, 8, 13)


def changed(events: Events, rng: Random, slots: Sequence[int]) -> Events:
    """One to four random changes: events left out, put in, moved, exchanged; acts are those of ``slots``."""
    now = list(events)
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        at = rng.randrange(1, len(now) + 1)
        what = rng.randrange(10)
        if what < 2 and len(now) > 2:
            del now[at % len(now)]
        elif what < 4:
            now.insert(at, (ACT, rng.choice(slots), 0))
        elif what < 5:
            now.insert(at, (TICK, rng.choice(_TICKS), 0))
        elif what < 6:
            now.insert(at, _step(now, rng))
        elif what < 8 and len(now) > 2:
            moved = now.pop(at % len(now))
            now.insert(rng.randrange(1, len(now) + 1), moved)
        elif what < 9:
            _other_number(now, at % len(now), rng)
        else:
            now.insert(at, (FAIL, 0, 0) if rng.randrange(3) == 0 else (FADE, *_step(now, rng)[1:]))
    return tuple(now[:LONGEST])


def _step(events: Sequence[Event], rng: Random) -> Event:
    opened = [(a, b) for op, a, b in events if op not in (TICK, ACT, STEP) and BOUNDS[op][2:] == (1, 8)]
    r, n = rng.choice(opened) if opened else (0, 1)
    return (STEP, r, rng.randrange(n))


def _other_number(events: list[Event], i: int, rng: Random) -> None:
    op, a, b = events[i]
    low_a, high_a, low_b, high_b = BOUNDS[op]
    if op == TICK:
        events[i] = (op, min(high_a, max(low_a, a + rng.choice((-3, -1, 1, 3)))), b)
    elif op != ACT:
        events[i] = (op, a, min(high_b, max(low_b, b + rng.choice((-1, 1)))))


def silent(events: Events, k: int, slots: Sequence[int]) -> Iterator[Events]:
    """Every schedule in which the other policies of ``slots`` act once less, once more, at another time or not at all, and what
    the policy in slot ``k`` is called upon for stays; and ticks are split where one of them acts.
    """
    others = [j for j in slots if j != k]
    mine = [i for i, (op, a, _) in enumerate(events) if op == ACT and a in others]
    for j in others:
        yield tuple(event for event in events if event[:2] != (ACT, j))
    for i in mine:
        left = events[:i] + events[i + 1 :]
        yield left
        for at in range(1, len(left)):
            if at != i:
                yield (*left[:at], events[i], *left[at:])
            yield from _split(left, at, events[i])
        for other in mine:
            if other > i:
                yield left[: other - 1] + left[other:]
    for j in others:
        for at in range(1, len(events)):
            with_one = (*events[:at], (ACT, j, 0), *events[at:])
            yield with_one
            yield (*with_one[:at], (ACT, j, 0), *with_one[at:])
            yield from _split(events, at, (ACT, j, 0))


def _split(events: Events, at: int, act: Event) -> Iterator[Events]:
    """An act in the middle of a time in which the device idles."""
    op, ticks, _ = events[at]
    if op == TICK:
        for first in range(1, ticks):
            yield (*events[:at], (TICK, first, 0), act, (TICK, ticks - first, 0), *events[at + 1 :])
