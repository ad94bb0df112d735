"""The passes of a shrink: small named ways to make a live schedule simpler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from fuzzkv.cases.live_leaps import CODES, FEW, joined
from fuzzkv.targets.vllm.schedule import ARRIVE, BOUNDS, FORK, OPS, STEP, Event, LiveSchedule
from fuzzkv.targets.vllm.strategy import CHUNKS, POOLS

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


Test = Callable[[LiveSchedule], bool]
"""Whether a candidate is simpler and still shows it."""


@dataclass(frozen=True)
class Pass:
    """One way to make a schedule simpler.  ``run`` goes over it once and keeps what the test takes, without starting
    again: every test costs a run of an engine.
    """

    name: str
    run: Callable[[LiveSchedule, Test], LiveSchedule]


def _requests(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """Leave out requests: all but the last one or two, then runs of them, long ones first."""
    for keep in (1, 2):
        opens = _opens(schedule)
        gone = set(opens[:-keep])
        if gone and test(candidate := _without(schedule, gone)):
            return candidate
    size = max(1, len(_opens(schedule)) // 2)
    while True:
        at = 0
        while gone := set(_opens(schedule)[at : at + size]):
            if test(candidate := _without(schedule, gone)):
                schedule = candidate
            else:
                at += size
        if size == 1:
            return schedule
        size //= 2


def _smaller_pool(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """Leave out requests that only fill the pool, and make it smaller instead."""
    for pool in TIGHT:
        if pool >= schedule.pool:
            continue
        small, opens = replace(schedule, pool=pool), _opens(schedule)
        runs = [set(opens[:-keep]) for keep in (1, 2, 3) if len(opens) > keep]
        for gone in [*runs, *({at} for at in opens)]:
            if test(candidate := _without(small, gone)):
                return candidate
    return schedule


def _other_request(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """Leave out a request and let another one do its work, with another prompt."""
    opens = _opens(schedule)
    for gone in opens if 2 < len(opens) <= MANY else ():
        for at in opens:
            _, _, b, c = schedule.events[at]
            others: tuple[Event, ...] = (
                (ARRIVE, STRANGER, b, c),
                (ARRIVE, STRANGER, 2 * CODES, c),
            )
            for other in others:
                if at != gone and test(candidate := _without(_with(schedule, at, other), {gone})):
                    return candidate
    return schedule


def _joined(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """Leave out a request whose work the others do."""
    if FEW < schedule.requests <= MANY:
        return next(filter(test, joined(schedule)), schedule)
    return schedule


def _two_requests(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """Leave out two requests at once: one may matter only to the other, as a fork's parent."""
    opens = _opens(schedule)
    if 2 < len(opens) <= _PAIRS:
        for i, one in enumerate(opens):
            for other in opens[i + 1 :]:
                if test(candidate := _without(schedule, {one, other})):
                    return candidate
    return schedule


def _cut(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """Cut runs of events, long ones first, from the end."""
    size = max(1, len(schedule.events) // 2)
    while True:
        at = len(schedule.events) - size
        while at >= 0:
            if test(candidate := _without(schedule, set(range(at, at + size)))):
                schedule = candidate
            at = min(at, len(schedule.events)) - size
        if size == 1:
            return schedule
        size //= 2


def _cut_two(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """Leave out two events at once: hold and complete, say."""
    for i in range(min(len(schedule.events), _PAIRS)):
        for j in range(i + 1, min(len(schedule.events), _PAIRS)):
            if test(candidate := _without(schedule, {i, j})):
                return candidate
    return schedule


def _merge_steps(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """Two runs of steps become one."""
    at = 0
    while at < len(schedule.events) - 1:
        one, two = schedule.events[at], schedule.events[at + 1]
        steps = min(one[1] + two[1], BOUNDS[STEP][0][1])
        if one[0] == STEP == two[0] and test(
            candidate := _with(_without(schedule, {at + 1}), at, (STEP, steps, 0, 0))
        ):
            schedule = candidate
        else:
            at += 1
    return schedule


def _simpler_events(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """A fork becomes an arrival, anything else a step."""
    for at, (op, a, b, c) in enumerate(schedule.events):
        other: Event = (ARRIVE, a, b, c) if op == FORK else (STEP, 1, 0, 0)
        if op != STEP and test(candidate := _with(schedule, at, other)):
            schedule = candidate
    return schedule


def _calmer(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """A roomier pool, larger steps."""
    for pool in POOLS:
        if pool > schedule.pool and test(candidate := replace(schedule, pool=pool)):
            schedule = candidate
            break
    for chunk in CHUNKS:
        if chunk > schedule.chunk and test(candidate := replace(schedule, chunk=chunk)):
            schedule = candidate
            break
    return schedule


def _smaller_numbers(schedule: LiveSchedule, test: Test) -> LiveSchedule:
    """Each number as small as can be: the least, else by halves."""
    for at, (op, *numbers) in enumerate(schedule.events):
        for place in range(3):
            low, high = BOUNDS[op][place][0], numbers[place]
            tried = low
            while low <= tried < high:
                fewer = [*numbers]
                fewer[place] = tried
                if test(candidate := _with(schedule, at, (op, fewer[0], fewer[1], fewer[2]))):
                    schedule, numbers, high = candidate, fewer, tried
                else:
                    low = tried + 1
                tried = (low + high) // 2
    return schedule


def _opens(schedule: LiveSchedule) -> list[int]:
    return [at for at, event in enumerate(schedule.events) if event[0] in (ARRIVE, FORK)]


def _without(schedule: LiveSchedule, gone: set[int]) -> LiveSchedule:
    return schedule.with_events([event for at, event in enumerate(schedule.events) if at not in gone])


def _with(schedule: LiveSchedule, at: int, event: Event) -> LiveSchedule:
    return schedule.with_events((*schedule.events[:at], event, *schedule.events[at + 1 :]))


PASSES: Final[tuple[Pass, ...]] = (
    Pass("fewer requests", _requests),
    Pass("smaller pool", _smaller_pool),
    Pass("runs of events", _cut),
    Pass("requests joined", _joined),
    Pass("another request", _other_request),
    Pass("two requests", _two_requests),
    Pass("roomier machine", _calmer),
    Pass("steps together", _merge_steps),
    Pass("simpler events", _simpler_events),
    Pass("smaller numbers", _smaller_numbers),
    Pass("two events", _cut_two),
)
"""The passes, in order."""
