"""One text, four readers: plain Python, written-out Python, compiled, Z3. They may differ in nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzzkv.search.acceptance import load_acceptance, stands
from fuzzkv.semantics.layout import COLUMNS, SIZES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ARRIVE, FADE, FAIL, FINISH, LATE, STEP, TICK, Config, Event, Schedule
from fuzzkv.semantics.vocabulary import listening
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.history import run_history
from fuzzkv.simulator.interpreters import _numbered, plain_apply, python_apply, text_digest
from fuzzkv.simulator.outcome import ending
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.interpreter import SymbolicInterpreter, SymbolicState, run_symbolic
from fuzzkv.simulator.symbolic.terms import Terms
from fuzzkv.strategies.schedules import schedules
from tests.broken import CONFIG, OPEN, A, drops_while_storing, policy

NAMES = ("evict", "offload", "quant")
EVENT = COLUMNS["EVENT"]
quiet = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MASKS = st.sampled_from([7, 7, 7, 3, 5, 6, 1, 2, 4, 0])


def differences(one: Sequence[int], other: Sequence[int]) -> list[str]:
    """The cells in which two states differ, by column."""
    return [
        f"{name}[{i}]: {one[base + i]} and {other[base + i]}"
        for name, base in COLUMNS.items()
        for i in range(SIZES[name])
        if one[base + i] != other[base + i]
    ]


def compare(schedule: Schedule, policies: tuple[Policy, ...], mask: int, engine: BulkEngine) -> None:
    """Run a schedule in the three readers on numbers and compare the whole state after every event."""
    plain = first_state(Config(), policies, enforce=engine.enforce)
    written = list(plain)
    in_plain, in_written = plain_apply(policies), python_apply(policies)
    for e, (op, a, b) in enumerate(schedule.events):
        plain[EVENT] = written[EVENT] = e
        in_plain(plain, op, a, b, mask)
        in_written(written, op, a, b, mask)
        assert plain == written, (e, differences(plain, written))
        compiled = engine.final_state(schedule.events[: e + 1], mask).tolist()
        assert plain == compiled, (e, differences(plain, compiled))
        assert ending(written, NAMES).failures == engine.outcome(schedule.events[: e + 1], mask).failures
    history = run_history(schedule, policies, mask, Config(), enforce=engine.enforce)
    assert history.outcome == engine.outcome(schedule.events, mask)


def lively(drawn: Schedule) -> Schedule:
    """A drawn schedule behind one session: most random schedules open none before they end."""
    return drawn.with_events(((ARRIVE, 0, 1 + len(drawn.events) % 8), *drawn.events))


@pytest.mark.slow
@pytest.mark.parametrize("enforce", [False, True], ids=["observe", "enforce"])
@settings(quiet, max_examples=100)
@given(schedule=schedules(NAMES, max_events=20), mask=MASKS)
def test_readers_on_numbers_agree(
    compiled: BulkEngine, defaults: tuple[Policy, ...], enforce: bool, schedule: Schedule, mask: int
) -> None:
    engine = compiled.again(seed=0, enforce=enforce)
    compare(schedule, defaults, mask, engine)
    compare(lively(schedule), defaults, mask, engine)


@pytest.mark.slow
@pytest.mark.parametrize("enforce", [False, True], ids=["observe", "enforce"])
def test_readers_on_numbers_agree_on_schedules_of_the_search(
    compiled: BulkEngine, defaults: tuple[Policy, ...], enforce: bool
) -> None:
    engine = compiled.again(seed=11, enforce=enforce)
    broken = refused = 0
    for number in range(100):
        mask = (7, 7, 3, 5, 6, 7, 1, 2, 4)[number % 9]
        schedule = engine.schedule(number)
        compare(schedule, defaults, mask, engine)
        state = engine.final_state(schedule.events, mask).tolist()
        broken += ending(state, NAMES).failed
        refused += sum(state[COLUMNS["REFUSED"] : COLUMNS["REFUSED"] + SIZES["REFUSED"]]) > 0
    # The comparison means something: violations were met without the contract, refusals with it.
    assert (refused if enforce else broken) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "enforce",
    [pytest.param(False, id="observe", marks=pytest.mark.thorough), pytest.param(True, id="enforce")],
)
def test_the_solvers_reader_agrees(compiled: BulkEngine, defaults: tuple[Policy, ...], enforce: bool) -> None:
    engine = compiled.again(seed=5, enforce=enforce)

    @settings(quiet, max_examples=25)
    @given(schedule=schedules(NAMES, max_events=12).map(lively), mask=MASKS)
    def on_drawn(schedule: Schedule, mask: int) -> None:
        agree(schedule, mask)

    def agree(schedule: Schedule, mask: int) -> None:
        ours = run_symbolic(schedule, defaults, mask, Config(), enforce=enforce)
        theirs = engine.final_state(schedule.events, mask).tolist()
        assert ours == theirs, differences(ours, theirs)

    on_drawn()
    for number in range(25):
        agree(engine.schedule(number), 7)


def test_notes_are_the_same(defaults: tuple[Policy, ...], compiled: BulkEngine) -> None:
    heard: dict[str, list[tuple[int, ...]]] = {"written": [], "plain": []}
    in_written = python_apply(defaults, lambda *what: heard["written"].append(what))
    in_plain = plain_apply(defaults)
    with listening(lambda *what: heard["plain"].append(what)):
        for number in range(6):
            written, plain = first_state(Config(), defaults), first_state(Config(), defaults)
            for op, a, b in compiled.again(seed=3).schedule(number).events:
                in_written(written, op, a, b, 7)
                in_plain(plain, op, a, b, 7)
    assert heard["written"] and heard["written"] == heard["plain"]


MUTANT = (policy("x", drops_while_storing),)


def run_terms(state: SymbolicState, events: Sequence[tuple[Any, Any, Any]]) -> None:
    for e, (op, a, b) in enumerate(events):
        state.cells[EVENT] = e
        state.reader.apply(state, MUTANT, op, a, b, 1)


def breaks(events: Sequence[Event], invariant: int) -> bool:
    end = run_symbolic(Schedule(("x",), tuple(events)), MUTANT, 1, CONFIG)
    return end[COLUMNS["V_COUNT"] + invariant] > 0


def test_a_number_that_is_not_known_is_solved_for() -> None:
    """How long must the pause between a store and the drop of its source be? The solver finds every
    answer."""
    state = SymbolicState(SymbolicInterpreter(Terms()), first_state(CONFIG, MUTANT))
    pause = state.algebra.unknown(1, 32, "pause")
    run_terms(state, (OPEN, A, (TICK, pause, 0), A))
    answers = set()
    goal = state.broken("I2")
    while (found := state.solve(goal)) is not None:
        answers.add(found["pause"])
        goal = state.algebra.and_(goal, pause != found["pause"])
    # The machine itself, asked one number at a time, says the same: a copy takes PAGE_COST ticks.
    assert answers == {n for n in range(1, 33) if breaks((OPEN, A, (TICK, n, 0), A), 2)} == {1, 2, 3}


def test_a_page_that_is_not_known_is_solved_for() -> None:
    """Which page must a reader ask about, so that what the policy left of page 1 is read?"""
    state = SymbolicState(SymbolicInterpreter(Terms()), first_state(CONFIG, MUTANT))
    page = state.algebra.unknown(0, 7, "page")
    run_terms(state, (OPEN, A, A, (TICK, 8, 0), (STEP, 0, page)))
    assert state.solve(state.broken("I3")) == {"page": 1}
    assert state.solve(state.algebra.and_(state.broken("I3"), page != 1)) is None


@pytest.mark.slow
def test_what_happens_may_be_unknown() -> None:
    """Code, session or slot, and page of an event as terms: each model of them runs to the same cells."""
    before = (OPEN, A)
    state = SymbolicState(SymbolicInterpreter(Terms()), first_state(CONFIG, MUTANT))
    op, a, b = (
        state.algebra.unknown(0, 7, "op"),
        state.algebra.unknown(0, 1, "a"),
        state.algebra.unknown(0, 7, "b"),
    )
    run_terms(state, (*before, (op, a, b)))
    for event in (
        (STEP, 0, 2),
        (STEP, 1, 2),
        A,
        (ARRIVE, 1, 3),
        (FINISH, 0, 1),
        (FADE, 0, 3),
        (FAIL, 0, 1),
        (LATE, 1, 0),
    ):
        end = run_symbolic(Schedule(("x",), (*before, event)), MUTANT, 1, CONFIG)
        chosen = state.algebra.and_(op == event[0], a == event[1], b == event[2])
        assert state.solve(chosen) == dict(zip(("op", "a", "b"), event, strict=True))
        equal = state.algebra.and_(*(cell == number for cell, number in zip(state.cells, end, strict=True)))
        assert state.solve(state.algebra.and_(chosen, state.algebra.not_(equal))) is None


def test_a_mask_may_be_unknown() -> None:
    state = SymbolicState(SymbolicInterpreter(Terms()), first_state(CONFIG, MUTANT))
    mask = state.algebra.unknown(0, 1, "mask")
    for e, (op, a, b) in enumerate((OPEN, A, A)):
        state.cells[EVENT] = e
        state.reader.apply(state, MUTANT, op, a, b, mask)
    assert state.solve(state.broken("I2")) == {"mask": 1}


def test_under_a_condition_nothing_else_changes() -> None:
    state = SymbolicState(SymbolicInterpreter(Terms()), first_state(CONFIG, MUTANT))
    sure, maybe = list(state.cells), state.algebra.unknown(0, 1, "maybe")
    with state.under(False):
        run_terms(state, (OPEN,))
    assert state.cells == sure
    with state.under(maybe == 1):
        run_terms(state, (OPEN,))
    assert state.solve(state.cells[COLUMNS["R_ACTIVE"]] == 1) == {"maybe": 1}


def test_an_index_outside_its_column_is_an_error(defaults: tuple[Policy, ...]) -> None:
    state = SymbolicState(SymbolicInterpreter(Terms()), first_state(Config(), defaults))
    with pytest.raises(IndexError, match="place 16 of a column of 16"):
        state.reader.get(state, COLUMNS["DEV"], 16)


def test_the_digest_covers_what_a_policy_declares(defaults: tuple[Policy, ...]) -> None:
    policy = defaults[2]
    evidence = replace(policy.manifest.evidence, horizon=policy.manifest.evidence.horizon + 1)
    others = (
        replace(policy, manifest=replace(policy.manifest, evidence=evidence)),
        replace(policy, workload=("fork",)),
        replace(policy, rule=defaults[1].rule),
    )
    digests = [text_digest((one,)) for one in (policy, *others)]
    assert len(set(digests)) == 4 and text_digest((replace(policy),)) == digests[0]


def test_the_digest_is_free_of_where_functions_lie(defaults: tuple[Policy, ...]) -> None:
    one, two = (
        f"def a_b(s, k):\n    return k\n\ndef a_c(s, k):\n    a_b(s, {number})\n" for number in (1, 2)
    )
    moved = one.replace("a_b", "x_y").replace("a_c", "x_z")
    assert _numbered(moved) == _numbered(one) != _numbered(two)
    kept = load_acceptance()
    assert all(stands(kept, policy, Config()) for policy in defaults)
