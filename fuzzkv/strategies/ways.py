"""Hypothesis strategies of any schedule space, and the way back: a schedule as the choices that draw it.

A schedule is drawn in one of several ways: ``plain`` (a list that grows by chance, which shrinks best), ``sized`` (its length
first, so that long ones are drawn too), ``swarm`` (few kinds of operations) and ``bursts`` (stretches with favourites of
their own, because pressure comes in runs).  ``schedules`` is for users' tests, ``generated`` for hunts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.database import choices_to_bytes

from fuzzkv.strategies.numbers import Numbers
from fuzzkv.strategies.space import Operation, Row, S, ScheduleSpace, Way

PLAIN: Final = 8
"""One in so many schedules is drawn the plain way."""
_HEAD: Final = 32
"""Bytes for what a way chooses beside its operations."""


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


@st.composite
def schedules(draw: st.DrawFn, space: ScheduleSpace[S], longest: int | None = None) -> S:
    """All ways, one a schedule, the plain one now and then."""
    if draw(st.integers(0, PLAIN - 1)) == 0:
        return draw(shown(plain(space, longest)))
    return draw(generated(space, longest))


@st.composite
def shown(draw: st.DrawFn, strategy: st.SearchStrategy[S]) -> S:
    """The same; of a copy Hypothesis prints what it is, not which calls made it."""
    return copy(draw(strategy))


@st.composite
def generated(
    draw: st.DrawFn,
    space: ScheduleSpace[S],
    longest: int | None = None,
    numbered: Callable[[int], S] | None = None,
) -> S:
    """All ways but the plain one, and as often as all of them what another generator makes of a number.

    It is one draw of bytes.  Of several draws, Hypothesis makes most of its examples by copying one over another; and into
    numbers it mixes constants out of the modules that are loaded, so that a seed would mean another thing elsewhere.
    """
    longest = space.longest if longest is None else longest
    size = _HEAD + longest * max(1 + len(operation.bounds) for operation in space.operations)
    numbers = Numbers(draw(st.binary(min_size=size, max_size=size)))
    if numbered is not None and numbers.below(2):
        return numbered(numbers.wide())
    ways = (*WAYS, *space.ways)
    way = ways[numbers.below(len(ways))]
    machine = [values[numbers.below(len(values))] for values in space.machine.values()]
    return space.make(machine, way(space, numbers)[:longest])


def sized(space: ScheduleSpace[Any], numbers: Numbers) -> list[Row]:
    """A length, then as many operations by weight; the first opens a request, without which most others do nothing."""
    length = numbers.between(*space.usual)
    return [*_opening(space, numbers), *numbers.rows(_wheel(space.operations), length - 1)]


def swarm(space: ScheduleSpace[Any], numbers: Numbers) -> list[Row]:
    """Only some kinds of operations: those that open requests, and a few others."""
    kept = [operation for operation in space.operations if operation.opens or not numbers.below(2)]
    length = numbers.between(*space.usual)
    return [*_opening(space, numbers), *numbers.rows(_wheel(kept), length - 1)]


def bursts(space: ScheduleSpace[Any], numbers: Numbers) -> list[Row]:
    """A few stretches, each with its own favourite operations."""
    found = _opening(space, numbers)
    for _ in range(numbers.between(2, 6)):
        mood = space.moods[numbers.below(len(space.moods))]
        found += numbers.rows([space.operation(name) for name in mood], numbers.between(3, 10))
    return found


WAYS: Final[tuple[Way, ...]] = (sized, swarm, bursts)
"""Ways of every space; a target may have others."""


def _opening(space: ScheduleSpace[Any], numbers: Numbers) -> list[Row]:
    return numbers.rows([operation for operation in space.operations if operation.opens], 1)


def _wheel(operations: Sequence[Operation]) -> list[Operation]:
    return [operation for operation in operations for _ in range(operation.weight)]


def as_choices(space: ScheduleSpace[S], schedule: S) -> bytes:
    """The choices with which :func:`plain` draws exactly this schedule, as the example database keeps them.

    One choice too many stands at the end: Hypothesis takes an entry that it would have saved itself as already
    shrunk.  Raises ``ValueError`` for a schedule that the space doesn't have.
    """
    sizes, taken = space.take(schedule)
    if len(taken) > space.longest:
        raise ValueError(f"{len(taken)} operations are more than {space.longest}")
    choices: list[int | bool] = [
        values.index(size) for values, size in zip(space.machine.values(), sizes, strict=True)
    ]
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


@st.composite
def _machine(draw: st.DrawFn, space: ScheduleSpace[S]) -> list[int]:
    return [values[draw(st.integers(0, len(values) - 1))] for values in space.machine.values()]
