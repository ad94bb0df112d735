"""Pairs of traces that prove that a field of shared metadata is needed: found where one is, and nowhere else."""

# The vocabulary is imported as a whole, so that a rule reads like a rule.
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fuzzkv.api import *
from fuzzkv.cases.corpus import load_corpus
from fuzzkv.metadata.fields import CONFIGURED, FIELD_NAMES, FIELDS, PRIVATE, UNSEEN, Observer
from fuzzkv.metadata.necessity import Pair, SlotKind, must_be_refused, shortened, smallest, verified
from fuzzkv.metadata.neighbours import altered, blindfolds, other_neighbours
from fuzzkv.metadata.pairs import Bound, PairSearch
from fuzzkv.metadata.survey import Surveyor, broke
from fuzzkv.metadata.trials import Run, Setting, Trace, broken
from fuzzkv.metadata.variants import LONGEST, Events, changed, silent
from fuzzkv.policies.registry import builtin
from fuzzkv.semantics.contract.clauses import permit_condemn
from fuzzkv.semantics.layout import COLUMNS
from fuzzkv.semantics.schedule import ACT, ARRIVE, BOUNDS, FADE, STEP, TICK, Config
from fuzzkv.simulator.columns import columns_of
from fuzzkv.simulator.interpreters import python_apply
from fuzzkv.simulator.start import first_state
from fuzzkv.targets.model.recipe import read_case


def quote_in_turn(s: State, k: Int) -> None:
    """Quotes the first page at one act and takes that back at the next: nothing else shows it."""
    stands = get(s, QUOTE, k * NP) == 1
    withdraw(s, stands, k, 0)
    promise(s, not_(stands), k, 0)


def quote_and_store(s: State, k: Int) -> None:
    """Quotes the first page while it is being copied out, which everybody sees."""
    begun = begin_store(s, present(s, 0), k, 0)
    promise(s, begun, k, 0)


def degrade(s: State, k: Int) -> None:
    """Rewrites the first page when it is old enough, whatever others said."""
    quantise(s, and_(present(s, 0), get(s, NOW, 0) >= 8), k, 0, INT4)


def degrade_twice(s: State, k: Int) -> None:
    """Rewrites the first page of the other session, then of the first."""
    quantise(s, present(s, PAGES), k, PAGES, INT4)
    degrade(s, k)


def policy(name: str, rule: Rule, *actions: str) -> Policy:
    evidence = Evidence(target="next-access", horizon=1, confidence=900, provenance="-", calibrated_on="-")
    manifest = Manifest(kind=name, actions=does(*actions), evidence=evidence, source="-", fidelity="-")
    return Policy(name=name, version="1", rule=rule, manifest=manifest)


LOSSY = policy("lossy", degrade, "quantise")
SETTING = Setting(Config(), (LOSSY, policy("quoting", quote_in_turn)))
SHOWN = Setting(Config(), (LOSSY, policy("storing", quote_and_store, "begin_store")))
KIND = SlotKind("I1", 0, "quantise")
BROKEN = ((ARRIVE, 0, 1), (ACT, 1, 0), (TICK, 8, 0), (ACT, 0, 0))
HARMLESS = ((ARRIVE, 0, 1), (TICK, 8, 0), (ACT, 0, 0))
SMALL = Bound(schedules=40, exact=4, around=20, strange=2)


def pair(refused: tuple[tuple[int, int, int], ...], allowed: tuple[tuple[int, int, int], ...]) -> Pair:
    return Pair(KIND, Trace(refused, 0, 0), Trace(allowed, 0, 0), refused, frozenset(), "quantise", (0, INT4))


@pytest.mark.slow
def test_what_another_says_is_needed_where_nothing_else_shows_it() -> None:
    outcome = PairSearch(SETTING, KIND, BROKEN, SMALL).run()
    assert smallest(outcome.pairs) == [frozenset({"authority"})]
    found = shortened(SETTING, outcome.pairs[frozenset({"authority"})])
    assert verified(SETTING, found) == {"authority"}
    assert len(found.refused.events) == 4


@pytest.mark.slow
def test_what_is_seen_anyway_needs_no_telling() -> None:
    end = ((ARRIVE, 0, 1), (TICK, 8, 0), (ACT, 1, 0), (ACT, 0, 0))
    outcome = PairSearch(SHOWN, KIND, end, SMALL).run()
    assert outcome.refused and not outcome.pairs and not outcome.with_neighbours
    (fact,) = outcome.facts
    assert (fact.carrier, fact.text.split(":")[0]) == ("", "copies of the page in flight")


def test_the_pair_that_there_is() -> None:
    assert verified(SETTING, pair(BROKEN, HARMLESS)) == {"authority"}
    assert must_be_refused(SETTING, KIND, Trace(BROKEN, 0, 0), BROKEN)


@pytest.mark.parametrize(
    ("refused", "allowed"),
    [
        (HARMLESS, HARMLESS),
        ((*BROKEN[:3], (ACT, 1, 0), BROKEN[3]), HARMLESS),
        (BROKEN, BROKEN),
        (BROKEN, ((ARRIVE, 0, 1), (TICK, 9, 0), (ACT, 0, 0))),
        (BROKEN, ((ARRIVE, 0, 1), (TICK, 3, 0), (ACT, 0, 0))),
        (BROKEN, ((ARRIVE, 0, 1), (TICK, 8, 0), (ACT, 0, 0), (ACT, 0, 0))),
    ],
    ids=[
        "nothing to refuse",
        "withdrawn before",
        "nothing to allow",
        "another time",
        "it doesn't run",
        "too late",
    ],
)
def test_what_is_no_pair_is_rejected(
    refused: tuple[tuple[int, int, int], ...], allowed: tuple[tuple[int, int, int], ...]
) -> None:
    assert verified(SETTING, pair(refused, allowed)) is None


def test_what_another_act_breaks_is_not_laid_to_this_one() -> None:
    """Quoted anew after the page was rewritten: the claim is false, but that is another's act, and could be refused."""
    later = (*HARMLESS, (ACT, 1, 0))
    kind = SlotKind("I12", 1, "promise")
    assert kind.among(broke(Run(SETTING).go(later, 3).state))
    assert not must_be_refused(SETTING, kind, Trace(HARMLESS, 0, 0), later)
    assert must_be_refused(SETTING, kind, Trace(later, 1, 0), later)


def test_what_goes_on_in_the_same_event_may_not_matter() -> None:
    """The act alone has to break it, whether or not its policy does more in that event."""
    twice = policy("twice", degrade_twice, "quantise")
    setting = Setting(Config(), (twice, SETTING.policies[1]))
    kind = SlotKind("I1", 0, "quantise")
    events = (BROKEN[0], (ARRIVE, 1, 1), *BROKEN[1:])
    assert kind.among(broke(Run(setting).go(events, 3).state))
    # The first call is on the page of the other session, which nobody quotes.
    assert not must_be_refused(setting, kind, Trace(events, 0, 0), events)
    assert must_be_refused(setting, kind, Trace(events, 0, 1), events)


def test_the_clause_about_evidence_reads_what_a_policy_sees_itself() -> None:
    own = {*PRIVATE, *CONFIGURED, "MF_HORIZON", "REFUSED"}
    assert columns_of([permit_condemn])[0] <= own


def test_every_column_is_private_told_or_unseen() -> None:
    told = [column for part in FIELDS for column in part.columns]
    everything = [*told, *PRIVATE, *CONFIGURED, *UNSEEN]
    assert sorted(everything) == sorted(COLUMNS)


@pytest.mark.parametrize(
    ("column", "place", "seen_in"),
    [
        ("QUOTE", NP, "authority"),
        ("QUOTE", 0, ""),
        ("MARK", NP, None),
        ("R_LOSS", 0, "quality budget"),
        ("SPENT", 0, ""),
        ("SPENT", 2, "quality budget"),
        ("LINK_FREE", 0, "recovery time"),
        ("FLYING", 1, "link budget"),
        ("LAYOUT", 0, "version"),
        ("WANT", 0, "version"),
        ("D_PREC", 0, "reversibility"),
        ("BUSY", 0, ""),
        ("J_FAIL", 0, None),
        ("V_COUNT", 1, None),
    ],
)
def test_a_change_shows_where_it_belongs(column: str, place: int, seen_in: str | None) -> None:
    state = Run(SETTING).go(((ARRIVE, 0, 2), (STEP, 0, 0)), 3).state
    before = Observer(0).look(state)
    state[COLUMNS[column] + place] += 100
    after = Observer(0).look(state)
    changed = [name for name, a, b in zip(FIELD_NAMES, before[1], after[1], strict=True) if a != b]
    assert changed == ([seen_in] if seen_in else [])
    assert (before[0] != after[0]) == (seen_in == "")


@pytest.mark.slow
def test_listening_changes_nothing() -> None:
    for case in load_corpus("corpus"):
        if not set(case["class"]["policies"]) <= set(builtin()):
            continue
        recipe = read_case(case)
        state = first_state(recipe.config, recipe.policies)
        apply = python_apply(recipe.policies)
        for e, (op, a, b) in enumerate(recipe.schedule.events):
            state[COLUMNS["EVENT"]] = e
            apply(state, op, a, b, 3)
        run = Run(Setting(recipe.config, recipe.policies), listen=(0, 1)).go(recipe.schedule.events, 3)
        assert run.state == state and {call.slot for call in run.calls if call.ran} == {0, 1}


def test_a_refused_call_does_nothing() -> None:
    run = Run(SETTING, refuse=Trace(BROKEN, 0, 0)).go(BROKEN, 3)
    assert [call.ran for call in run.calls if call.primitive == "quantise"] == [False]
    assert not broken(run.state) and run.state[COLUMNS["D_PREC"]] == EXACT


def test_a_stranger_does_the_same_and_says_otherwise() -> None:
    assert list(other_neighbours(SHOWN, 0)) == [(1, "quotes nothing")] and not list(blindfolds(SHOWN, 0))
    silent = altered(SHOWN, [(1, "quotes nothing")])
    one, other = (Run(setting).go(((ARRIVE, 0, 1), (ACT, 1, 0)), 3).state for setting in (SHOWN, silent))
    assert {i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b} <= {
        COLUMNS["QUOTE"] + NP,
        COLUMNS["PRIMS"],
        *range(COLUMNS["ACTED"], COLUMNS["REFUSED"]),
    }
    with pytest.raises(KeyError):
        altered(SHOWN, [(1, "sings")])


def test_acts_are_alike_where_only_what_others_say_differs() -> None:
    survey = Surveyor(SETTING, (0, 1))
    (bad,), (good,) = (
        [seen for seen in survey(events, 3).seen if seen.primitive == "quantise"]
        for events in (BROKEN, HARMLESS)
    )
    assert bad.private == good.private
    differ = [name for name, a, b in zip(FIELD_NAMES, bad.fields, good.fields, strict=True) if a != b]
    assert differ == ["authority"]
    assert [b.invariant for b in survey(BROKEN, 3).broke] == ["I1"] and not survey(HARMLESS, 3).broke


def test_varied_schedules_are_schedules() -> None:
    rng = Random(1)
    events: Events = (*BROKEN, (STEP, 0, 0), (FADE, 0, 0))
    for _ in range(300):
        events = changed(events, rng, (0, 1))
        assert len(events) <= LONGEST
        for op, a, b in events:
            low_a, high_a, low_b, high_b = BOUNDS[op]
            assert low_a <= a <= high_a and low_b <= b <= high_b


def test_silent_schedules_leave_a_policys_own_acts_alone() -> None:
    events = ((ARRIVE, 0, 1), (ACT, 0, 0), (TICK, 3, 0), (ACT, 1, 0), (ACT, 0, 0))
    found = list(silent(events, 0, (0, 1)))
    assert len(found) > 10
    for other in found:
        assert sum(event == (ACT, 0, 0) for event in other) == 2
        assert sum(a for op, a, _ in other if op == TICK) == 3
        assert [e for e in other if e[0] == ARRIVE] == [(ARRIVE, 0, 1)]


def test_the_search_is_the_same_each_time() -> None:
    one, other = (PairSearch(SETTING, KIND, BROKEN, replace(SMALL, seed=3)).run() for _ in range(2))
    assert one.pairs == other.pairs and one.looked == other.looked and one.facts == other.facts
