"""Hypothesis strategies of any schedule space, and the way back: a schedule as the choices that draw it.

``schedules`` is a portfolio of ways of which Hypothesis chooses one a schedule: ``plain`` (a list that grows by chance, which
shrinks best), ``sized`` (its length first, so that long ones are drawn too), ``swarm`` (few kinds of operations) and
``bursts`` (stretches with favourites of their own, because pressure comes in runs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from hypothesis import strategies as st
from hypothesis.database import choices_to_bytes

from fuzzkv.strategies.space import Operation, Row, S, ScheduleSpace


@st.composite
def rows(draw: st.DrawFn, operations: Sequence[Operation]) -> Row:
    """One operation out of these: what happens, to whom, how much."""
    return _numbers(draw, operations[draw(st.integers(0, len(operations) - 1))])


def plain(space: ScheduleSpace[S], longest: int | None = None) -> st.SearchStrategy[S]:
    """Every operation equally often, as many as come: what Hypothesis shrinks best, and what :func:`as_choices` writes."""
    drawn = st.lists(rows(space.operations), max_size=space.longest if longest is None else longest)
    if not space.machine:
        return drawn.map(lambda found: space.make((), found))
    return st.builds(space.make, _machine(space), drawn)


def schedules(space: ScheduleSpace[S], longest: int | None = None) -> st.SearchStrategy[S]:
    """All ways, one a schedule."""
    return _one(_ways(space, space.longest if longest is None else longest))


def beside(space: ScheduleSpace[S], numbered: Callable[[int], S], share: int) -> st.SearchStrategy[S]:
    """All ways, and ``share`` times as often as one of them what another generator makes of a number."""
    others = st.integers(0, 2**24 - 1).map(numbered)
    return _one([*_ways(space, space.longest), *([others] * share)])


def _ways(space: ScheduleSpace[S], longest: int) -> list[st.SearchStrategy[S]]:
    low, high = (min(bound, longest) for bound in space.usual)
    ways = [sized(space, low, high), swarm(space, low, high), *([bursts(space, longest)] * 2)]
    return [plain(space, longest), *(st.builds(space.make, _machine(space), way) for way in ways)]


@st.composite
def _one(draw: st.DrawFn, ways: Sequence[st.SearchStrategy[S]]) -> S:
    # Hypothesis' own one_of takes equal strategies as one.
    return draw(ways[draw(st.integers(0, len(ways) - 1))])


@st.composite
def sized(draw: st.DrawFn, space: ScheduleSpace[S], low: int, high: int) -> list[Row]:
    """A length, then as many operations by weight; the first opens a request, without which most others do nothing."""
    return [*draw(_opening(space)), *draw(_filled(space.operations, draw(st.integers(low, high)) - 1))]


@st.composite
def swarm(draw: st.DrawFn, space: ScheduleSpace[S], low: int, high: int) -> list[Row]:
    """Only some kinds of operations: those that open requests, and a few others."""
    others = [operation for operation in space.operations if not operation.opens]
    off = draw(st.integers(0, 2 ** len(others) - 2))
    left_out = [operation for i, operation in enumerate(others) if off >> i & 1]
    kept = tuple(operation for operation in space.operations if operation not in left_out)
    return [*draw(_opening(space)), *draw(_filled(kept, draw(st.integers(low, high)) - 1))]


@st.composite
def bursts(draw: st.DrawFn, space: ScheduleSpace[S], longest: int) -> list[Row]:
    """A few stretches, each with its own favourite operations."""
    found: list[Row] = list(draw(_opening(space)))
    for _ in range(draw(st.integers(2, 6))):
        mood = space.moods[draw(st.integers(0, len(space.moods) - 1))]
        favourites = tuple(replace(space.operation(name), weight=1) for name in mood)
        found += draw(_filled(favourites, draw(st.integers(3, 10))))
    return found[:longest]


def as_choices(space: ScheduleSpace[S], schedule: S, *, way: bool) -> bytes:
    """The choices with which :func:`plain` draws exactly this schedule, as the example database keeps them; with ``way``
    those of :func:`schedules`.

    One choice too many stands at the end: Hypothesis takes an entry that it would have saved itself as already
    shrunk.  Raises ``ValueError`` for a schedule that the space doesn't have.
    """
    sizes, taken = space.take(schedule)
    if len(taken) > space.longest:
        raise ValueError(f"{len(taken)} operations are more than {space.longest}")
    choices: list[int | bool] = [0] if way else []
    choices += [values.index(size) for values, size in zip(space.machine.values(), sizes, strict=True)]
    for name, numbers in taken:
        choices += [True, space.names.index(name)]
        bounds = space.operation(name).bounds
        for number, (low, high) in zip(numbers, bounds, strict=True):
            if not low <= number <= high:
                raise ValueError(f"{name}: {number} is not from {low} to {high}")
            if low < high:
                choices.append(number)
    if len(taken) < space.longest:
        choices.append(False)
    choices.append(False)
    return choices_to_bytes(choices)


def _numbers(draw: st.DrawFn, operation: Operation) -> Row:
    bounds = operation.bounds
    return operation.name, tuple(draw(st.integers(low, high)) if low < high else low for low, high in bounds)


def _opening(space: ScheduleSpace[S]) -> st.SearchStrategy[list[Row]]:
    return _filled(tuple(operation for operation in space.operations if operation.opens), 1)


@lru_cache(maxsize=4096)
def _filled(operations: tuple[Operation, ...], length: int) -> st.SearchStrategy[list[Row]]:
    """So many operations by weight.  Each is one draw, which is several times faster than one a number."""
    wheel = [operation for operation in operations for _ in range(operation.weight)]

    def unpacked(drawn: int) -> Row:
        drawn, place = divmod(drawn, len(wheel))
        numbers = []
        for low, high in wheel[place].bounds:
            drawn, number = divmod(drawn, high - low + 1)
            numbers.append(low + number)
        return wheel[place].name, tuple(numbers)

    # Beyond 24 bits Hypothesis would draw small numbers far more often.
    return st.lists(st.integers(0, 2**24 - 1).map(unpacked), min_size=length, max_size=length)


@st.composite
def _machine(draw: st.DrawFn, space: ScheduleSpace[S]) -> list[int]:
    return [values[draw(st.integers(0, len(values) - 1))] for values in space.machine.values()]
