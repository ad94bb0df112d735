"""The passes of a shrink that know what a request, a pool and a step are; the others are of any schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fuzzkv.strategies.passes import Candidates, Pass, usual_passes
from fuzzkv.targets.vllm.leaps import CODES, FEW, joined
from fuzzkv.targets.vllm.schedule import ARRIVE, BOUNDS, FORK, OPS, STEP, Event, LiveSchedule
from fuzzkv.targets.vllm.strategy import CHUNKS, LIVE, POOLS

MANY: Final = 5
"""Most requests of which one is left out for the work of others."""
TIGHT: Final = (POOLS[-1], 12, 16, 22)
"""Pools that do the work of requests which only fill one."""
STRANGER: Final = 4
"""A prompt that shares nothing with the first four."""
_PAIRS: Final = 14


def cost(schedule: LiveSchedule) -> tuple[int, int, int, int, int, tuple[Event, ...]]:
    """What shrinking lowers: requests, events, their kinds, how tight pool and chunk are, numbers."""
    tight = max(0, POOLS[0] - schedule.pool) + max(0, CHUNKS[0] - schedule.chunk)
    kinds = sum(OPS.index(op) for op, *_ in schedule.events)
    numbers = sum(a + b + c for _, a, b, c in schedule.events)
    return schedule.requests, len(schedule.events), kinds, tight, numbers, schedule.events


def _requests(schedule: LiveSchedule) -> Candidates[LiveSchedule]:
    """Leave out requests: all but the last one or two, then runs of them, long ones first."""
    for keep in (1, 2):
        opens = _opens(schedule)
        gone = set(opens[:-keep])
        if gone and (yield _without(schedule, gone)):
            return
    size = max(1, len(_opens(schedule)) // 2)
    while True:
        at = 0
        while gone := set(_opens(schedule)[at : at + size]):
            candidate = _without(schedule, gone)
            if (yield candidate):
                schedule = candidate
            else:
                at += size
        if size == 1:
            return
        size //= 2


def _smaller_pool(schedule: LiveSchedule) -> Candidates[LiveSchedule]:
    """Leave out requests that only fill the pool, and make it smaller instead."""
    for pool in TIGHT:
        if pool >= schedule.pool:
            continue
        small, opens = replace(schedule, pool=pool), _opens(schedule)
        runs = [set(opens[:-keep]) for keep in (1, 2, 3) if len(opens) > keep]
        for gone in [*runs, *({at} for at in opens)]:
            if (yield _without(small, gone)):
                return


def _other_request(schedule: LiveSchedule) -> Candidates[LiveSchedule]:
    """Leave out a request and let another one do its work, with another prompt."""
    opens = _opens(schedule)
    for gone in opens if 2 < len(opens) <= MANY else ():
        for at in opens:
            _, _, b, c = schedule.events[at]
            others: tuple[Event, ...] = ((ARRIVE, STRANGER, b, c), (ARRIVE, STRANGER, 2 * CODES, c))
            for other in others:
                if at != gone and (yield _without(_with(schedule, at, other), {gone})):
                    return


def _joined(schedule: LiveSchedule) -> Candidates[LiveSchedule]:
    """Leave out a request whose work the others do."""
    for candidate in joined(schedule) if FEW < schedule.requests <= MANY else ():
        if (yield candidate):
            return


def _two_requests(schedule: LiveSchedule) -> Candidates[LiveSchedule]:
    """Leave out two requests at once: one may matter only to the other, as a fork's parent."""
    opens = _opens(schedule)
    if 2 < len(opens) <= _PAIRS:
        for i, one in enumerate(opens):
            for other in opens[i + 1 :]:
                if (yield _without(schedule, {one, other})):
                    return


def _merge_steps(schedule: LiveSchedule) -> Candidates[LiveSchedule]:
    """Two runs of steps become one."""
    at = 0
    while at < len(schedule.events) - 1:
        one, two = schedule.events[at], schedule.events[at + 1]
        if one[0] == STEP == two[0]:
            steps = min(one[1] + two[1], BOUNDS[STEP][0][1])
            candidate = _with(_without(schedule, {at + 1}), at, (STEP, steps, 0, 0))
            if (yield candidate):
                schedule = candidate
                continue
        at += 1


def _simpler_events(schedule: LiveSchedule) -> Candidates[LiveSchedule]:
    """A fork becomes an arrival, anything else a step."""
    for at, (op, a, b, c) in enumerate(schedule.events):
        if op != STEP:
            other: Event = (ARRIVE, a, b, c) if op == FORK else (STEP, 1, 0, 0)
            candidate = _with(schedule, at, other)
            if (yield candidate):
                schedule = candidate


def _opens(schedule: LiveSchedule) -> list[int]:
    return [at for at, event in enumerate(schedule.events) if event[0] in (ARRIVE, FORK)]


def _without(schedule: LiveSchedule, gone: set[int]) -> LiveSchedule:
    return schedule.with_events([event for at, event in enumerate(schedule.events) if at not in gone])


def _with(schedule: LiveSchedule, at: int, event: Event) -> LiveSchedule:
    return schedule.with_events((*schedule.events[:at], event, *schedule.events[at + 1 :]))


_CUT, _CALMER, _NUMBERS, _CUT_TWO = usual_passes(LIVE)

PASSES: Final[Sequence[Pass[LiveSchedule]]] = (
    Pass("fewer requests", _requests),
    Pass("smaller pool", _smaller_pool),
    _CUT,
    Pass("requests joined", _joined),
    Pass("another request", _other_request),
    Pass("two requests", _two_requests),
    _CALMER,
    Pass("steps together", _merge_steps),
    Pass("simpler events", _simpler_events),
    _NUMBERS,
    _CUT_TWO,
)
"""The passes, in order."""
