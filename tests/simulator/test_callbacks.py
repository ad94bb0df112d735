"""Free policies in the compiled search: the same results as from the vocabulary, faults told, state cleared."""

# ruff: noqa: F403, F405

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from fuzzkv.semantics.ops import primitives
from fuzzkv.semantics.ops.primitives import begin_store, drop_host
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, ARRIVE, TICK, Config, Schedule
from fuzzkv.semantics.vocabulary import *
from fuzzkv.simulator.bulk.callbacks import RuleFault
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.history import run_history
from tests.broken import CAREFUL, CAREFUL_FREE, TIDY_FREE, free


def raises_late(s: State, k: Int) -> None:
    """Falls over when page 1 is on the host."""
    if s[HOST + 1] >= 0:
        raise IndexError("nothing there")
    begin_store(s, True, k, 1)


def interrupts(s: State, k: Int) -> None:
    """What Ctrl-C does while a rule runs."""
    raise KeyboardInterrupt


class Every:
    """Stores page 1 at its second act and drops that copy at its fourth: it counts in Python."""

    def __init__(self) -> None:
        self.acts = 0
        self.begun = 0

    def fresh(self) -> None:
        """Before every run."""
        self.acts = 0
        self.begun += 1

    def __call__(self, s: State, k: Int) -> None:
        self.acts += 1
        if self.acts == 2:
            begin_store(s, True, k, 1)
        if self.acts == 4:
            drop_host(s, True, k, 1, 0)


def numbers(engine: BulkEngine) -> list[object]:
    return [engine.classes, engine.runs, engine.primitives, engine.failing, engine.goals]


def test_a_free_rule_and_the_compiled_one_come_to_the_same(defaults: tuple[Policy, ...]) -> None:
    one = BulkEngine((*defaults, replace(CAREFUL, free=True)), Config(), seed=3)
    other = BulkEngine((*defaults, CAREFUL), Config(), seed=3)
    for count in (1, 499):
        one.search(count)
        other.search(count)
        assert numbers(one) == numbers(other)
    assert one.free and not other.free and one.classes
    for number in range(5):
        events = one.schedule(number).events
        assert one.outcome(events, 15) == other.outcome(events, 15)


def test_what_a_rule_raises_ends_the_search(defaults: tuple[Policy, ...]) -> None:
    engine = BulkEngine((*defaults, free("late", raises_late)), Config())
    with pytest.raises(
        RuleFault, match=r"FKV037: late: its rule fails: IndexError: nothing there\."
    ) as caught:
        engine.search(500)
    assert caught.value.policy == "late"
    # The engine can go on, and the contract's functions are as they were.
    assert engine.final_state(((ARRIVE, 0, 2), (TICK, 1, 0)), 15)[STEPS] == 0
    assert begin_store is primitives.begin_store
    with pytest.raises(KeyboardInterrupt):
        BulkEngine((free("interrupted", interrupts),), Config()).search(100)


def test_state_in_python_is_cleared_before_every_run() -> None:
    rule = Every()
    counting = replace(free("counting", rule), fresh=rule.fresh)
    engine = BulkEngine((CAREFUL_FREE, counting), Config(), seed=5)
    engine.search(300)
    assert rule.begun > 300
    again = BulkEngine((CAREFUL_FREE, counting), Config(), seed=5)
    again.search(300)
    assert numbers(engine) == numbers(again) and any(
        found.failure_class.policies == engine.names for found in engine.classes
    )
    # The Python interpreter clears it too.
    events = ((ARRIVE, 0, 3), (ACT, 1, 0), (ACT, 1, 0), (TICK, 20, 0), (ACT, 1, 0), (ACT, 1, 0))
    schedule = Schedule(("careful", "counting"), events)
    for _ in range(2):
        history = run_history(schedule, (CAREFUL_FREE, counting), 3, Config())
        assert [r.primitive for r in history.records if r.actor] == ["begin_store", "end_store", "drop_host"]
        assert history.outcome == engine.outcome(events, 3)


def test_a_set_is_found_whoever_is_free() -> None:
    engine = BulkEngine((CAREFUL_FREE, TIDY_FREE), Config(), seed=1)
    engine.search(300)
    shown = {(found.failure_class.policies, found.failure_class.invariant) for found in engine.classes}
    assert (engine.names, "I1") in shown


def test_a_signal_waits_for_the_end_of_the_call() -> None:
    """However often it comes: none is lost between two calls of a rule, and the handler is as it was."""
    before = signal.getsignal(signal.SIGINT)
    acts = 0

    def kills(s: State, k: Int) -> None:
        nonlocal acts
        acts += 1
        if acts % 5 == 0:
            signal.raise_signal(signal.SIGINT)

    engine = BulkEngine((free("kills", kills),), Config())
    for _ in range(20):
        with pytest.raises(KeyboardInterrupt):
            engine.search(50)
        assert acts % 5 == 0
    assert signal.getsignal(signal.SIGINT) is before
