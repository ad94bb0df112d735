"""What shrinking leaves is minimal, and the same every time; the exact minimal case of every planted conflict, found
blind and shrunk over events and policies (``python -m bench.minimal`` writes the file that these are compared with).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from bench.minimal import minimal
from bench.targets import targets
from fuzzkv.cases.shrink import cost, shrink
from fuzzkv.oracles.conflict import Finding
from fuzzkv.semantics.schedule import TICK, Event
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.bulk.tally import FoundClass
from tests.found import KINDS, schedule_of, search, shrinker

KEPT = json.loads(Path("tests/quality/minimal.json").read_text())
TARGETS = {target.name: target for target in targets()}
OFTEN = ("S1", "S2", "S7", "mutant of I2", "mutant of I14", "vllm#53505")
"""Targets that every run of the tests looks for: each kind of target, the shallow ones and the deepest."""
LONGEST = {"S1": 20, "S2": 14, "S3": 24, "S7": 28}
"""Events that the shrunk schedule of a kind has at most."""


@pytest.fixture(scope="module")
def found(compiled: BulkEngine) -> tuple[BulkEngine, dict[str, FoundClass]]:
    engine = compiled.again(seed=1)
    return engine, search(engine, 200_000)


Shrunk = tuple[tuple[Event, ...], Finding]


@pytest.fixture(scope="module")
def shrunk(found: tuple[BulkEngine, dict[str, FoundClass]]) -> Callable[[str], Shrunk]:
    """What the schedule of a kind is shrunk to, once for all tests."""
    engine, classes = found

    @cache
    def once(kind: str) -> Shrunk:
        done = shrink(engine, classes[kind].failure_class, schedule_of(engine, classes[kind]))
        assert done is not None
        return done

    return once


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_can_be_left_out(
    found: tuple[BulkEngine, dict[str, FoundClass]], shrunk: Callable[[str], Shrunk], kind: str
) -> None:
    engine, classes = found
    start = schedule_of(engine, classes[kind])
    small, finding = shrunk(kind)
    assert finding.failure_class == classes[kind].failure_class
    assert len(small) <= LONGEST[kind] and cost(small) < cost(start)
    test = shrinker(engine, classes[kind]).interesting
    assert test(small)
    for i in range(len(small)):
        assert not test(small[:i] + small[i + 1 :]), f"event {i} of {small} can be left out"
    # Times are as short as they can be, too.
    for i, (op, a, b) in enumerate(small):
        if op == TICK and a > 1:
            assert not test((*small[:i], (op, a - 1, b), *small[i + 1 :]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["S2", "S7"])
def test_the_same_schedule_shrinks_to_the_same_case(
    found: tuple[BulkEngine, dict[str, FoundClass]], shrunk: Callable[[str], Shrunk], kind: str
) -> None:
    engine, classes = found
    start = schedule_of(engine, classes[kind])
    done = shrunk(kind)
    assert shrink(engine, classes[kind].failure_class, start) == done
    # And what is shrunk already stays as it is.
    if kind == "S2":
        assert shrink(engine, classes[kind].failure_class, done[0]) == done


def test_every_target_has_its_case() -> None:
    assert set(KEPT) == set(TARGETS)
    assert {t.kind for t in TARGETS.values()} == {"field", "design", "mutant"}
    assert sum(t.kind == "field" for t in TARGETS.values()) == 13
    assert sum(t.kind == "design" for t in TARGETS.values()) == 10
    assert sum(t.kind == "mutant" for t in TARGETS.values()) == 18


@pytest.mark.slow
@pytest.mark.parametrize("name", OFTEN)
def test_the_minimal_case_is_exactly_this(name: str) -> None:
    assert minimal(name) == KEPT[name]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(set(TARGETS) - set(OFTEN)))
def test_every_other_minimal_case_is_exactly_this(name: str) -> None:
    assert minimal(name) == KEPT[name]
