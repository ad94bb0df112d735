"""Drawing schedules: a portfolio of ways, each schedule's own chosen by its number.

Compiled as it stands behind the core, and ordinary Python for tests (see ``simulator.bulk.search``).  Every draw comes
from (seed, number); only ``mutate`` also looks at the pool of schedules that reached something new.
``strategies.covering_arrays`` says what a plan is and makes the tables.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fuzzkv.semantics.layout import NR, PAGES
from fuzzkv.semantics.schedule import (
    ACT,
    ARRIVE,
    FADE,
    FINISH,
    GROW,
    LATE,
    OPS,
    PRESSURE,
    QUEUE,
    STEP,
    TEXT,
    TICK,
)

MAX_EVENTS = 64
"""Longest schedule of the bulk search."""
NOPS = len(OPS)
SET, WAY, SIZES, FRAMES, KINDS = range(5)
"""Factors of a plan: the set, the way, session sizes, pressure on the pools, and from ``KINDS`` on each event."""
NFACTORS = KINDS + NOPS
EVEN, USUAL, PCT, MUTATE = 0, 3, 5, 6
"""Ways, each up to the next: even, usual, with change points, out of the pool (see ``draw``)."""
WAYS = 8
WEIGHT, LOW_A, HIGH_A, LOW_B, HIGH_B, OWNER = range(6)
"""Columns of the table of events; the owner is 0 the environment, 1 a session, 2 a policy."""
RIM = 4
WHEEL = RIM + 256
"""Size of a wheel, on which every kind of event has as many places as it weighs."""


class Draws(NamedTuple):
    """What schedules are drawn from: the table of events (``odds``: a row a kind), the rows of plans and how many levels each
    of their factors has; and room for the plan (``chosen``, behind it the order of actors) and the ``wheel`` of the one
    that is drawn.
    """

    odds: Any
    plans: Any
    levels: Any
    chosen: Any
    wheel: Any


def mix(x: Any) -> Any:
    """One round of splitmix64: a well mixed 63-bit number for a number."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(1))


def below(x: Any, n: Any) -> Any:
    """A number below ``n`` (at most 2^31) from the upper bits of a mixed one; cheaper than a remainder."""
    return ((x >> 31) * n) >> 32


def choose(seed: int, number: int, draws: Any) -> None:
    """The plan of a schedule: a row of the covering array, its levels turned by a number of the cycle's own, so
    that every cycle through the rows is a covering array and no two cycles are the same.
    """
    plans, levels, chosen = draws.plans, draws.levels, draws.chosen
    cycle = number // len(plans)
    row = number % len(plans)
    x = mix(mix(seed + 1) ^ cycle)
    for f in range(NFACTORS):
        chosen[f] = 0
        if levels[f] > 1:
            x = mix(x)
            chosen[f] = (plans[row, f] + x % levels[f]) % levels[f]


def within(x: Any, op: int, odds: Any) -> Any:
    """The numbers of an event, (a, b), uniform within their bounds."""
    a = odds[op, LOW_A] + below(x, odds[op, HIGH_A] - odds[op, LOW_A] + 1)
    b = odds[op, LOW_B] + (x & 0xFFFF) % (odds[op, HIGH_B] - odds[op, LOW_B] + 1)
    return a, b


def shape(x: Any, op: int, big: int, favourite: int, odds: Any) -> Any:
    """The numbers of an event, (a, b), as a workload has them: each kind has its own shape, else uniform."""
    a, b = within(x, op, odds)
    if op == STEP:
        a = 0 if x % 4 else 1
        b = favourite if (x // 4) % 3 == 0 else (x // 12) % PAGES
    elif op == TICK:
        a, b = 1 + x % 16, 0
    elif op == ARRIVE or op == QUEUE:
        a = x % NR
        b = big if a == 0 else 1 + (x // 2) % PAGES
    elif op == FADE:
        a = 0 if x % 4 else 1
        b = (x // 4) % PAGES
    elif op == LATE:
        a, b = 1 + x % 8, 0
    return a, b


def spin(draws: Any) -> None:
    """Make the wheel of a plan: each kind of event as often as it weighs, by owner, from ``RIM`` on; its first
    numbers say where the part of each owner begins, and where the last one ends.

    In the even way all kinds weigh the same, but that one event in three is an act.
    """
    odds, levels, chosen, wheel = draws.odds, draws.levels, draws.chosen, draws.wheel
    even = chosen[WAY] < USUAL
    others = 0
    for op in range(NOPS):
        others += odds[op, WEIGHT] > 0 and op != ACT
    place = RIM
    for owner in range(3):
        wheel[owner] = place
        for op in range(NOPS):
            if odds[op, OWNER] == owner:
                weight = odds[op, WEIGHT]
                if even:
                    weight = 0 if weight == 0 else (others + 1) // 2 if op == ACT else 1
                elif levels[KINDS + op] > 1:
                    # Off, as usual, or often.
                    weight *= (0, 1, 3)[chosen[KINDS + op]]
                for _ in range(weight):
                    wheel[place] = op
                    place += 1
    wheel[3] = place


def of_actor(x: Any, y: Any, actor: int, wheel: Any, odds: Any, big: int, favourite: int) -> Any:
    """An event of one actor, (op, a, b): sessions first, then the environment, then the policies."""
    op = ACT
    if actor <= NR:
        owner = 1 if actor < NR else 0
        places = wheel[owner + 1] - wheel[owner]
        op = wheel[wheel[owner] + x % places] if places > 0 else TICK
    a, b = shape(y, op, big, favourite, odds)
    if actor < NR:
        a = actor
    elif actor > NR:
        a = actor - NR - 1
    return op, a, b


def draw(seed: int, number: int, draws: Any, events: Any) -> Any:
    """Draw schedule ``number`` of a seed into ``events`` (rows of code, a, b); returns its length.

    Even: every kind of event is as likely as any other and every number within its bounds too, but policies act often,
    and half of the events have the numbers that this schedule has for their kind: the same session opens, ends and
    opens again with as many pages and the same text.  Usual: weights, sizes and times of an ordinary workload.
    With change points: the actors have an order, most events are the first's, and at each of 1 to 3 points the first
    becomes the last, so that an actor acts in a run.  Only opened sessions are stepped, in every way.
    """
    choose(seed, number, draws)
    spin(draws)
    odds, chosen, wheel = draws.odds, draws.chosen, draws.wheel
    places = wheel[3] - RIM
    x = mix(mix(seed) ^ number)
    even = chosen[WAY] < USUAL
    own = mix(x)
    big = PAGES if chosen[SIZES] == 0 else 2 + own % (PAGES - 1)
    favourite = below(own, PAGES)
    slots = odds[ACT, HIGH_A] + 1
    actors = NR + 1 + slots
    order = chosen[NFACTORS:]
    points = 0
    if PCT <= chosen[WAY] < MUTATE:
        points = 1 + x % 3
        for i in range(actors):
            x = mix(x)
            j = x % (i + 1)
            order[i] = order[j]
            order[j] = i
    alive = 0
    e = 0
    if chosen[FRAMES] > 0:
        # From the start it takes frames of the device's pool, of the host's, or of both.
        x = mix(x)
        events[0, 0] = PRESSURE
        events[0, 1] = 0 if chosen[FRAMES] == 2 else 1 + below(x, odds[PRESSURE, HIGH_A])
        events[0, 2] = 0 if chosen[FRAMES] == 1 else 1 + (x & 0xFFFF) % odds[PRESSURE, HIGH_B]
        e = 1
    first = e
    grows = odds[GROW, WEIGHT] > 0 and chosen[KINDS + GROW] > 0
    while e < MAX_EVENTS:
        x = mix(x)
        y = mix(x)
        if e == first and not even:
            op, a, b = ARRIVE, 0, big
        elif points == 0:
            op = wheel[RIM + below(x, places)]
            if not even:
                a, b = shape(y, op, big, favourite, odds)
            elif op != ACT and y % 2 == 0:
                a, b = within(mix(own ^ op), op, odds)
            else:
                a, b = within(y, op, odds)
        else:
            turn = (x // 1024) % 8
            actor = order[0]
            if turn == 7:
                actor = (x // 8192) % actors
            elif turn >= 5:
                actor = order[1]
            op, a, b = of_actor(x % 1024, y, actor, wheel, odds, big, favourite)
        x = y
        if op == ARRIVE or op == QUEUE:
            alive |= 1 << a
        elif odds[op, OWNER] == 1 and op != TEXT and alive >> a & 1 == 0:
            # Nothing happens to a session that isn't there: take the other one, or open this one.
            if alive == 0 or y % 8 == 0:
                op, b = ARRIVE, big
                if even:
                    op = QUEUE if odds[QUEUE, WEIGHT] > 0 and y & 16 else ARRIVE
                    b = within(mix(own ^ op) if y & 32 else mix(y), op, odds)[1]
                alive |= 1 << a
            else:
                a = NR - 1 - a
        if op == FINISH:
            alive &= ~(1 << a)
        events[e, 0] = op
        events[e, 1] = a
        events[e, 2] = b
        e += 1
        if (op == ARRIVE or op == QUEUE) and grows and not even and e < MAX_EVENTS and y % 2 == 0:
            # A length is pages and a residue.
            events[e, 0] = GROW
            events[e, 1] = a
            events[e, 2] = odds[GROW, LOW_B] + (y // 2) % (odds[GROW, HIGH_B] - odds[GROW, LOW_B] + 1)
            e += 1
        if points > 0 and mix(y) % MAX_EVENTS < points:
            top = order[0]
            for i in range(actors - 1):
                order[i] = order[i + 1]
            order[actors - 1] = top
    return e


def copy_row(source: Any, one: int, target: Any, other: int) -> None:
    """Copy an event.  (Written out, like ``copy_rows``: Numba takes a second or two to compile what slices would be.)"""
    for c in range(3):
        target[other, c] = source[one, c]


def copy_rows(source: Any, first: int, end: int, target: Any) -> None:
    """Copy the events from ``first`` up to ``end``."""
    for e in range(first, end):
        copy_row(source, e, target, e)


def mutate(x: Any, draws: Any, schedules: Any, lengths: Any, count: int, events: Any) -> Any:
    """One of the first ``count`` of the ``schedules`` with one to four changes, into ``events``; returns its length.

    Changes: insert an event, leave one out, swap two, take the end of another schedule, draw numbers anew.
    """
    odds, wheel = draws.odds, draws.wheel
    x = mix(x)
    one = x % count
    length = lengths[one]
    copy_rows(schedules[one], 0, length, events)
    x = mix(x)
    for _ in range(1 + x % 4):
        x = mix(x)
        change = x % 6
        x = mix(x)
        i = x % length
        y = mix(x)
        if change == 0 and length > 4:
            for e in range(i, length - 1):
                copy_row(events, e + 1, events, e)
            length -= 1
        elif change == 1:
            j = y % length
            for c in range(3):
                kept = events[i, c]
                events[i, c] = events[j, c]
                events[j, c] = kept
        elif change == 2:
            other = y % count
            if lengths[other] > i:
                length = lengths[other]
                copy_rows(schedules[other], i, length, events)
        elif change == 3:
            events[i, 1], events[i, 2] = shape(y, events[i, 0], PAGES, (y // 4096) % PAGES, odds)
        elif change >= 4:
            # A full schedule loses its last event.
            op = wheel[RIM + y % (wheel[3] - RIM)]
            y = mix(y)
            length = min(length + 1, MAX_EVENTS)
            for e in range(length - 1, i, -1):
                copy_row(events, e - 1, events, e)
            events[i, 0] = op
            events[i, 1], events[i, 2] = shape(y, op, PAGES, (y // 4096) % PAGES, odds)
    return length
