"""The one description of a schedule space, and what is drawn from it: in bounds, simplest first, and back to choices."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from fuzzkv.semantics.schedule import ACT, ARRIVE, EXTRA, OPS, QUEUE, TICK, Schedule
from fuzzkv.strategies.covering_arrays import enabled, odds_of
from fuzzkv.strategies.drawing import HIGH_A, HIGH_B, LOW_A, LOW_B, OWNER, WEIGHT
from fuzzkv.strategies.model import LONGEST, model_space
from fuzzkv.strategies.schedules import schedules
from fuzzkv.strategies.ways import as_choices, generated, plain
from tests.broken import CAREFUL, TIDY_FREE
from tests.drawn import drawn, drawn_from

NAMES = ("one", "two")
SPACE = model_space(NAMES, ("queue", "grow"))


def test_the_compiled_generator_draws_from_the_same_description() -> None:
    policies = (replace(CAREFUL, workload=("queue", "grow")), TIDY_FREE)
    table = odds_of(policies)
    for code, name in enumerate(OPS):
        if name not in SPACE.names:
            assert not table[code].any()
            continue
        operation = SPACE.operation(name)
        row = [(int(table[code, LOW_A]), int(table[code, HIGH_A]))]
        row.append((int(table[code, LOW_B]), int(table[code, HIGH_B])))
        assert tuple(row) == operation.bounds
        assert (table[code, WEIGHT], table[code, OWNER]) == (operation.weight, operation.owner)
    assert enabled(policies) == tuple(OPS.index(name) for name in SPACE.names)


def test_a_space_is_narrowed() -> None:
    assert set(OPS) - set(SPACE.names) == set(EXTRA) - {"queue", "grow"}
    assert SPACE.operation("act").bounds == ((0, 1), (0, 0))
    assert [operation.name for operation in SPACE.operations if operation.opens] == ["arrive", "queue"]
    assert all(set(mood) <= set(SPACE.names) for mood in SPACE.moods) and ("weights",) not in SPACE.moods
    with pytest.raises(KeyError):
        SPACE.operation("sleep")


def test_all_ways_draw_within_the_bounds() -> None:
    found = drawn(schedules(NAMES, workload=("queue", "grow"), max_events=40), 120)
    seen: Counter[str] = Counter()
    for schedule in found:
        assert schedule.policies == NAMES and len(schedule.events) <= 40
        for op, *numbers in schedule.events:
            operation = SPACE.operation(OPS[op])
            assert all(low <= n <= high for n, (low, high) in zip(numbers, operation.bounds, strict=True))
            seen[operation.name] += 1
    assert set(seen) == set(SPACE.names)
    assert min(len(s.events) for s in found) == 0 and max(len(s.events) for s in found) == 40
    assert sum(s.events[0][0] in (ARRIVE, QUEUE) for s in found if s.events) > 60


def test_hypothesis_draws_the_same_from_the_same_seed() -> None:
    assert drawn(schedules(NAMES), 20, 3) == drawn(schedules(NAMES), 20, 3) != drawn(schedules(NAMES), 20, 4)


def test_choices_draw_their_schedule_again() -> None:
    for schedule in drawn(schedules(NAMES, workload=("queue", "grow")), 40):
        assert drawn_from(plain(SPACE), as_choices(SPACE, schedule)) == schedule


def test_what_has_no_choices() -> None:
    for events, text in (
        (((TICK, 1, 0),) * (LONGEST + 1), "more than 64"),
        (((ACT, 2, 0),), "act: 2 is not from 0 to 1"),
        (((OPS.index("sleep"), 1, 0),), "not in"),
    ):
        with pytest.raises(ValueError, match=text):
            as_choices(SPACE, Schedule(NAMES, events))


def test_another_generator_draws_by_number() -> None:
    numbers: list[int] = []

    def numbered(number: int) -> Schedule:
        numbers.append(number)
        return Schedule(NAMES, ((TICK, 32, 0),) * 64)

    found = drawn(generated(SPACE, numbered=numbered), 60)
    others = sum(schedule == numbered(0) for schedule in found)
    assert 15 < others < 45 and all(0 <= number < 2**24 for number in numbers)
    assert len(set(numbers)) > 15 and max(numbers) > 2**16


def test_what_hunts_draw_is_the_same_whatever_modules_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis mixes constants of local modules into numbers."""
    hunts, users = generated(SPACE), schedules(NAMES)
    before = drawn(hunts, 100), drawn(users, 100)
    mixed = Constants(integers=range(1, 60), bytes=[bytes([n]) * n for n in range(1, 60)])
    monkeypatch.setattr(providers, "_get_local_constants", lambda: mixed)
    providers.CONSTANTS_CACHE.cache.clear()
    assert drawn(hunts, 100) == before[0]
    assert drawn(users, 100) != before[1], "or this test shows nothing"
    monkeypatch.undo()
    providers.CONSTANTS_CACHE.cache.clear()
