"""The shrinker's parts: what is cheaper, what each pass proposes, what it keeps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzkv.cases.shrink import Goal, Shrinker, cost, passes_of, shrink
from fuzzkv.core.results import FailureClass
from fuzzkv.semantics.schedule import ACT, ARRIVE, BOUNDS, FADE, STEP, TICK, Event
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.strategies.schedules import schedules
from tests.found import schedule_of, search, shrinker

NAMES = ("evict", "offload", "quant")
PASS = {p.name: p for p in passes_of(0b101)}
quiet = settings(derandomize=True, database=None, deadline=None, max_examples=60)


def test_fewer_then_simpler_then_smaller_is_cheaper() -> None:
    long = ((ARRIVE, 0, 1), (TICK, 1, 0))
    assert cost(long[:1]) < cost(long) < cost(((ARRIVE, 0, 1), (STEP, 0, 0)))
    assert cost(long) < cost(((ARRIVE, 0, 2), (TICK, 1, 0)))


@quiet
@given(schedules(NAMES, max_events=14), st.integers(1, 7))
def test_passes_propose_only_well_formed_schedules(schedule: object, mask: int) -> None:
    events: tuple[Event, ...] = schedule.events  # type: ignore[attr-defined]
    for pass_ in passes_of(mask):
        for candidate in pass_.candidates(events):
            assert len(candidate) <= len(events)
            if cost(candidate) >= cost(events):
                continue  # never tried
            for op, a, b in candidate:
                low_a, high_a, low_b, high_b = BOUNDS[op]
                assert low_a <= a <= high_a and low_b <= b <= high_b, (pass_.name, events, candidate)


def test_acts_of_others_go_at_once() -> None:
    events = ((ARRIVE, 0, 2), (ACT, 0, 0), (ACT, 1, 0), (ACT, 2, 0))
    assert list(PASS["acts of other policies"].candidates(events)) == [(events[0], events[1], events[3])]
    [everyone] = [pass_ for pass_ in passes_of(0b111) if pass_.name == "acts of other policies"]
    assert list(everyone.candidates(events)) == []


def test_runs_are_cut_from_long_to_short() -> None:
    events = tuple((TICK, n, 0) for n in range(1, 5))
    lengths = [len(c) for c in PASS["runs of events"].candidates(events)]
    assert lengths == sorted(lengths) and lengths[0] == 0 and lengths.count(3) == 4


def test_two_events_go_together() -> None:
    events = tuple((TICK, n, 0) for n in range(1, 5))
    assert len(list(PASS["two events"].candidates(events))) == 6


def test_ticks_merge_and_a_step_becomes_time() -> None:
    events = ((TICK, 3, 0), (TICK, 4, 0), (STEP, 0, 1))
    proposed = list(PASS["ticks"].candidates(events))
    assert ((TICK, 7, 0), (STEP, 0, 1)) in proposed and any(c[2][0] == TICK for c in proposed if len(c) == 3)
    full = ((TICK, 32, 0), (TICK, 1, 0))
    assert list(PASS["ticks"].candidates(full)) == []


def test_sessions_and_pages_move_down() -> None:
    events = ((ARRIVE, 1, 3), (STEP, 1, 2), (FADE, 1, 1))
    proposed = list(PASS["one session, fewer pages"].candidates(events))
    assert ((ARRIVE, 0, 3), (STEP, 0, 2), (FADE, 0, 1)) in proposed
    assert ((ARRIVE, 1, 2), (STEP, 1, 1), (FADE, 1, 1)) in proposed


@pytest.mark.slow
def test_a_schedule_that_shows_nothing_is_not_shrunk(compiled: BulkEngine) -> None:
    kind = FailureClass(NAMES, "I1", "drop_host", "evict")
    assert shrink(compiled.again(seed=0), kind, ((ARRIVE, 0, 2), (TICK, 5, 0))) is None
    assert shrink(compiled.again(seed=0), kind, ()) is None


@pytest.mark.slow
def test_the_quick_test_and_the_full_verdict_agree(compiled: BulkEngine) -> None:
    """``interesting`` (compiled) says yes exactly where ``look`` (from the outcomes) finds the goal."""
    engine = compiled.again(seed=2)
    for found in search(engine, 60_000).values():
        start = schedule_of(engine, found)
        test = shrinker(engine, found)
        goal = test.goal
        for i in range(len(start) + 1):
            events = start[:i] + start[i + 1 :]
            seen = test.look(events)
            kept = seen is not None and seen.worse >= goal.worse and seen.consequence <= goal.consequence
            assert test.interesting(events) == kept


@pytest.mark.slow
def test_passes_are_counted(compiled: BulkEngine) -> None:
    engine = compiled.again(seed=1)
    found = search(engine, 20_000)["S2"]
    test = Shrinker(engine, Goal(found.failure_class, False, True))
    small = test.shrink(schedule_of(engine, found))
    assert set(PASS) <= set(test.counts) and all(helped <= tried for tried, helped in test.counts.values())
    assert sum(helped for _, helped in test.counts.values()) >= 2 and len(small) < len(
        schedule_of(engine, found)
    )
