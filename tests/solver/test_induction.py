"""Proofs: the standing facts hold in real runs, the default set is proved, and a weaker contract isn't.

A mutant here is a contract with one clause weakened: the proof has to fail for the invariants that stand on the clause
and for no other, and a policy that breaks one of them under that contract stands beside it.
"""

# The vocabulary is imported as a whole, so that a clause reads like a clause.
# ruff: noqa: F403, F405

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import z3

from fuzzkv.semantics.contract import clauses
from fuzzkv.semantics.contract.inductive_facts import FACTS, KEPT, PREMISES, Fact
from fuzzkv.semantics.facts import hosted, present, quoted, request_of
from fuzzkv.semantics.layout import COLUMNS, PRIMITIVES
from fuzzkv.semantics.ops import primitives
from fuzzkv.semantics.ops.primitives import begin_store, drop_device, drop_host, lose
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.policy import Policy, Rule
from fuzzkv.semantics.schedule import ACT, ARRIVE, BOUNDS, FADE, FAIL, FINISH, STEP, TICK, Config, Event
from fuzzkv.semantics.schedule import LATE as LATER
from fuzzkv.semantics.vocabulary import *
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.interpreters import plain_apply, python_apply
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.induction import prove, usual_window
from fuzzkv.solver.obligations import Composition
from fuzzkv.solver.proofs import Proofs
from tests.broken import AWAY, CONFIG, IDLE_FREE, PLANTS, ask, policy

SMALL = Window(requests=1, pages=2, device=2, host=1, copies=1, policies=1, entries=1)
"""What a weakened clause needs to show."""
SIZES = {"page": NP, "device": ND, "host": NH, "copy": NJ, "session": NR, "policy": NK, "machine": 1}


def failing(state: Sequence[int], facts: Sequence[Fact]) -> set[str]:
    """The facts that don't hold in a state."""
    return {fact.name for fact in facts if not all(fact.text(state, i) for i in range(SIZES[fact.over]))}


def unproved(found: Proofs) -> set[str]:
    """The invariants that aren't proved."""
    return {proof.invariant for proof in found.proofs if proof.verdict != "proved"}


def states(engine: BulkEngine, policies: tuple[Policy, ...], count: int) -> Iterator[list[int]]:
    """The states after every event of schedules that a search draws."""
    apply = python_apply(policies)
    for number in range(count):
        state = first_state(Config(), policies, enforce=engine.enforce)
        yield state
        for op, a, b in engine.schedule(number).events:
            apply(state, op, a, b, (1 << len(policies)) - 1)
            yield state


@pytest.mark.slow
def test_the_facts_hold_in_real_runs(compiled: BulkEngine, defaults: tuple[Policy, ...]) -> None:
    quant = next(k for k, one in enumerate(defaults) if one.name == "quant")
    seen = 0
    for state in states(compiled.again(seed=2, enforce=True), defaults, 60):
        seen += 1
        assert not failing(state, (*PREMISES, *FACTS, KEPT[0]))
        assert all(KEPT[1].text(state, quant * NP + p) for p in range(NP))
    assert seen > 600


@pytest.mark.slow
def test_without_the_contract_some_facts_fail(compiled: BulkEngine, defaults: tuple[Policy, ...]) -> None:
    failed: set[str] = set()
    for state in states(compiled.again(seed=2, enforce=False), defaults, 60):
        failed |= failing(state, FACTS)
    assert "quote has an exact copy" in failed
    # What no policy can do anything about holds all the same.
    assert "device frame names its page" not in failed


MONKEYS = 4
ENVELOPE = (
    "begin_store",
    "begin_load",
    "drop_device",
    "drop_host",
    "quantise",
    "promise",
    "withdraw",
    "condemn",
    "lose",
)


def monkeys(seed: int, events: int) -> Iterator[list[int]]:
    """The states of a run in which policies do anything that the envelope allows, on the whole machine."""
    draw = random.Random(seed)
    config = Config(
        device_frames=draw.randint(6, ND), host_frames=draw.randint(2, NH), ledger=draw.randint(0, 1000)
    )
    policies = [replace(IDLE_FREE, name=str(k)) for k in range(MONKEYS)]
    state, apply = first_state(config, policies, enforce=True), plain_apply(policies)
    lively = [ARRIVE, *[STEP] * 6, *[TICK] * 4, *[ACT] * 20, FADE, FINISH, FAIL, LATER]
    for _ in range(events):
        op = draw.choice(lively)
        low_a, high_a, low_b, high_b = BOUNDS[op]
        if op != ACT:
            apply(state, op, draw.randint(low_a, high_a), draw.randint(low_b, high_b), 0)
            yield state
            continue
        p = draw.randrange(NP)
        for name in draw.choices(ENVELOPE, k=4):
            more = {"quantise": [draw.randint(1, 2)], "drop_host": [draw.randint(0, 1)]}.get(name, [])
            OPERATIONS[name](state, True, draw.randrange(MONKEYS), p, *more)
        yield state


@pytest.mark.slow
def test_whatever_policies_do_breaks_nothing_but_the_hole() -> None:
    """What is proved for any policies within a window holds on the whole machine, as far as chance looks."""
    broken: set[int] = set()
    did: set[int] = set()
    for seed in range(25):
        for n, state in enumerate(monkeys(seed, 200)):
            if n % 8 == 0:
                assert not failing(state, FACTS), (seed, n)
        assert not failing(state, FACTS), seed
        broken |= {i for i in range(1, NINV) if state[V_COUNT + i]}
        did |= {i % NPRIM for i in range(NK * NPRIM) if state[ACTED + i]}
    assert broken <= {I1}
    assert did == {PRIMITIVES.index(name) for name in ENVELOPE} | {P_END_STORE, P_END_LOAD}


@pytest.fixture(scope="module")
def whole(defaults: tuple[Policy, ...]) -> Proofs:
    """The default set, with every invariant."""
    return prove(defaults, seconds=300)


@pytest.mark.slow
def test_the_default_set_is_proved(whole: Proofs) -> None:
    assert unproved(whole) == set()
    breadth = {proof.invariant: proof.breadth for proof in whole.proofs}
    assert breadth.pop("I1") == "these rules"
    assert {gap.text for gap in whole.of("I1").gaps} == {"step 0", "step 1"}
    assert {name for name, wide in breadth.items() if wide == "nobody"} == {"I8", "I10", "I15"}
    assert set(breadth.values()) == {"any policies", "nobody"}
    assert whole.facts["any policies"][0] == "names its device frame"
    assert set(whole.dropped["any policies"]) >= {"nowhere is declared"}
    assert "quote has an exact copy" in whole.of("I12").facts
    assert (
        whole.of("I14").facts
        == (
            "copy ends with the link",
            "link leaves room",
            "settling starts nothing",
        )
        or "link leaves room" in whole.of("I14").facts
    )
    assert whole.goals > 500 and whole.premises[0].startswith("Costs are ticks")


@pytest.mark.slow
def test_what_is_assumed_can_be() -> None:
    """An induction from contradictory facts would prove anything."""
    composition = Composition([IDLE_FREE], SMALL)
    for text in composition.texts:
        solver = z3.Solver()
        for segment in composition.segments(text):
            solver.add(*[term for _, term in segment.assumed])
            assert solver.check() == z3.sat, text.name


# Mutants of the contract.


def always(s: State, g: Bool, k: Int, p: Int) -> Bool:
    """Permits everything."""
    return True


def copies_always(s: State, g: Bool, k: Int) -> Bool:
    """Permits every copy."""
    return True


_DESTROY, _RESHAPE = clauses.permit_destroy, clauses.permit_reshape
_refuse = clauses.refuse


def reshapes_unfenced(s: State, g: Bool, k: Int, p: Int, busy: Bool) -> Bool:
    """Rewrites bytes that a copy reads."""
    return _RESHAPE(s, g, k, p, False)


def destroys_the_last(s: State, g: Bool, k: Int, p: Int, last: Bool, busy: Bool, loss: Int) -> Bool:
    """Without the clause of authority."""
    return _DESTROY(s, g, k, p, False, busy, loss)


def destroys_what_is_quoted(s: State, g: Bool, k: Int, p: Int, last: Bool, busy: Bool, loss: Int) -> Bool:
    """The clause of authority doesn't look at quotes."""
    unpaid = and_(loss == 0, get(s, EVICTED, p) == 0)
    dear = and_(loss > 0, get(s, R_LOSS, request_of(p)) + loss > get(s, LEDGER, 0))
    return not_(_refuse(s, and_(g, or_(and_(last, unpaid), busy, dear)), C_AUTHORITY))


def destroys_beyond_budget(s: State, g: Bool, k: Int, p: Int, last: Bool, busy: Bool, loss: Int) -> Bool:
    """Without the quality budget."""
    unpaid = and_(loss == 0, get(s, EVICTED, p) == 0)
    return not_(_refuse(s, and_(g, or_(and_(last, or_(quoted(s, p), unpaid)), busy)), C_AUTHORITY))


MUTANTS: tuple[tuple[str, Callable[..., Any], set[str], str], ...] = (
    ("permit_condemn", always, {"I17"}, "I17"),
    ("permit_copy", copies_always, {"I14"}, "I14"),
    ("permit_promise", always, {"I1", "I12"}, "I12"),
    ("permit_reshape", reshapes_unfenced, {"I4"}, "I4"),
    ("permit_destroy", destroys_the_last, {"I1", "I12"}, "I1"),
    ("permit_destroy", destroys_what_is_quoted, {"I1", "I12"}, ""),
    ("permit_destroy", destroys_beyond_budget, {"I18"}, "I18"),
)
"""Clause, its mutant, the invariants that can't be proved then, and the one that a plant breaks under it."""
OFTEN = (copies_always, destroys_the_last, destroys_beyond_budget)
"""Mutants that every run of the tests tries: of two clauses, and of two parts of one."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clause", "mutant", "lost", "broken"),
    [pytest.param(*each, marks=[pytest.mark.thorough] * (each[1] not in OFTEN)) for each in MUTANTS],
    ids=[mutant.__name__ for _, mutant, _, _ in MUTANTS],
)
def test_a_weaker_clause_loses_just_its_invariants(
    monkeypatch: pytest.MonkeyPatch, clause: str, mutant: Callable[..., Any], lost: set[str], broken: str
) -> None:
    monkeypatch.setattr(primitives, clause, mutant)
    found = prove([IDLE_FREE], window=SMALL, seconds=300, processes=1)
    # Whatever policies do, I1 needs that a loss is declared; that is a test of its own.
    assert unproved(found) - {"I1"} == lost - {"I1"}
    places = {gap.text for gap in found.of("I1").gaps}
    assert ("drop_device" in places) == ("I1" in lost)
    for plant in PLANTS:
        if plant.invariant == broken:
            assert breaks(plant.mutant, plant.events, broken)


def breaks(rule: Rule, events: Sequence[Event], invariant: str, config: Config = CONFIG) -> bool:
    """Whether a rule breaks an invariant on a schedule, with the contract enforced."""
    policies = (policy("x", rule),)
    state = first_state(config, policies, enforce=True)
    apply = plain_apply(policies)
    for op, a, b in events:
        apply(state, op, a, b, 1)
    return state[COLUMNS["V_COUNT"] + int(invariant[1:])] > 0


def test_the_whole_contract_stops_the_plants() -> None:
    assert not [plant for plant in PLANTS if breaks(plant.mutant, plant.events, plant.invariant)]


# What the contract doesn't cover.


def pays_and_says_nothing(s: State, k: Int) -> None:
    """Gives page 1 up for good, within the budget, and doesn't declare it evicted."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, and_(line == 1, hosted(s, 1)), k, 1)
    drop_host(s, and_(line == 1, not_(present(s, 1))), k, 1, 1)
    add_if(s, True, NOTE, k, 1)


def pays_and_says_so(s: State, k: Int) -> None:
    """The twin declares it."""
    pays_and_says_nothing(s, k)
    lose(s, True, k, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "silent"), [(pays_and_says_nothing, True), (pays_and_says_so, False)])
def test_a_loss_that_nobody_declares_is_a_hole(rule: Rule, silent: bool) -> None:
    """The contract lets a policy pay for a page and say nothing: the next reader asks for it."""
    assert breaks(rule, (*AWAY, ask(1)), "I1", replace(CONFIG, ledger=300)) == silent
    found = prove([policy("x", rule)], window=SMALL, seconds=300, processes=1)
    assert unproved(found) == ({"I1"} if silent else set())
    if silent:
        gap = found.of("I1").gaps[0]
        assert gap.text == "step 0" and gap.state is not None
        assert any(name.startswith("PAID[") for name in gap.state)


@pytest.mark.slow
def test_a_loss_that_declares_itself_closes_the_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """I1 is proved whatever policies do as soon as giving a page up for good says so by itself."""

    def drops_and_says_so(s: State, g: Bool, k: Int, p: Int, final: Int) -> Bool:
        ok = drop_host(s, g, k, p, final)
        lose(s, and_(ok, final > 0), k, p)
        return ok

    monkeypatch.setitem(OPERATIONS, "drop_host", drops_and_says_so)
    found = prove([IDLE_FREE], window=SMALL, seconds=300, processes=1)
    assert unproved(found) == set()
    assert found.of("I1").breadth == "any policies"


@pytest.mark.slow
def test_a_rule_that_names_a_page_beyond_the_window_is_its_manifests_envelope() -> None:
    def last(s: State, k: Int) -> None:
        """Names page 12."""
        drop_device(s, True, k, 12)

    assert Composition([policy("last", last)], SMALL).rules == ()


@pytest.mark.slow
def test_no_time_is_unknown() -> None:
    told: list[tuple[str, int, int]] = []
    found = prove([IDLE_FREE], window=SMALL, seconds=0, processes=1, tell=lambda *what: told.append(what))
    assert "I8" not in unproved(found) and {"I1", "I2", "I14"} <= unproved(found)
    assert all(gap.state is None for proof in found.proofs for gap in proof.gaps)
    assert told and told[0][1] == 1
    assert usual_window([IDLE_FREE]).policies == 2
