"""Passes of a shrink over any schedule: which candidates come, in which order, and what they come to.

Each check has a spoilt pass that it catches: one that skips the last event, looks at neighbours only, gives up after the least number,
forgets what was taken, or looks at the first size alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TypeVar

import pytest

from fuzzkv.strategies.passes import (
    PAIRS,
    Candidates,
    Pass,
    halving,
    improve,
    over_rows,
    runs_of_events,
    simpler_machine,
    smaller_numbers,
    two_events,
    usual_passes,
)
from fuzzkv.strategies.space import Operation, Row, ScheduleSpace

T = TypeVar("T")
Letters = tuple[str, ...]


@dataclass(frozen=True)
class Toy:
    """A schedule: sizes and rows."""

    machine: tuple[int, ...]
    rows: tuple[Row, ...]


SPACE: ScheduleSpace[Toy] = ScheduleSpace(
    target="toy",
    operations=(Operation("wait", ((1, 40),)), Operation("ask", ((2, 30), (0, 9)), opens=True)),
    machine={"pool": (8, 4, 2), "chunk": (64, 32, 16)},
    longest=30,
    usual=(3, 20),
    moods=(("ask", "wait"),),
    make=lambda machine, rows: Toy(tuple(machine), tuple(rows)),
    take=lambda schedule: (schedule.machine, schedule.rows),
)


def ran(
    candidates: Callable[[T], Candidates[T]], best: T, takes: Callable[[T], bool], *, anew: bool = False
) -> tuple[T, list[T]]:
    """What a pass comes to, and the candidates that it tried."""
    tried: list[T] = []

    def test(candidate: T) -> bool:
        tried.append(candidate)
        return takes(candidate)

    return improve(Pass("p", candidates), best, test, anew=anew), tried


def never(candidate: object) -> bool:
    return False


def words(text: str) -> list[Letters]:
    return [tuple(word) for word in text.split(",")]


# -- runs of events


def everywhere(events: Letters) -> Candidates[Letters]:
    return runs_of_events(events, everywhere=True)


def skips_the_last(events: Letters) -> Candidates[Letters]:
    for size in (2, 1):
        for start in range(len(events) - size - 1, -1, -1):
            cut = events[:start] + events[start + size :]
            if (yield cut):
                events = cut


def check_runs(candidates: Callable[[Letters], Candidates[Letters]], anew: bool) -> None:
    whole = tuple("abcde")
    for needed in chain.from_iterable(combinations(whole, size) for size in range(6)):
        best, _ = ran(candidates, whole, lambda letters, all_=set(needed): all_ <= set(letters), anew=anew)
        assert best == needed


def test_runs_come_long_ones_first_from_the_end() -> None:
    whole = tuple("abcde")
    one_less = "abcd,abce,abde,acde,bcde"
    assert ran(runs_of_events, whole, never) == (whole, words(f",abc,ade,{one_less}"))
    assert ran(everywhere, whole, never) == (whole, words(f",abc,abe,ade,cde,{one_less}"))
    assert ran(runs_of_events, (), never) == ((), [])


def test_a_pass_goes_on_from_what_was_taken_or_begins_anew() -> None:
    def takes(letters: Letters) -> bool:
        return {"a", "d"} <= set(letters)

    whole = tuple("abcde")
    assert ran(runs_of_events, whole, takes) == (tuple("ad"), words(",abc,ade,ad,a,d"))
    assert ran(runs_of_events, whole, takes, anew=True) == (tuple("ad"), words(",abc,ade,,ad,,a,d"))


def test_what_begins_anew_misses_less() -> None:
    def takes(letters: Letters) -> bool:
        # c can go once b is gone.
        return "a" in letters and ("c" in letters or "b" not in letters)

    assert ran(runs_of_events, tuple("abc"), takes)[0] == tuple("ac")
    assert ran(runs_of_events, tuple("abc"), takes, anew=True)[0] == tuple("a")


@pytest.mark.parametrize("anew", [False, True])
def test_what_is_not_needed_is_cut(anew: bool) -> None:
    for candidates in (runs_of_events, everywhere):
        check_runs(candidates, anew)
    with pytest.raises(AssertionError):
        check_runs(skips_the_last, anew)


# -- two events at once


def neighbours(events: Letters) -> Candidates[Letters]:
    for i in range(len(events) - 1):
        if (yield events[:i] + events[i + 2 :]):
            return


def balanced(letters: Letters) -> bool:
    return (
        "x" in letters
        and letters.count("(") == letters.count(")")
        and letters.count("[") == letters.count("]")
    )


def check_two(candidates: Callable[[Letters], Candidates[Letters]]) -> None:
    for word in ("([x)]", "(x[])", "x([)]", "([)]x"):
        assert ran(candidates, tuple(word), balanced)[0] == ("x",)


def test_two_events_are_left_out_at_once() -> None:
    whole = tuple("abcd")
    assert ran(lambda e: two_events(e, 9), whole, never) == (whole, words("cd,bd,bc,ad,ac,ab"))
    assert ran(lambda e: two_events(e, 3), whole, never) == (whole, words("cd,bd,ad"))
    assert ran(lambda e: two_events(e, 0), whole, never) == (whole, [])
    check_two(lambda events: two_events(events, 9))
    with pytest.raises(AssertionError):
        check_two(neighbours)


def test_of_two_events_that_were_left_out_the_next_begins_with_all() -> None:
    best, tried = ran(lambda e: two_events(e, 9), tuple("([x)]"), balanced)
    assert (best, tried) == (("x",), words("x)],[)],[x],],x"))


# -- numbers


def the_least_alone(low: int, value: int) -> Candidates[int]:
    if low < value:
        yield low


def check_halving(numbers: Callable[[int, int], Candidates[int]]) -> None:
    for low in (0, 3):
        for value in range(low, 20):
            for needed in range(low, value + 1):
                best, tried = ran(
                    lambda start, low=low: numbers(low, start), value, lambda n, least=needed: n >= least
                )
                assert best == needed and len(tried) <= 6 and all(low <= n < value for n in tried)


def test_numbers_are_halved() -> None:
    assert ran(lambda value: halving(2, value), 40, never) == (40, [2, 21, 31, 36, 38, 39])
    assert ran(lambda value: halving(2, value), 40, lambda n: n > 20) == (21, [2, 21, 12, 17, 19, 20])
    assert ran(lambda value: halving(2, value), 2, never) == (2, [])
    check_halving(halving)
    with pytest.raises(AssertionError):
        check_halving(the_least_alone)


START = Toy((2, 16), (("ask", (9, 5)), ("wait", (7,)), ("ask", (30, 9))))


def forgets(schedule: Toy) -> Candidates[Toy]:
    trying = smaller_numbers(schedule, SPACE)
    candidate = next(trying)
    while True:
        yield candidate
        try:
            candidate = trying.send(False)
        except StopIteration:
            return


def check_numbers(candidates: Callable[[Toy], Candidates[Toy]]) -> None:
    needed = (("ask", (4, 0)), ("wait", (7,)), ("ask", (2, 8)))

    def takes(schedule: Toy) -> bool:
        pairs = zip(schedule.rows, needed, strict=True)
        return all(n >= least for (_, row), (_, low) in pairs for n, least in zip(row, low, strict=True))

    best, tried = ran(candidates, START, takes)
    assert best == Toy(START.machine, needed)
    for _, numbers in (row for schedule in tried for row in schedule.rows if row[0] == "ask"):
        assert 2 <= numbers[0] <= 30 and 0 <= numbers[1] <= 9


def test_each_number_becomes_as_small_as_can_be() -> None:
    small = Toy((8, 64), (("wait", (1,)), ("ask", (3, 1))))
    first, second = ("wait", (1,)), [("ask", (2, 1)), ("ask", (3, 0))]
    assert ran(lambda s: smaller_numbers(s, SPACE), small, never) == (
        small,
        [Toy((8, 64), (first, row)) for row in second],
    )
    check_numbers(lambda schedule: smaller_numbers(schedule, SPACE))
    with pytest.raises(AssertionError):
        check_numbers(forgets)


# -- the machine


def first_size_alone(schedule: Toy) -> Candidates[Toy]:
    for pool in SPACE.machine["pool"]:
        if (yield Toy((pool, *schedule.machine[1:]), schedule.rows)):
            return


def check_machine(candidates: Callable[[Toy], Candidates[Toy]]) -> None:
    for pool, chunk in ((8, 64), (4, 32), (2, 32), (8, 16)):
        best, _ = ran(candidates, START, lambda s, p=pool, c=chunk: s.machine[0] <= p and s.machine[1] <= c)
        assert best == Toy((pool, chunk), START.rows)


def test_each_size_becomes_the_simplest_that_can_be() -> None:
    def simpler(schedule: Toy) -> Candidates[Toy]:
        return simpler_machine(schedule, SPACE)

    def sizes(start: Toy) -> list[tuple[int, ...]]:
        return [schedule.machine for schedule in ran(simpler, start, never)[1]]

    assert sizes(START) == [(8, 16), (4, 16), (2, 64), (2, 32)]
    assert sizes(Toy((8, 32), ())) == [(8, 64)] and sizes(Toy((8, 64), ())) == []
    assert sizes(Toy((3, 64), ())) == [(8, 64), (4, 64), (2, 64)], "a size that isn't drawn"
    check_machine(simpler)
    with pytest.raises(AssertionError):
        check_machine(first_size_alone)


# -- all of them


def test_a_pass_over_rows_leaves_the_machine() -> None:
    best, tried = ran(over_rows(SPACE, runs_of_events), START, lambda s: ("wait", (7,)) in s.rows)
    assert best == Toy(START.machine, START.rows[1:2])
    assert {schedule.machine for schedule in tried} == {START.machine}
    assert ran(over_rows(SPACE, runs_of_events), Toy((2, 16), ()), never)[1] == []


def test_the_usual_passes_come_to_the_simplest() -> None:
    passes = usual_passes(SPACE)
    assert [p.name for p in passes] == ["runs of events", "simpler machine", "smaller numbers", "two events"]

    def takes(schedule: Toy) -> bool:
        asked = [numbers for name, numbers in schedule.rows if name == "ask"]
        return schedule.machine[0] < 8 and len(asked) % 2 == 0 and any(n[1] > 3 for n in asked)

    best = Toy((2, 16), START.rows[:1] * 4)
    for pass_ in passes:
        best = improve(pass_, best, takes)
    assert best == Toy((4, 64), (("ask", (2, 0)), ("ask", (2, 4))))


def test_where_runs_are_dear_few_pairs_are_tried() -> None:
    two = usual_passes(SPACE)[3]
    _, tried = ran(two.candidates, Toy((8, 64), (("wait", (1,)),) * 30), never)
    assert len(tried) == PAIRS * (PAIRS - 1) // 2


def test_a_pass_without_candidates_changes_nothing() -> None:
    def none(schedule: Toy) -> Candidates[Toy]:
        yield from ()

    for anew in (False, True):
        best, tried = ran(none, START, never, anew=anew)
        assert best is START and tried == []


def test_the_last_candidate_counts() -> None:
    for anew in (False, True):
        assert ran(lambda v: halving(0, v), 1, lambda n: True, anew=anew) == (0, [0])
