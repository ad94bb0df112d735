"""Random edits that make a schedule shorter in one leap: the way out of a case that is 1-minimal, but not the
shortest.

A schedule from which no single event can be left out may still be long, because the shorter one needs another
number or another order as well: leave three out, move one, change one.  Such leaps are drawn at random, from a
seed, so that the same schedule always shrinks to the same case.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from fuzzkv.semantics.schedule import ACT, BOUNDS, Event

Events = tuple[Event, ...]
TRIES = 60_000
"""Leaps that are drawn from one schedule."""


def _other_number(event: Event, rng: random.Random) -> Event:
    op, a, b = event
    low_a, high_a, low_b, high_b = BOUNDS[op]
    if op == ACT:
        return event
    if low_a < high_a and (low_b == high_b or rng.random() < 0.5):
        return op, rng.randint(low_a, high_a), b
    return op, a, rng.randint(low_b, high_b)


def leap(events: Events, rng: random.Random) -> Events:
    """A shorter schedule: some events left out, up to two moved or changed or put in from among the others."""
    made = list(events)
    for _ in range(rng.choice((2, 2, 3, 3, 4, 5))):
        if len(made) > 1:
            made.pop(rng.randrange(len(made)))
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
        way = rng.randrange(3)
        if way == 0:
            event = made.pop(rng.randrange(len(made)))
            made.insert(rng.randint(0, len(made)), event)
        elif way == 1:
            i = rng.randrange(len(made))
            made[i] = _other_number(made[i], rng)
        elif len(made) + 1 < len(events):
            made.insert(rng.randint(0, len(made)), rng.choice(events))
    return tuple(made)


def leaps(events: Sequence[Event], tries: int = TRIES) -> Iterator[Events]:
    """Leaps from a schedule, the same ones each time: of so many draws each that no earlier one came to."""
    rng = random.Random(repr(tuple(events)))
    # From a short schedule most draws come to a known one, and running a schedule costs more than looking it up.
    known: set[Events] = set()
    for _ in range(tries):
        made = leap(tuple(events), rng)
        if made not in known:
            known.add(made)
            yield made
