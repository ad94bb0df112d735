"""The oracle before the system: each invariant has a mutant that it kills and a clean twin on which
everything is silent; each clause of the contract refuses the mutant and lets the twin pass.

I11 and I16 are looked at in the core's own text as well: there the text itself is mutated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fuzzkv.core.results import Outcome
from fuzzkv.semantics.contract.invariants import BY_ID, INVARIANTS, names
from fuzzkv.semantics.layout import CLAUSES, COLUMNS
from fuzzkv.semantics.ops import primitives
from fuzzkv.semantics.ops.primitives import begin_store, drop_device, drop_host, lose
from fuzzkv.semantics.policy import Rule
from fuzzkv.semantics.schedule import FAIL, TICK, Event, Schedule
from fuzzkv.semantics.vocabulary import NOTE, Int, State, add_if, get
from fuzzkv.simulator.interpreters import plain_apply
from fuzzkv.simulator.outcome import ending
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.interpreter import run_symbolic
from tests.broken import (
    CONFIG,
    OPEN,
    WAIT,
    A,
    Plant,
    ask,
    drops_after_storing,
    frees_the_source_after_the_load,
    policy,
)
from tests.broken import PLANTS as CORE_PLANTS
from tests.broken_kinds import KIND_PLANTS

PLANTS = (*CORE_PLANTS, *KIND_PLANTS)
PLANT_OF = {plant.invariant: plant for plant in PLANTS}
every_plant = pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.mutant.__name__)


def run(rule: Rule, events: Sequence[Event], *, enforce: bool = False) -> tuple[list[int], Outcome]:
    """The last state of a schedule for one rule, and what it came to, in the plain interpreter."""
    chosen = (policy("x", rule),)
    state = first_state(CONFIG, chosen, enforce=enforce)
    apply = plain_apply(chosen)
    for e, (op, a, b) in enumerate(events):
        state[COLUMNS["EVENT"]] = e
        apply(state, op, a, b, 1)
    return state, ending(state, ("x",))


def broken(outcome: Outcome) -> list[str]:
    return [violation.invariant for violation in outcome.failures]


def refused(state: Sequence[int]) -> list[str]:
    base = COLUMNS["REFUSED"]
    return [clause for i, clause in enumerate(CLAUSES) if state[base + i]]


def test_every_invariant_has_a_mutant() -> None:
    assert {plant.invariant for plant in PLANTS} == set(names())


def test_every_clause_has_a_mutant() -> None:
    assert {plant.clause for plant in PLANTS} == set(CLAUSES)


@every_plant
def test_the_mutant_is_killed(plant: Plant) -> None:
    _, outcome = run(plant.mutant, plant.events)
    assert plant.invariant in broken(outcome)
    # It is the first thing that breaks, or it follows from what broke before it.
    before = broken(outcome)[: broken(outcome).index(plant.invariant)]
    assert set(before) <= set(BY_ID[plant.invariant].implied_by)


@every_plant
def test_the_twin_is_clean(plant: Plant) -> None:
    for enforce in (False, True):
        state, outcome = run(plant.twin, plant.events, enforce=enforce)
        assert outcome.acted == 1 and broken(outcome) == [] and refused(state) == []


@every_plant
def test_the_contract_refuses_the_mutant(plant: Plant) -> None:
    state, outcome = run(plant.mutant, plant.events, enforce=True)
    assert broken(outcome) == [] and plant.clause in refused(state)
    # Without it nothing is refused, and nothing counted.
    assert refused(run(plant.mutant, plant.events)[0]) == []


@every_plant
@pytest.mark.parametrize("enforce", [False, True], ids=["observe", "enforce"])
def test_the_solvers_reader_kills_the_same(plant: Plant, enforce: bool) -> None:
    for rule in (plant.mutant, plant.twin):
        ours = run_symbolic(Schedule(("x",), plant.events), (policy("x", rule),), 1, CONFIG, enforce=enforce)
        assert ours == run(rule, plant.events, enforce=enforce)[0]


def mutated(function: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    """A function of the text with one passage replaced."""
    source = inspect.getsource(function)
    assert source.count(old) == 1
    space = dict(function.__globals__)
    exec(source.replace(old, new), space)
    return space[function.__name__]  # type: ignore[no-any-return]


def test_i11_kills_a_text_that_forgets_whose_a_frame_is(monkeypatch: pytest.MonkeyPatch) -> None:
    events = PLANT_OF["I2"].events
    assert broken(run(drops_after_storing, events)[1]) == []
    forgets = mutated(primitives.drop_device, "let_go(s, ok, p)", "put_if(s, ok, D_PAGE, frame, FREE)")
    monkeypatch.setitem(drops_after_storing.__globals__, "drop_device", forgets)
    assert broken(run(drops_after_storing, events)[1])[0] == "I11"


def test_i16_kills_a_text_that_takes_a_failed_load_for_a_good_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # Page 1 goes to the host and leaves the device; its load fails.
    events = (OPEN, A, WAIT, A, A, (FAIL, 0, 0), (TICK, 8, 0))
    rule = frees_the_source_after_the_load
    state, outcome = run(rule, events)
    assert broken(outcome) == [] and state[COLUMNS["DEV"] + 1] == -1
    old = "let_go(s, and_(unloaded, get(s, D_FILL, d_dst) == 0, get(s, DEV, p) == d_dst), p)"
    believes = mutated(primitives.complete, old, "put_if(s, unloaded, D_FILL, d_dst, 1)")
    monkeypatch.setattr(primitives, "complete", believes)
    assert "I16" in broken(run(rule, events)[1])


def test_a_failed_store_yields_no_host_page() -> None:
    events = (OPEN, A, (FAIL, 0, 0), WAIT, ask(1))
    state, outcome = run(drops_after_storing, events)
    assert broken(outcome) == [] and state[COLUMNS["HOST"] + 1] == -1
    assert all(owner < 0 for owner in state[COLUMNS["H_PAGE"] : COLUMNS["H_PAGE"] + 12])


def test_names_and_ids() -> None:
    assert list(names()) == [f"I{i}" for i in range(1, 19)] == [i.id for i in INVARIANTS]
    assert len(set(names().values())) == 18 and names()["I1"] == "authority"


def test_what_implies_an_invariant_exists_and_comes_from_no_circle() -> None:
    for invariant in INVARIANTS:
        assert set(invariant.implied_by) <= set(names()) - {invariant.id}
        assert invariant.rule and invariant.oracle and invariant.severity


def declares_before_it_pays(s: State, k: Int) -> None:
    """Tries to get a page past every check: declared evicted first, then given up for nothing."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    lose(s, line == 1, k, 1)
    drop_device(s, line == 1, k, 1)
    drop_host(s, line == 1, k, 1, 0)
    add_if(s, True, NOTE, k, 1)


def test_a_loss_that_was_not_charged_can_not_be_declared() -> None:
    events = (OPEN, A, WAIT, A, ask(1))
    assert "I1" in broken(run(declares_before_it_pays, events)[1])
    state, outcome = run(declares_before_it_pays, events, enforce=True)
    assert broken(outcome) == [] and refused(state) == ["authority"]
