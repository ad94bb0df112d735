"""The weakest guard: against the machine on states drawn at random, against guards that are too weak, and in words."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.cases.corpus import find_case
from fuzzkv.core.glossary import SAID
from fuzzkv.explain import weakest_guard as module
from fuzzkv.explain.any_state import Room
from fuzzkv.explain.guard_words import DO, guard_lines, in_words
from fuzzkv.explain.guards import Trial, around, blame, proposed
from fuzzkv.explain.normal_form import shortest
from fuzzkv.explain.weakest_guard import Act, Asked, Guard, guards
from fuzzkv.semantics.contract import predicates
from fuzzkv.semantics.layout import COLUMNS, PAGES
from fuzzkv.semantics.ops import primitives as text
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import STEP, TICK, Config
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.circuit import Circuit
from fuzzkv.solver.literals import Literals
from fuzzkv.targets.model.recipe import Recipe, read_case
from tests.field.sglang_27631 import REPORT as PROMISED

CORPUS = Path(__file__).parent.parent.parent / "corpus"
C = COLUMNS
Text = Callable[..., Any]


def recipe(name: str) -> Recipe:
    return read_case(find_case(name, CORPUS))


def violation_of(case: Recipe, invariant: str) -> Any:
    return case.histories()[(1 << len(case.policies)) - 1].broke(invariant)


@pytest.mark.parametrize(
    ("primitive", "what", "invariant", "words"),
    [
        (text.drop_host, (0, 1), "I1", "the device holds its exact bytes, or nobody quotes it"),
        (text.drop_host, (0, 0), "I2", "no copy in flight reads or fills its host frame"),
        (text.drop_device, (0,), "I2", "no copy in flight reads or fills its device frame"),
        (text.promise, (0,), "I12", "the host holds its exact bytes, or the device holds its exact bytes"),
        (text.condemn, (0,), "I17", "it was read within the horizon of the evidence"),
        (
            text.drop_host,
            (0, 1),
            "I18",
            "the losses charged to its session, this one included, stay below 431 permille",
        ),
    ],
)
def test_the_weakest_guard(
    defaults: tuple[Policy, ...], primitive: Text, what: tuple[int, ...], invariant: str, words: str
) -> None:
    (guard,) = guards(defaults, Config(), Act(0, primitive, what, None), invariant) or ()
    assert guard.weakest and in_words(guard.ways) == words
    allowed, ran = agreement(defaults, guard, primitive, what, int(invariant[1:]))
    # The comparison means something: of the acts that ran some were allowed, and some weren't.
    assert 10 < allowed < ran - 10


def agreement(
    policies: tuple[Policy, ...], guard: Guard, primitive: Text, what: tuple[int, ...], invariant: int
) -> tuple[int, int]:
    """On the machine, in states drawn at random: an act that runs breaks the invariant just where the guard doesn't permit
    it.  How many it permits, and how many ran.
    """
    rng, allowed, ran = random.Random(5), 0, 0
    for _ in range(3_000):
        s = drawn(policies, rng)
        predicates.check_authority(s, True, -1, 0, 0)
        predicates.check_budget_of_quality(s, True, -1, 0)
        if s[C["V_COUNT"] + invariant]:
            continue
        permits = guard.permits(primitive, s, 0, *what)
        if primitive(s, True, 0, *what):
            ran, allowed = ran + 1, allowed + permits
            assert (s[C["V_COUNT"] + invariant] > 0) == (not permits)
    return allowed, ran


def drawn(policies: tuple[Policy, ...], rng: random.Random) -> list[int]:
    """One session, page 0 of which is anywhere, in any form, with a copy of it in flight or none."""
    s = first_state(Config(), policies)
    s[C["R_ACTIVE"]], s[C["OWNED"]], s[C["R_N"]] = 1, 1, rng.randint(2, PAGES)
    s[C["WANT"]], s[C["R_LOSS"]] = 1, rng.randint(0, 600)
    for tier, place in (("D", "DEV"), ("H", "HOST")):
        if rng.random() < 0.8:
            s[C[place]], s[C[f"{tier}_PAGE"]], s[C[f"{tier}_FILL"]] = 0, 0, 1
            s[C[f"{tier}_TAG"]], s[C[f"{tier}_PREC"]] = rng.randint(1, 2), rng.randint(0, 1)
    s[C["QUOTE"] + rng.choice((0, 16, 32))] = rng.randint(0, 1)
    s[C["LIFE"]] = rng.randint(0, 9)
    s[C["SEEN"]] = rng.randint(0, s[C["LIFE"]])
    if rng.random() < 0.5:
        s[C["J_KIND"]], s[C["BUSY"]], s[C["J_END"]] = rng.randint(1, 2), 1, 8
        s[C["J_SRC"]], s[C["J_DST"]] = rng.randint(0, 1), rng.randint(0, 1)
    return s


def test_without_the_facts_that_decide_there_is_only_a_stronger_guard(
    defaults: tuple[Policy, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FACTS", tuple(f for f in module.FACTS if f.__name__ != "device_exact"))
    first, *_ = guards(defaults, Config(), Act(0, text.drop_host, (0, 1), None), "I1") or ()
    assert not first.weakest and (Asked("quoted", False),) in first.ways


def test_an_act_that_breaks_nothing_gets_no_guard(defaults: tuple[Policy, ...]) -> None:
    assert guards(defaults, Config(), Act(0, text.begin_store, (0,), None), "I1") is None


def test_a_guard_that_is_too_weak_is_caught() -> None:
    case = Recipe(PROMISED.schedule, PROMISED.policies, PROMISED.config)
    found = blame(case, violation_of(case, "I1"))
    assert found is not None and (found.event, found.primitive, found.act.what) == (6, "drop_host", (0, 0))
    trial = Trial(case, "I1", tries=150)
    weak = Guard(found.act, ((Asked("hosted", True),),), False)
    tried = trial.of(weak, (found.act.slot,), (found.primitive,))
    assert "I1" in tried.left and tried.same == tried.without > 0
    best = proposed(case, violation_of(case, "I1"), tries=150)
    assert not isinstance(best, str) and best[1].left == () and best[1].same == 0 < best[1].without


@pytest.mark.slow
def test_a_sum_is_guarded_for_everyone() -> None:
    """One policy's copies alone can't keep the link free: others fill it."""
    case = recipe("fkv-58f844c3056e")
    found = proposed(case, violation_of(case, "I14"), tries=400)
    assert not isinstance(found, str)
    blamed, tried = found
    assert blamed.act.then == STEP and blamed.primitive == "begin_store"
    assert len(tried.slots) == 2 and tried.primitives == ("begin_store", "begin_load")
    assert not tried.guard.weakest and tried.left == () and tried.same == 0 < tried.without
    alone = Trial(case, "I14", tries=400).of(tried.guard, (blamed.act.slot,), (blamed.primitive,))
    assert 0 < alone.same < alone.without


@pytest.mark.slow
@pytest.mark.parametrize(
    ("primitive", "what", "then", "invariant"),
    [
        (text.drop_host, (0, 1), None, "I1"),
        (text.drop_host, (0, 1), None, "I18"),
        (text.drop_device, (0,), None, "I2"),
        (text.promise, (0,), None, "I12"),
        (text.condemn, (0,), None, "I17"),
        pytest.param(text.drop_host, (0, 1), STEP, "I12", marks=pytest.mark.thorough),
        pytest.param(text.begin_store, (0,), STEP, "I14", marks=pytest.mark.thorough),
        (text.quantise, (0, 2), TICK, "I4"),
    ],
)
def test_a_larger_room_has_the_same_guards(
    defaults: tuple[Policy, ...], primitive: Text, what: tuple[int, ...], then: int | None, invariant: str
) -> None:
    act = Act(0, primitive, what, then)
    small = guards(defaults, Config(), act, invariant)
    larger = Room(sessions=2, pages=2, frames=3, copies=4)
    assert small and small == guards(defaults, Config(), act, invariant, larger)


def test_a_predicate_that_is_switched_off_is_missed(
    defaults: tuple[Policy, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "check_authority", lambda s, g, k, p, primitive: None)
    assert guards(defaults, Config(), Act(0, text.drop_host, (0, 1), None), "I1") is None


def test_who_is_to_blame_for_what_a_reader_meets() -> None:
    case = recipe("fkv-78f0728acd57")
    found = blame(case, violation_of(case, "I12"))
    assert found is not None and (found.event, found.primitive, found.act.then) == (12, "drop_host", STEP)


def test_a_case_that_the_window_does_not_hold_says_so() -> None:
    from tests.field.design_s8 import REPORT

    case = Recipe(REPORT.schedule, REPORT.policies, REPORT.config)
    assert guard_lines(case, violation_of(case, "I9")) == [
        "No guard is proposed: without rewind by turn-rollback at event 3 it doesn't happen, but it depends on a history "
        "that the solver's window doesn't have."
    ]


def test_schedules_around_a_case_are_the_same_each_time() -> None:
    events = recipe("fkv-65e04cb4a865").schedule.events
    one, other = around(events, 2, ()), around(events, 2, ())
    assert [next(one) for _ in range(20)] == [next(other) for _ in range(20)]


def test_the_shortest_way_to_say_it() -> None:
    every = {(a, b) for a in (True, False) for b in (True, False)}
    assert shortest(every - {(True, False)}, set()) == ((None, True), (False, None))
    assert shortest({(True, True)}, {(True, False)}) == ((True, None),)
    assert shortest(set(), set()) == () and shortest(every, set()) == ((None, None),)


def test_literals_are_asked_together() -> None:
    circuit = Circuit()
    a, b, c = (circuit.free() for _ in range(3))
    solver_of = Literals(circuit)
    both = circuit.both(a, b)
    assert solver_of.holds((both,), (a, b)) == {a, b}
    assert solver_of.holds((both, -a, c)) is None and set(solver_of.core((both, -a, c))) == {both, -a}


def test_every_act_in_words_is_a_primitive() -> None:
    assert set(DO) <= set(SAID)
