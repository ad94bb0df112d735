"""Which clauses would have refused a case: the smallest sets, against every subset run on the machine itself."""

# The vocabulary is imported as a whole, so that a rule reads like a rule.
# ruff: noqa: F403, F405

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from fuzzkv.cases.corpus import find_case
from fuzzkv.explain.clauses import refusals, refused
from fuzzkv.explain.cores import Refusing, refusing
from fuzzkv.semantics.layout import CLAUSES, COLUMNS
from fuzzkv.semantics.ops import primitives
from fuzzkv.semantics.ops.primitives import drop_device, promise, quantise
from fuzzkv.semantics.schedule import Schedule
from fuzzkv.semantics.vocabulary import *
from fuzzkv.simulator.interpreters import python_apply
from fuzzkv.simulator.start import first_state
from fuzzkv.targets.model.recipe import Recipe, read_case
from tests.broken import CONFIG, OPEN, A, ask, policy
from tests.field.design_s10 import REPORT as S10

CORPUS = Path(__file__).parent.parent.parent / "corpus"


def recipe(name: str) -> Recipe:
    return read_case(find_case(name, CORPUS))


def answer(case: Recipe, invariant: str) -> Refusing:
    return refusing(case.schedule, case.policies, case.config, invariant)


def breaks(case: Recipe, invariant: str, clauses: set[str]) -> bool:
    """Whether the machine breaks the invariant with just these clauses enforced."""
    state = first_state(case.config, case.policies)
    for i, clause in enumerate(CLAUSES):
        state[COLUMNS["ENFORCE"] + i] = int(clause in clauses)
    apply = python_apply(case.policies)
    for e, (op, a, b) in enumerate(case.schedule.events):
        state[COLUMNS["EVENT"]] = e
        apply(state, op, a, b, (1 << len(case.policies)) - 1)
    return state[COLUMNS["V_COUNT"] + int(invariant[1:])] > 0


def subsets(clauses: tuple[str, ...]) -> list[set[str]]:
    return [set(chosen) for size in range(len(clauses) + 1) for chosen in combinations(clauses, size)]


def breaks_twice(s: State, k: Int) -> None:
    """Quotes page 1, which is lossy by then, and gives up page 0, which it quotes: I12 by an untrue quote, and by a reader
    who meets nothing.
    """
    quantise(s, True, k, 1, INT4)
    promise(s, True, k, 1)
    promise(s, True, k, 0)
    drop_device(s, True, k, 0)


TWICE = Recipe(Schedule(("x",), (OPEN, A, ask(0))), (policy("x", breaks_twice),), CONFIG)


@pytest.mark.parametrize(
    "name", ["fkv-02f626019e02", "fkv-1e448c0fa5f5", "fkv-cf8b750fa359", "fkv-d715f5ad44de"]
)
def test_every_subset_run_on_the_machine_says_the_same(name: str) -> None:
    case = recipe(name)
    invariant = find_case(name, CORPUS)["class"]["invariant"]
    some = tuple(
        c
        for c in CLAUSES
        if c in ("authority", "fence", "evidence", "quality-budget", "link-budget", "claim")
    )
    whole = {frozenset(chosen): breaks(case, invariant, chosen) for chosen in subsets(some)}
    refuse = [
        chosen for chosen in whole if not any(broken for more, broken in whole.items() if more >= chosen)
    ]
    least = min(len(chosen) for chosen in refuse)
    found = answer(case, invariant)
    assert found.whatever
    assert set(map(frozenset, found.sets)) == {chosen for chosen in refuse if len(chosen) == least}


def test_two_clauses_are_needed_where_two_acts_break_it() -> None:
    assert answer(TWICE, "I12") == Refusing((("authority", "claim"),), True)
    assert breaks(TWICE, "I12", {"authority"}) and breaks(TWICE, "I12", {"claim"})
    assert not breaks(TWICE, "I12", {"authority", "claim"})
    violation = TWICE.histories()[1].broke("I12")
    assert violation is not None
    assert (
        refused(TWICE, violation)[0]
        == "The contract would have refused it, and 2 clauses together are enough:"
    )


@pytest.mark.slow
def test_a_clause_that_is_switched_off_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primitives, "permit_promise", lambda s, g, k, p: True)
    # The text is read anew by each reader, so the mutant is seen.
    assert answer(TWICE, "I12") == Refusing((), False)


def test_only_one_way_of_breaking_it_may_be_asked_about() -> None:
    """The first to break it is the untrue quote; without that it is the reader, which is another way."""
    quote = (0, P_PROMISE)
    found = refusing(TWICE.schedule, TWICE.policies, TWICE.config, "I12", quote)
    assert found == Refusing((("claim",),), True)


def test_each_clause_bites_where_the_machine_says() -> None:
    case = recipe("fkv-02f626019e02")
    assert refusals(case, clauses=("authority",)) == [(12, "authority")]
    assert refusals(case, clauses=("evidence",))[0] == (8, "evidence")
    assert refusals(case, clauses=()) == []


@pytest.mark.slow
def test_what_no_clause_refuses_is_said_to_be_uncovered() -> None:
    case = Recipe(S10.schedule, S10.policies, S10.config)
    assert answer(case, "I7").sets == ()
    violation = case.histories()[3].broke("I7")
    assert violation is not None and refused(case, violation) == [
        "No clause of the contract refuses this case: the contract doesn't cover it; under the whole of it this schedule "
        "still breaks I7."
    ]
