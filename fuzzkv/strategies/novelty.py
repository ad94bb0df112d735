"""What is new: a map of the abstract states that a search has reached, and the schedules that reached them first.

After each act of a drawn set that did something a few counts of the state, in coarse steps, are hashed together with those before
it; a pair that was never met sets a bit.  Compiled behind the core, and ordinary Python for tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fuzzkv.semantics.layout import COLUMNS, FREE, ND, NH, NK, NP
from fuzzkv.semantics.schedule import ACT
from fuzzkv.strategies.drawing import copy_rows, mix

BITS = 1 << 20
"""Size of the map."""
POOL = 256
"""Most schedules that are kept."""
COUNT, NEXT, REACHED = range(3)
"""In the sums of a pool: schedules kept, the place of the next, bits set."""
_EVENT, _PRIMS = COLUMNS["EVENT"], COLUMNS["PRIMS"]
_HOST, _EVICTED, _BUSY, _QUOTE = (COLUMNS[name] for name in ("HOST", "EVICTED", "BUSY", "QUOTE"))
_D_PAGE, _D_PREC, _H_PAGE = (COLUMNS[name] for name in ("D_PAGE", "D_PREC", "H_PAGE"))
_ACTIVE = COLUMNS["R_ACTIVE"]


class Pool(NamedTuple):
    """The schedules that reached something new (rows of code, a, b) and their lengths, the map as bits, and the sums."""

    schedules: Any
    lengths: Any
    bits: Any
    sums: Any


def empty_pool(longest: int) -> Pool:
    """A pool with nothing in it, for schedules of up to ``longest`` events."""
    return Pool(
        np.zeros((POOL, longest, 3), dtype=np.int64),
        np.zeros(POOL, dtype=np.int64),
        np.zeros(BITS, dtype=np.uint8),
        np.zeros(3, dtype=np.int64),
    )


# Text of the compiled module; replaced by the written-out function there.
apply: Any = None


def step_of(n: Any) -> Any:
    """A count in coarse steps: 0, 1, 2, 3 and 4, 5 and more."""
    return n if n < 3 else 3 if n < 5 else 4


def features(s: Any) -> Any:
    """The abstract state as one number: pages on the host, evicted, in flight, lossy, quoted; free frames; which
    sessions are open.
    """
    hosted, gone, flying, lossy, quoted, room, shelf = 0, 0, 0, 0, 0, 0, 0
    for p in range(NP):
        hosted += s[_HOST + p] >= 0
        gone += s[_EVICTED + p]
        flying += s[_BUSY + p]
    for f in range(ND):
        lossy += s[_D_PREC + f] > 0
        room += s[_D_PAGE + f] == FREE
    for f in range(NH):
        shelf += s[_H_PAGE + f] == FREE
    for q in range(NK * NP):
        quoted += s[_QUOTE + q]
    found = step_of(hosted) + 5 * (step_of(gone) + 5 * (step_of(flying) + 5 * step_of(lossy)))
    found = step_of(quoted) + 5 * (step_of(room) + 5 * (step_of(shelf) + 5 * found))
    return found * 4 + s[_ACTIVE] + 2 * s[_ACTIVE + 1]


def watch(s: Any, events: Any, length: int, mask: int, rules: Any, bits: Any) -> Any:
    """Run a schedule on a state; returns how many bits of the map it has set for the first time."""
    fresh = 0
    before = 0
    for e in range(length):
        s[_EVENT] = e
        ran = s[_PRIMS]
        apply(s, events[e, 0], events[e, 1], events[e, 2], mask, rules)
        if events[e, 0] != ACT or s[_PRIMS] == ran:
            continue
        now = features(s)
        if now != before:
            bit = (mix(before) ^ now * 40503) % BITS
            fresh += 1 - bits[bit]
            bits[bit] = 1
            before = now
    return fresh


def remember(events: Any, length: int, pool: Any) -> None:
    """Keep a schedule; the oldest goes when the pool is full."""
    place = pool.sums[NEXT]
    copy_rows(events, 0, length, pool.schedules[place])
    pool.lengths[place] = length
    pool.sums[NEXT] = (place + 1) % POOL
    if pool.sums[COUNT] < POOL:
        pool.sums[COUNT] += 1
