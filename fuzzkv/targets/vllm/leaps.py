"""Leaps of a shrink: small schedules made at random of a large one's parts, where cutting alone would get stuck.

What one request does often took several when it was found: another one filled the pool, a third stored in its place.  A leap
keeps two requests or so, lets them come back, grow or run on, keeps some of what happens between them, and holds transfers
more often than not.  Such a schedule runs in a fraction of the time of the one that it may replace.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from fuzzkv.targets.vllm.schedule import (
    ARRIVE,
    BOUNDS,
    COMPLETE,
    FAIL,
    FORK,
    HOLD,
    OUTPUTS,
    RESET,
    RESIDUES,
    SHORT,
    STEP,
    WIDEST,
    Event,
    LiveSchedule,
)

FEW: Final = 2
"""Requests that are few enough."""
BETWEEN: Final = 6
"""Most events that a leap keeps beside its requests."""
CODES: Final = len(RESIDUES)
"""What one block more adds to a size code."""
TROUBLE: Final = (COMPLETE, FAIL, SHORT, RESET)


def leaps(
    sources: Sequence[LiveSchedule],
    ops: Sequence[str],
    pools: Sequence[int],
    rng: random.Random,
    most: int = FEW,
) -> Iterator[LiveSchedule]:
    """Without an end: schedules of at most ``most`` requests, of the parts of ``sources``; ``ops`` are the events that mean
    something to the set, ``pools`` smaller pools to try.
    """
    while True:
        base = rng.choice(sources)
        opens = [event for event in base.events if event[0] in (ARRIVE, FORK)]
        if not opens:
            return
        requests = _requests(opens, rng, most)
        share = rng.choice((0.0, 0.2, 0.6))
        others = [event for event in base.events if event[0] not in (ARRIVE, FORK)]
        kept = [event for event in others if rng.random() < share][:BETWEEN]
        places = sorted(rng.randint(0, len(requests)) for _ in kept)
        # What happens before the first request, after it, and so on.
        gaps = [
            [e for at, e in zip(places, kept, strict=True) if at == gap] for gap in range(len(requests) + 1)
        ]
        for gap in gaps[1:-1]:
            gap += _time(rng)
        gaps[-1] += _trouble(ops, rng)
        if HOLD in ops and rng.random() < 0.6:
            rng.choice(gaps[:-1]).append((HOLD, 1, 0, 0))
        events = gaps[0]
        for request, gap in zip(requests, gaps[1:], strict=True):
            events += [request, *gap]
        yield LiveSchedule(rng.choice((base.pool, base.pool, *pools)), base.chunk, tuple(events))


def _requests(opens: Sequence[Event], rng: random.Random, most: int) -> list[Event]:
    """A few of these requests, changed; the first is no fork."""
    count = min(rng.choice((1, *[FEW] * 4, *[most] * 4)), most, len(opens))
    first, *others = (_changed(opens[at], rng) for at in sorted(rng.sample(range(len(opens)), count)))
    _, a, b, c = first
    requests: list[Event] = [(ARRIVE, a, b, c)]
    for op, other, size, output in others:
        way = rng.random()
        if way < 0.35:  # the same prompt comes back, as it was or longer
            requests.append((ARRIVE, a, min(b + rng.choice((0, 1, 1, 4)), WIDEST), output))
        elif way < 0.65:
            requests.append((FORK, 0, rng.choice((0, 0, size)), output))
        else:
            requests.append((op, other, size, output))
    return requests


def _changed(event: Event, rng: random.Random) -> Event:
    """Half of the time of another size; of a few tokens or as many as can be, more often than not."""
    op, a, b, c = event
    if rng.random() < 0.5:
        b = rng.randint(0, WIDEST)
    return op, a, b, rng.choice((c, 1, 2, OUTPUTS))


def _time(rng: random.Random) -> Iterator[Event]:
    """Time for what came before to end."""
    if rng.random() < 0.8:
        yield STEP, rng.choice((1, 2, 3, BOUNDS[STEP][0][1])), 0, 0


def _trouble(ops: Sequence[str], rng: random.Random) -> Iterator[Event]:
    """A step, and something that goes wrong."""
    trouble = [op for op in TROUBLE if op in ops]
    if rng.random() < 0.5:
        yield STEP, rng.choice((1, 2)), 0, 0
        yield rng.choice(trouble), rng.choice((0, 0, 1)), 0, 0


def joined(schedule: LiveSchedule) -> Iterator[LiveSchedule]:
    """One request fewer, whose work the others do: those of one prompt are longer by its blocks and run on for a token more,
    or as long as can be; transfers wait from before the last one on, or as they did.  What changes least comes first.
    """
    opens = [at for at, event in enumerate(schedule.events) if event[0] in (ARRIVE, FORK)]
    for hold, output, residue in product((False, True), (2, OUTPUTS), reversed(range(CODES))):
        for gone in reversed(opens):
            rest = [at for at in opens if at != gone]
            families = dict.fromkeys(
                schedule.events[at][1] for at in rest if schedule.events[at][0] == ARRIVE
            )
            for one in families:
                events = list(schedule.events)
                more = max(1, schedule.events[gone][2] // CODES)
                for at in rest:
                    op, a, b, c = events[at]
                    if op == ARRIVE and a == one:
                        size = min((b // CODES + more) * CODES + residue, WIDEST)
                        events[at] = (op, a, size, max(c, output))
                if hold:
                    events.insert(rest[-1], (HOLD, 1, 0, 0))
                del events[gone + (hold and gone > rest[-1])]
                yield schedule.with_events(events)
