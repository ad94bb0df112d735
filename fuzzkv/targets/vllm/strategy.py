"""Live schedules as Hypothesis draws them, and as bytes: fixed-width events in one ``binary`` draw.

Simpler bytes decode to simpler events (zeros: none at all, on a large pool), and any bytes decode to some schedule, so
Hypothesis shrinks them well.  :func:`encode` is the way back, so that it can start from a schedule that was
found by other means.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from fuzzkv.targets.vllm.schedule import BOUNDS, LONGEST, OPS, Event, LiveSchedule

HEAD: Final = 2
WIDTH: Final = 4
"""Bytes of the head (pool, chunk) and of an event."""

POOLS: Final = (48, 40, 32, 26, 22, 18, 16, 14, 12, 11, 10, 9)
"""Pools that are drawn, the roomiest first."""
CHUNKS: Final = (256, 192, 128, 96, 80, 64, 48, 40, 33, 32)
"""Token budgets of a step that are drawn."""

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
"""How many of 64 values of a byte mean each event."""
_TABLE: Final = tuple(op for op in OPS for _ in range(WEIGHTS[op]))


def decode(data: bytes) -> LiveSchedule:
    """The schedule that bytes stand for; what is missing at the end is zero, what is too much is left out."""
    head = data[:HEAD].ljust(HEAD, b"\0")
    body = data[HEAD : HEAD + WIDTH * LONGEST]
    groups = [body[at : at + WIDTH].ljust(WIDTH, b"\0") for at in range(0, len(body), WIDTH)]
    # Zeros are no event: bytes become zero more easily than they become fewer.
    events = tuple(_event(group) for group in groups if any(group))
    return LiveSchedule(POOLS[head[0] % len(POOLS)], CHUNKS[head[1] % len(CHUNKS)], events)


def encode(schedule: LiveSchedule) -> bytes:
    """The simplest bytes that decode to this schedule.  Raises ``ValueError`` if no bytes do (too long, another pool)."""
    if len(schedule.events) > LONGEST:
        raise ValueError(f"{len(schedule.events)} events are more than {LONGEST}")
    data = bytearray([POOLS.index(schedule.pool), CHUNKS.index(schedule.chunk)])
    for op, *numbers in schedule.events:
        data.append(max(1, _TABLE.index(op)))
        data += bytes(number - low for number, (low, _) in zip(numbers, BOUNDS[op], strict=True))
    return bytes(data)


def live_schedules(*, max_events: int = LONGEST) -> st.SearchStrategy[LiveSchedule]:
    """Hypothesis' strategy of live schedules."""
    return st.binary(max_size=HEAD + WIDTH * max_events).map(decode)


def _event(data: bytes) -> Event:
    op = _TABLE[data[0] % len(_TABLE)]
    a, b, c = (low + byte % (high - low + 1) for byte, (low, high) in zip(data[1:], BOUNDS[op], strict=True))
    return op, a, b, c
