"""Hypothesis runs a property: what failed before first, then what it generates; flaky failures, errors, observations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase, choices_to_bytes

from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.strategies.generation import ROUND, Failed, failures
from fuzzkv.strategies.memory import Failures, open_database
from fuzzkv.strategies.observing import TESTCASES, observed

NUMBERS = st.integers(0, 10_000)
"""Schedules of this page: numbers."""


class Limits:
    """Numbers beyond a limit fail, each limit once; ``moody`` ones don't when they are run again."""

    name = "numbers below a limit"

    def __init__(self, limits: Iterable[int], *, moody: bool = False, stop: int = 10_000) -> None:
        self.limits, self.moody, self.stop = list(limits), moody, stop
        self.ran: list[int] = []

    def fails(self, schedule: int) -> bool:
        self.ran.append(schedule)
        self.shown = [limit for limit in self.limits if schedule > limit]
        self.limits = [limit for limit in self.limits if limit not in self.shown]
        return bool(self.shown)

    def repeats(self, schedule: int) -> bool:
        assert schedule == self.ran[-1]
        return not self.moody

    def scores(self) -> Mapping[str, float]:
        return {"size": float(self.ran[-1])}

    def over(self) -> bool:
        return len(self.ran) >= self.stop


def memory(database: InMemoryExampleDatabase, name: str = "numbers") -> Failures[int]:
    return Failures(database, name, NUMBERS, lambda schedule: choices_to_bytes([schedule, False]))


def test_failures_come_one_by_one_and_the_budget_is_kept() -> None:
    limits = Limits((5000, 9000))
    found = list(failures(limits, NUMBERS, seed="1", most=2 * ROUND + 7))
    assert 1 <= len(found) <= 2 and all(one.repeated and one.schedule > 5000 for one in found)
    assert len(limits.ran) == 2 * ROUND + 7 and not limits.limits


def test_the_same_seed_draws_the_same() -> None:
    def ran(seed: str) -> list[int]:
        limits = Limits((5000,))
        list(failures(limits, NUMBERS, seed=seed, most=260))
        return limits.ran

    assert ran("1") == ran("1") != ran("2")


def test_a_property_that_is_over_ends_it() -> None:
    limits = Limits((), stop=3)
    assert list(failures(limits, NUMBERS, seed="1")) == [] and len(limits.ran) == 3
    assert list(failures(limits, NUMBERS, seed="1")) == [] and len(limits.ran) == 3


def test_what_is_not_repeated_is_flaky() -> None:
    found = list(failures(Limits((5000,), moody=True), NUMBERS, seed="1", most=60))
    assert [one.repeated for one in found] == [False]


def test_what_the_property_raises_is_no_failure() -> None:
    class Broken(Limits):
        def fails(self, schedule: int) -> bool:
            super().fails(schedule)
            raise EnvironmentFailure(code="FKV050", value="x", reason="y", cure="z")

    broken, database = Broken(()), InMemoryExampleDatabase()
    with pytest.raises(EnvironmentFailure):
        list(failures(broken, NUMBERS, seed="1", memory=memory(database)))
    assert len(broken.ran) == 1 and not memory(database).saved()


def test_an_interrupt_passes() -> None:
    class Stopped(Limits):
        def fails(self, schedule: int) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(failures(Stopped(()), NUMBERS, seed="1"))


def test_an_interrupt_before_the_first_schedule_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(function: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("hypothesis.core.function_digest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(failures(Limits(()), NUMBERS, seed="1"))


def test_what_failed_comes_first_the_next_time() -> None:
    database = InMemoryExampleDatabase()
    first = list(failures(Limits((5000,)), NUMBERS, seed="1", most=60, memory=memory(database)))
    assert len(memory(database).saved()) == 1 and not memory(database, "others").saved()
    again = Limits((5000,))
    assert next(failures(again, NUMBERS, seed="2", memory=memory(database))) == Failed(
        first[0].schedule, True
    )
    assert again.ran == [first[0].schedule]
    later = Limits((5000,))
    list(failures(later, NUMBERS, seed="2", most=5, memory=memory(database), replay=False))
    assert later.ran[0] != first[0].schedule


def test_what_fails_no_more_is_forgotten() -> None:
    database = InMemoryExampleDatabase()
    memory(database).keep(7000)
    memory(database).keep(8000)
    limits = Limits((7500,))
    found = failures(limits, NUMBERS, seed="1", memory=memory(database))
    assert next(found).schedule == 8000 and limits.ran == [7000, 8000]
    assert memory(database).saved() == [choices_to_bytes([8000, False])]


def test_what_has_no_choices_is_not_kept() -> None:
    def none(schedule: int) -> bytes:
        raise ValueError(schedule)

    database = InMemoryExampleDatabase()
    kept = Failures(database, "numbers", NUMBERS, none)
    list(failures(Limits((5000,)), NUMBERS, seed="1", most=60, memory=kept))
    assert kept.saved() == []


def test_a_database_is_a_folder_or_none(tmp_path: Path) -> None:
    assert open_database(None) is None
    database = open_database(tmp_path)
    assert database is not None
    database.save(b"key", b"value")
    again = open_database(tmp_path)
    assert again is not None and list(again.fetch(b"key")) == [b"value"]


def test_observations_are_lines_of_the_schema(tmp_path: Path) -> None:
    with observed(tmp_path / "seen"):
        list(failures(Limits((5000,)), NUMBERS, seed="1", most=60))
    list(failures(Limits(()), NUMBERS, seed="1", most=5))
    lines = [json.loads(line) for line in (tmp_path / "seen" / TESTCASES).read_text().splitlines()]
    cases = [line for line in lines if line["type"] == "test_case"]
    assert {line["how_generated"] for line in cases} == {"during generate phase", "minimal failing test case"}
    assert len([line for line in cases if line["status"] == "passed"]) >= 59
    failed = [line for line in cases if line["status"] == "failed"]
    assert failed and "NewFailure" in failed[0]["status_reason"]
    for line in cases:
        assert set(line) == {
            *("type", "property", "run_start", "status", "status_reason", "representation", "arguments"),
            *("how_generated", "features", "coverage", "timing", "metadata"),
        }
    assert any("target:size" in line["features"] for line in cases)


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--observe"), observed(tmp_path / "file" / "within"):
        pass
    with observed(None):
        pass
