"""The portfolio of any space: the same of one seed, in bounds, and small changes of what was kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from fuzzkv.semantics.schedule import Schedule
from fuzzkv.strategies.model import model_space
from fuzzkv.strategies.portfolio import KEPT, Portfolio
from fuzzkv.strategies.space import Row, ScheduleSpace
from tests.strategies.test_passes import SPACE, Toy

MODEL: ScheduleSpace[Schedule] = model_space(("one", "two"), ("queue", "grow"))
SPACES = (SPACE, MODEL)
WAIT: Row = ("wait", (7,))
ASK: Row = ("ask", (11, 3))


def draws(
    space: ScheduleSpace[Any], seed: str, *, keep: bool, kind: type[Portfolio[Any]] = Portfolio
) -> list[Any]:
    """120 schedules; ``keep``: one in three is kept."""
    portfolio, found = kind(space, seed), []
    for number in range(120):
        found.append(portfolio.draw())
        if keep and number % 3 == 0:
            portfolio.keep(found[-1])
    return found


def check_bounds(space: ScheduleSpace[Any], found: list[Any]) -> None:
    seen: Counter[str] = Counter()
    for schedule in found:
        machine, rows = space.take(schedule)
        assert len(rows) <= space.longest
        assert all(size in values for size, values in zip(machine, space.machine.values(), strict=True))
        for name, numbers in rows:
            bounds = space.operation(name).bounds
            assert all(low <= n <= high for n, (low, high) in zip(numbers, bounds, strict=True))
            seen[name] += 1
    assert set(seen) == set(space.names)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.target)
def test_one_seed_draws_the_same(space: ScheduleSpace[Any]) -> None:
    kept = draws(space, "1", keep=True)
    assert kept == draws(space, "1", keep=True) != draws(space, "2", keep=True)
    assert kept != draws(space, "1", keep=False), "what is kept decides what is drawn"
    assert len(set(kept)) > 100


class Unbounded(Portfolio[Any]):
    """Draws numbers that are one too large now and then."""

    def _row(self) -> Row:
        name, numbers = super()._row()
        return name, tuple(number + 1 for number in numbers)


class Endless(Portfolio[Any]):
    """Changes without an end."""

    def changed(self) -> Any:
        machine, rows = self.space.take(super().changed())
        return self.space.make(machine, [*rows, *rows])


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.target)
def test_what_is_drawn_is_in_bounds(space: ScheduleSpace[Any]) -> None:
    for keep in (False, True):
        check_bounds(space, draws(space, "1", keep=keep))
    for kind in (Unbounded, Endless):
        with pytest.raises(AssertionError):
            check_bounds(space, draws(space, "1", keep=True, kind=kind))


def test_every_way_and_every_machine_is_drawn() -> None:
    found = draws(SPACE, "1", keep=False)
    assert {schedule.machine for schedule in found} == {(p, c) for p in (8, 4, 2) for c in (64, 32, 16)}

    def own(space: ScheduleSpace[Toy], numbers: Any) -> list[Row]:
        return [WAIT]

    portfolio = Portfolio(replace(SPACE, ways=(own,)), "1")
    rows = [portfolio.draw().rows for _ in range(120)]
    assert 15 < rows.count((WAIT,)) < 45, "one in four is drawn in the target's own way"


def test_changes_are_small() -> None:
    portfolio = Portfolio(SPACE, "1")
    base = Toy((4, 32), (WAIT,) * 20)
    portfolio.keep(base)
    found = [portfolio.changed() for _ in range(200)]
    assert all(schedule.machine == base.machine for schedule in found)
    # Four changes at most: each takes three rows away, or puts one in, or up to twelve of what was kept.
    assert all(sum(row == WAIT for row in s.rows) >= 20 - 4 * 3 for s in found if len(s.rows) < SPACE.longest)
    assert all(sum(row != WAIT for row in s.rows) <= 4 for s in found)
    assert sum(schedule != base for schedule in found) > 150 and len(set(found)) > 100
    lengths = {len(schedule.rows) for schedule in found}
    assert min(lengths) < 20 < max(lengths) == SPACE.longest


def test_changes_take_from_another_schedule() -> None:
    portfolio = Portfolio(SPACE, "1")
    portfolio.keep(Toy((4, 32), (WAIT,) * 12))
    portfolio.keep(Toy((8, 16), (ASK,) * 12))
    found = [portfolio.changed() for _ in range(100)]
    assert {schedule.machine for schedule in found} == {(4, 32), (8, 16)}
    assert sum(min(s.rows.count(WAIT), s.rows.count(ASK)) >= 5 for s in found) > 10


def test_a_change_of_nothing_puts_something_in() -> None:
    portfolio = Portfolio(SPACE, "1")
    portfolio.keep(Toy((4, 32), ()))
    found = [portfolio.changed() for _ in range(50)]
    assert {len(schedule.rows) for schedule in found} > {0, 1, 2}


def test_few_are_kept_and_the_newest_stay() -> None:
    portfolio = Portfolio(SPACE, "1")
    all_ = [Toy((8, 64), (("ask", (number, 0)),)) for number in range(KEPT + 100)]
    for schedule in all_:
        portfolio.keep(schedule)
    assert len(portfolio.kept) == KEPT and portfolio.kept[-KEPT // 2 :] == all_[-KEPT // 2 :]
    assert portfolio.kept[: KEPT // 2] != all_[-KEPT : -KEPT // 2], "some of the first ones stay too"


def test_a_numbered_schedule_stays_the_same() -> None:
    portfolio = Portfolio(SPACE, "1")
    first = [portfolio.numbered(number) for number in (5, 0, 7)]
    for _ in range(3):
        portfolio.keep(portfolio.draw())
    assert [portfolio.numbered(number) for number in (5, 0, 7)] == first and len(set(first)) == 3
    assert Portfolio(SPACE, "1").numbered(0) == first[1] != Portfolio(SPACE, "2").numbered(0)
