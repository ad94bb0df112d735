"""The bulk search in plain Python equals the compiled one, and every schedule of a search can be drawn
again."""

from __future__ import annotations

import numpy as np
import pytest

from fuzzkv.core.results import mask_of
from fuzzkv.oracles.conflict import findings, smallest_failing
from fuzzkv.semantics.layout import PAGES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, ARRIVE, BOUNDS, Config
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.strategies import drawing


def test_mixing_is_splitmix() -> None:
    with np.errstate(over="ignore"):
        mixed = [int(drawing.mix(n)) for n in range(2_000)]
    assert len(set(mixed)) == 2_000 and all(0 <= n < 2**63 for n in mixed)
    ones = sum(bin(n).count("1") for n in mixed) / 2_000
    assert 31 < ones < 32


@pytest.mark.slow
def test_drawn_schedules_are_well_formed_and_various(compiled: BulkEngine) -> None:
    codes, sizes = set(), set()
    for number in range(400):
        events = compiled.again(seed=1).schedule(number).events
        assert len(events) == drawing.MAX_EVENTS
        sizes |= {b for op, _, b in events if op == ARRIVE}
        for op, a, b in events:
            low_a, high_a, low_b, high_b = BOUNDS[op]
            assert low_a <= a <= (2 if op == ACT else high_a) and low_b <= b <= high_b
            codes.add(op)
    assert codes == set(range(8)) and len(sizes) == PAGES


@pytest.mark.slow
@pytest.mark.parametrize("enforce", [False, True], ids=["observe", "enforce"])
def test_python_and_compiled_search_agree(
    compiled: BulkEngine, defaults: tuple[Policy, ...], enforce: bool
) -> None:
    ours = BulkEngine(defaults, Config(), enforce=enforce, seed=21, compiled=False)
    theirs = compiled.again(seed=21, enforce=enforce)
    for count in (1, 199):
        ours.search(count)
        theirs.search(count)
        assert ours.classes == theirs.classes
        for name in ("runs", "primitives", "failing", "freed_frames", "refused", "goals", "drawn"):
            assert getattr(ours, name) == getattr(theirs, name), name
    assert enforce or theirs.classes
    # What it was asked for it kept, and what it says of one schedule is the same too.
    for number in range(20):
        events = theirs.schedule(number).events
        assert ours.schedule(number).events == events
        for mask in (0, 3, 7):
            assert ours.outcome(events, mask) == theirs.outcome(events, mask)


def test_a_schedule_of_a_class_shows_it_again(compiled: BulkEngine) -> None:
    engine = compiled.again(seed=5)
    engine.search(20_000)
    assert len(engine.classes) > 5
    for found in engine.classes:
        events = found.events
        arms = {mask: engine.outcome(events, mask) for mask in range(8)}
        mask = mask_of(engine.names, found.failure_class.policies)
        assert mask in smallest_failing(arms)
        shown = {finding.failure_class: finding for finding in findings(arms, mask, engine.names)}
        finding = shown[found.failure_class]
        assert finding.worse == found.worse and found.seen > 0
        assert engine.shows(events, found.failure_class, False, ())


def test_one_mask_only(compiled: BulkEngine) -> None:
    engine = compiled.again(seed=5, only=3)
    engine.search(20_000)
    assert engine.classes and {found.failure_class.policies for found in engine.classes} == {engine.names[:2]}


def test_schedules_do_not_depend_on_the_search(compiled: BulkEngine) -> None:
    before = compiled.again(seed=7)
    drawn = [before.schedule(n) for n in range(30)]
    before.search(100)
    assert (
        [before.schedule(n) for n in range(30)]
        == drawn
        == [compiled.again(seed=7).schedule(n) for n in range(30)]
    )


def test_an_empty_search_knows_nothing(compiled: BulkEngine) -> None:
    engine = compiled.again(seed=0)
    assert engine.runs == engine.primitives == engine.failing == 0
    assert engine.classes == [] and engine.refused == {} and engine.freed_frames == 0.0
    assert not any(engine.goals.values())
