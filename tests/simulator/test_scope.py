"""The solver's reader over bits, and how much of the machine a window leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzkv.cases.corpus import load_case
from fuzzkv.semantics.layout import COLUMNS, SIZE, SIZES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ARRIVE, FADE, STEP, TICK, Config, Event, Schedule
from fuzzkv.simulator.interpreters import python_apply
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.circuit import Circuit
from fuzzkv.simulator.symbolic.interpreter import SymbolicInterpreter, SymbolicState, run_symbolic
from fuzzkv.simulator.symbolic.scope import WHOLE, Window
from fuzzkv.targets.model.recipe import read_case
from tests.broken import CONFIG, OPEN, A, drops_while_storing, policy
from tests.solver.simulate import simulated

MUTANT = (policy("x", drops_while_storing),)


def test_the_whole_window_leaves_nothing_out() -> None:
    assert WHOLE.sizes() == {COLUMNS[name]: size for name, size in SIZES.items()}
    assert sum(WHOLE.sizes().values()) == SIZE


def test_a_window_has_fewer_places() -> None:
    sizes = Window(requests=1, pages=3, device=5, host=4, copies=2, policies=2, entries=1).sizes()
    named = {name: sizes[base] for name, base in COLUMNS.items()}
    expected = {
        "OWNED": 3,
        "WANT": 3,
        "CERT": 3,
        "QUOTE": 6,
        "MARK": 6,
        "SPENT": 2,
        "NOTE": 2,
        "FLYING": 2,
        "R_N": 1,
        "RING": 1,
        "D_PAGE": 5,
        "D_QUEUE": 5,
        "H_PIN": 4,
        "J_KIND": 2,
        "LEASE": 2,
        "X_KEY": 1,
        "NOW": 1,
        "Q_LEN": 3,
        "DEFER": 1,
    }
    assert {name: named[name] for name in expected} == expected
    for name in ("ENFORCE", "REFUSED", "V_COUNT", "GOAL", "SHARE"):
        assert named[name] == SIZES[name]
    assert all(named[name] <= SIZES[name] for name in SIZES)


def test_a_known_schedule_comes_to_numbers(defaults: tuple[Policy, ...]) -> None:
    case = load_case(Path(__file__).parents[2] / "corpus" / "fkv-65e04cb4a865.json")
    recipe = read_case(case)
    state, apply = first_state(recipe.config, recipe.policies), python_apply(recipe.policies)
    for e, (op, a, b) in enumerate(recipe.schedule.events):
        state[COLUMNS["EVENT"]] = e
        apply(state, op, a, b, 3)
    bits = run_symbolic(
        recipe.schedule, recipe.policies, 3, recipe.config, reader=SymbolicInterpreter(Circuit())
    )
    assert bits == state


def run(
    state: SymbolicState, events: tuple[tuple[object, object, object], ...], mask: object
) -> SymbolicState:
    for e, (op, a, b) in enumerate(events):
        state.cells[COLUMNS["EVENT"]] = e
        state.reader.apply(state, MUTANT, op, a, b, mask)
    return state


def test_a_mask_may_be_unknown() -> None:
    circuit = Circuit()
    mask = circuit.unknown(0, 3)
    state = run(SymbolicState(SymbolicInterpreter(circuit), first_state(CONFIG, MUTANT)), (OPEN, A, A), mask)
    found = simulated(circuit, [(mask, range(4))]).holds(state.broken("I2"))
    assert found.tolist() == [False, True, False, True]


def test_a_pause_that_is_not_known() -> None:
    circuit = Circuit()
    pause = circuit.unknown(1, 32)
    state = run(
        SymbolicState(SymbolicInterpreter(circuit), first_state(CONFIG, MUTANT)),
        (OPEN, A, (TICK, pause, 0), A),
        1,
    )
    found = simulated(circuit, [(pause, range(1, 33))]).holds(state.broken("I2"))
    # A copy takes PAGE_COST ticks.
    assert found.tolist() == [n < CONFIG.page_cost for n in range(1, 33)]


def test_what_may_happen_is_each_on_its_own() -> None:
    circuit = Circuit()
    op, b = circuit.unknown(0, 7), circuit.unknown(0, 8)
    state = SymbolicState(SymbolicInterpreter(circuit), first_state(CONFIG, MUTANT))
    short = (ARRIVE, 0, 3)
    run(state, (short, A), 1)
    state.reader.writes = []
    state.reader.apply(state, MUTANT, op, 0, b, 1, (ARRIVE, STEP, FADE))
    events: list[Event] = [
        (ARRIVE, 0, 1),
        (STEP, 0, 0),
        (STEP, 0, 1),
        (STEP, 0, 7),
        (FADE, 0, 1),
        (FADE, 0, 7),
    ]
    simulation = simulated(circuit, [(op, [e[0] for e in events]), (b, [e[2] for e in events])])
    for i, event in enumerate(events):
        ends = run_symbolic(Schedule(("x",), (short, A, event)), MUTANT, 1, CONFIG)
        ends[COLUMNS["EVENT"]] = 1
        ours = [int(simulation.numbers(cell)[i]) for cell in state.cells]
        # Who writes first tells at which event; the last one has no number of its own here.
        apart = {COLUMNS[name] + j for name in ("V_EVENT",) for j in range(SIZES[name])}
        assert [x for j, x in enumerate(ours) if j not in apart] == [
            x for j, x in enumerate(ends) if j not in apart
        ]
    # An open session can't be opened again; a page that nobody has can't fade.
    wrote = simulation.holds(circuit.or_(*state.reader.writes))
    assert wrote.tolist() == [False, True, True, False, True, False]


def test_a_place_outside_its_column_is_an_error() -> None:
    state = SymbolicState(
        SymbolicInterpreter(Circuit(), Window(requests=1, pages=2)), first_state(Config(), MUTANT)
    )
    with pytest.raises(IndexError, match="place 2 of a column of 2"):
        state.reader.get(state, COLUMNS["DEV"], 2)


def test_what_is_left_out_is_never_written() -> None:
    state = SymbolicState(SymbolicInterpreter(Circuit(), left_out=("STEPS",)), first_state(CONFIG, MUTANT))
    run(state, (OPEN, (STEP, 0, 0)), 1)
    assert state.cells[COLUMNS["STEPS"]] == 0 and state.cells[COLUMNS["R_STEPS"]] == 1
