"""The solver before a search: what it hands on is shown by the engine that searches."""

from __future__ import annotations

import pytest

from fuzzkv.search import warm_start
from fuzzkv.search.warm_start import short_witnesses
from fuzzkv.semantics.schedule import ACT, ARRIVE, TICK, Config
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver import seeds as module
from fuzzkv.solver.seeds import first_schedules
from fuzzkv.solver.verify import Verification
from fuzzkv.targets.model.recipe import narrowed, widened
from tests.solver.tiny import PROMISES, SHRINKS, STORES

POLICIES = (PROMISES, SHRINKS, STORES)
SMALL = Config(device_frames=3, host_frames=2)


def test_slots_are_numbered_back_and_forth() -> None:
    events = ((ARRIVE, 0, 1), (ACT, 1, 0), (TICK, 8, 0), (ACT, 2, 0))
    chosen, schedule = narrowed(POLICIES, 0b110, events)
    assert [policy.name for policy in chosen] == ["shrinks", "stores"]
    assert [event[:2] for event in schedule.events if event[0] == ACT] == [(ACT, 0), (ACT, 1)]
    assert widened(0b110, schedule.events) == events


@pytest.mark.slow
def test_what_the_solver_finds_the_engine_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    # These policies act on one page.
    monkeypatch.setattr(warm_start, "SIZE", 2)
    engine = BulkEngine(POLICIES, SMALL)
    witnesses, done = short_witnesses(engine, 4, lambda climb: None)
    shown = {witness.failure_class.policies for witness in witnesses}
    assert done.depth == 4 and shown == {engine.names[:2], engine.names[1:]}
    for witness in witnesses:
        assert engine.shows(witness.events, witness.failure_class, False, ())


def test_a_short_search_finds_classes_for_the_set_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCHEDULES", 10_000)
    found = first_schedules(POLICIES, SMALL)
    assert found == first_schedules(POLICIES, SMALL) and set(found) == {0b011, 0b110}
    alone = Verification(POLICIES, SMALL, Window(requests=1, pages=1, device=3, host=2))
    for mask, classes in found.items():
        for target, events in classes.items():
            assert target in alone.judge(mask, events).shown
