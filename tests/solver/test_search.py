"""The search for shortest schedules: it loses none, claims nothing that it doesn't know, and believes only the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fuzzkv.errors import EnvironmentFailure
from fuzzkv.modelcheck.exhaust import exhaust
from fuzzkv.modelcheck.scope import Scope
from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.apply import apply_tick
from fuzzkv.semantics.layout import COLUMNS
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import (
    ACT,
    ARRIVE,
    FADE,
    STEP,
    TICK,
    Config,
    Event,
    Schedule,
    schedule_from_json,
)
from fuzzkv.simulator.columns import columns_of
from fuzzkv.simulator.symbolic.circuit import Circuit
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver import asking, sat, unrolling
from fuzzkv.solver.ascent import Ascent, Judged
from fuzzkv.solver.asking import SolverQuestion, Space
from fuzzkv.solver.certify import judge_of
from fuzzkv.solver.sat import Question
from fuzzkv.solver.shortest import Shortest, absent, shortest
from fuzzkv.solver.unrolling import Breach, Unrolling
from fuzzkv.solver.verify import Verification
from fuzzkv.strategies.covering_arrays import enabled
from fuzzkv.targets.model.recipe import Recipe
from tests.field import design_s5, vllm_45357, vllm_48412, vllm_53505
from tests.mutants import MUTANTS
from tests.solver.tiny import LATE_ONE, OF_FADED, PROMISES, SAFE, SHRINKS, STORES, WARNED

MUTANT = {mutant.invariant: mutant.policy for mutant in MUTANTS}
SMALL = Config(device_frames=3, host_frames=2)
OPEN, ASK, IDLE = (ARRIVE, 0, 1), (STEP, 0, 0), (TICK, 8, 0)
LAYOUT: Breach = ("I5", "per-head-quant", "write_scale")


def acts(k: int) -> Event:
    return ACT, k, 0


def space_of(policies: Sequence[Policy], pages: int = 1, config: Config = SMALL) -> Space:
    window = Window(
        requests=1,
        pages=pages,
        device=config.device_frames,
        host=config.host_frames,
        policies=len(policies),
    )
    codes = enabled(policies)
    return Space(policies=tuple(policies), config=config, window=window, codes=codes)


def recipe_of(policies: Sequence[Policy], events: Sequence[Event], config: Config = SMALL) -> Recipe:
    return Recipe(Schedule(tuple(p.name for p in policies), tuple(events)), tuple(policies), config)


def looked_for(
    policies: Sequence[Policy], target: Breach, events: Sequence[Event], *, seconds: float = 60.0
) -> Shortest:
    judge = judge_of(recipe_of(policies, events), target)
    return shortest(space_of(policies), target, tuple(events), judge, seconds=seconds)


class Every(Unrolling):
    """Without a normal form: every schedule."""

    def _normal(self, op: Any, a: Any, b: Any) -> None:
        """Nothing is asked of an event."""

    def _useful(self) -> None:
        """Nor that it changes anything."""


SCOPE = Scope(pages=1, requests=1, sessions=2, steps=2, ticks=2, tick_sizes=(8,))
SPACES: dict[str, tuple[tuple[Policy, ...], int, int, Scope]] = {
    # Policies, pages, events, the same for the exhaustive search.
    "three": ((PROMISES, STORES, SHRINKS), 1, 4, SCOPE),
    "who looks at what faded": ((PROMISES, OF_FADED), 1, 5, SCOPE),
}


def climbed(
    policies: tuple[Policy, ...], pages: int, depth: int
) -> dict[tuple[tuple[str, ...], Breach], int]:
    """The classes of every set and their shortest lengths, as the solver finds them."""
    window = Window(requests=1, pages=pages, device=SMALL.device_frames, host=SMALL.host_frames)
    verification = Verification(policies, SMALL, window)
    masks = range(1, 1 << len(policies))
    ascent = Ascent({mask: verification._space(mask) for mask in masks}, verification.judge, workers=1)
    ascent.run(100, depth)
    assert {climb.ending for climb in ascent.climbs} == {"depth"}
    return {
        (verification.names(climb.mask), target): len(events)
        for climb in ascent.climbs
        for target, events in climb.found.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param("three", marks=pytest.mark.thorough), "who looks at what faded"]
)
def test_the_normal_form_loses_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policies, pages, depth, scope = SPACES[name]
    found = climbed(policies, pages, depth)
    explored = exhaust(policies, SMALL, scope, depth=depth)
    shortest = {}
    for each in explored.sets:
        for c in each.conflicts:
            shown = c.finding.failure_class
            target = shown.invariant, shown.actor, shown.action
            shortest[each.policies, target] = len(c.recipe.schedule.events)
            assert shown.policies == each.policies
    assert found == shortest
    assert len(found) >= 2
    monkeypatch.setattr(asking, "Unrolling", Every)
    monkeypatch.setattr(unrolling, "_NEVER_FIRST", ())
    assert climbed(policies, pages, depth) == found


@pytest.mark.slow
def test_what_changes_nothing_in_the_set_may_keep_an_arm_from_harm() -> None:
    policies = (WARNED, STORES)
    # Alone, the first act takes the warning; beside the other it changes nothing, for the host has the page by then.
    events = (OPEN, acts(1), IDLE, acts(0), ASK, acts(0))
    target: Breach = ("I1", "needs-a-warning", "drop_host")
    judge = judge_of(recipe_of(policies, events), target)
    assert judge(events) == events
    assert judge(events[:3] + events[4:]) is None
    found = SolverQuestion(space_of(policies).beside([1]), 6, target=target, seconds=60).answer()
    assert isinstance(found, tuple) and judge(found) == found
    assert SolverQuestion(space_of(policies).beside([1]), 5, target=target, seconds=60).answer() is False


@pytest.mark.slow
def test_time_that_passes_first_may_be_longer_than_one_idle_time() -> None:
    policies = (PROMISES, LATE_ONE)
    events = (OPEN, (TICK, 32, 0), IDLE, ASK, acts(0), acts(1))
    target: Breach = ("I1", "shrinks-late", "quantise")
    found = looked_for(policies, target, events)
    assert found.proved and found.events[0][0] == TICK and len(found.events) == 5
    assert found.events[:2] in [((TICK, 32, 0), (TICK, n, 0)) for n in range(8, 33)]


@pytest.mark.slow
def test_a_case_that_was_made_longer_comes_back_to_the_shortest() -> None:
    report = vllm_48412.REPORT
    longer = (IDLE, OPEN, ASK, (FADE, 0, 0), IDLE, *report.trace[1:2], ASK, IDLE, report.trace[2])
    found = looked_for(report.policies, LAYOUT, longer)
    assert found.proved and found.spurious == 0
    assert len(found.events) == report.depth == 3
    assert judge_of(recipe_of(report.policies, found.events), LAYOUT)(found.events) == found.events
    assert found.questions >= 3


@pytest.mark.slow
def test_on_a_clean_twin_the_answer_is_no() -> None:
    report = vllm_48412.REPORT
    assert absent(space_of(report.twins), LAYOUT, 4, seconds=60) is True
    assert absent(space_of(report.policies), LAYOUT, 3, seconds=60) is False
    assert absent(space_of(report.policies), LAYOUT, 2, seconds=60) is True
    pair = (PROMISES, SAFE)
    assert absent(space_of(pair), ("I1", "shrinks-safely", "quantise"), 5, seconds=60) is True
    assert (
        SolverQuestion(space_of(pair), 4, known=[("I12", "promises", "promise")], seconds=60).answer()
        is False
    )


SHORTER: dict[str, tuple[tuple[str, ...], Breach, int, tuple[str, ...]]] = {
    # Policies, class, and the events that ddmin, our passes and Hypothesis's shrinker left of it (fkv-02f626019e02 and
    # fkv-1d8e5d080e41); then what the solver found.
    "S1": (
        ("evict", "offload"),
        ("I1", "evict", "drop_host"),
        13,
        (
            *("arrive 0 6", "fade 0 2", "step 0 3", "step 0 5", "step 0 5", "act evict 0", "tick 8 0"),
            *("act evict 0", "step 0 2", "step 0 5", "act offload 0", "act evict 0"),
        ),
    ),
    "latency": (
        ("offload", "quant"),
        ("I14", None, "step"),
        9,
        (
            *("arrive 0 5", "tick 20 0", "act quant 0", "act quant 0", "tick 8 0", "act quant 0"),
            *("act offload 0", "step 0 0"),
        ),
    ),
}


@pytest.mark.parametrize("name", SHORTER)
def test_the_solver_found_shorter_ones_than_shrinking_alone(name: str) -> None:
    names, target, before, lines = SHORTER[name]
    rows: list[list[object]] = [[int(x) if x.isdigit() else x for x in line.split()] for line in lines]
    events = schedule_from_json(names, rows).events
    recipe = recipe_of(resolve(names), events, Config())
    assert len(events) == before - 1
    assert judge_of(recipe, target)(events) == events
    histories = recipe.histories()
    assert [mask for mask, history in histories.items() if history.outcome.failed] == [3]


def test_the_mutant_beside_its_twin_is_found_at_its_shortest() -> None:
    pair = (PROMISES, SHRINKS)
    found = SolverQuestion(space_of(pair), 3, target=("I1", "shrinks", "quantise"), seconds=60).answer()
    assert found == ((ARRIVE, 0, 1), acts(0), acts(1))


@pytest.mark.slow
def test_who_fails_alone_is_spurious_and_then_runs_beside() -> None:
    policies = (MUTANT["I2"], PROMISES)
    target: Breach = ("I2", "breaks-i2", "drop_device")
    events = (OPEN, acts(1), acts(0), ASK, acts(0))
    found = looked_for(policies, target, events)
    assert found == Shortest(events, True, 1, found.questions)
    ascent = Ascent({3: space_of(policies)}, Verification(policies, SMALL, Window()).judge, workers=1)
    ascent.run(60, 3)
    [climb] = ascent.climbs
    assert climb.spurious == 1 and climb.space.arms == (1,) and climb.ending == "depth"
    assert ("I2", "breaks-i2", "drop_device") not in climb.found


def test_what_the_machine_denies_is_a_disagreement_and_no_claim() -> None:
    policies = (PROMISES, SHRINKS)
    target: Breach = ("I1", "shrinks", "quantise")
    events = (OPEN, acts(0), ASK, acts(1))
    found = shortest(space_of(policies), target, events, lambda _: None, seconds=60)
    assert not found.proved and found.denied and found.events == events
    window = Window(requests=1, pages=1, device=3, host=2)
    verification = Verification(policies, SMALL, window)
    ascent = Ascent({3: space_of(policies)}, lambda *_: Judged(), workers=1)
    ascent.run(60)
    [climb] = ascent.climbs
    assert climb.ending == "disagreement" and not climb.found and climb.depth == 2
    with pytest.raises(EnvironmentFailure, match="FKV073"):
        verification._verdict(climb, {})


def test_no_time_is_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    report = vllm_48412.REPORT
    space, events = space_of(report.policies), (OPEN, ASK, acts(0), acts(1))
    judge = judge_of(recipe_of(report.policies, events), LAYOUT)
    assert shortest(space, LAYOUT, events, judge, seconds=0) == Shortest(events, False, 0, 0)
    assert absent(space, LAYOUT, 2, seconds=0) is None
    monkeypatch.setattr(SolverQuestion, "answer", lambda self: None)
    assert shortest(space, LAYOUT, events, judge, seconds=60) == Shortest(events, False, 0, 1)
    assert absent(space, LAYOUT, 2, seconds=60) is None
    ascent = Ascent({3: space}, lambda *_: Judged(), workers=1)
    ascent.run(60)
    assert [(climb.ending, climb.depth, climb.found) for climb in ascent.climbs] == [("time", 0, {})]
    ascent = Ascent({3: space}, lambda *_: Judged(), workers=1)
    ascent.run(0)
    assert [(climb.ending, climb.depth) for climb in ascent.climbs] == [("time", 0)]


@pytest.mark.slow
def test_a_question_that_takes_too_long_is_unknown() -> None:
    circuit = Circuit()
    x, y = circuit.unknown(2, 1 << 40), circuit.unknown(2, 1 << 40)
    # The product of two large primes.
    question = Question(circuit, x * y == 1000000000039 * 999999999989, watched=(x, y))
    question.start(1)
    assert question.running and question.answer() is None and not question.running
    question = Question(circuit, x * y == 1000000000039 * 999999999989, watched=(x, y))
    question.start(60)
    question.cancel()
    assert not question.running and question.answer() is None


def test_an_interrupt_ends_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = Circuit()
    x, y = circuit.unknown(2, 1 << 40), circuit.unknown(2, 1 << 40)
    question = Question(circuit, x * y == 1000000000039 * 999999999989)
    question.start(60)
    assert question._child is not None
    process = question._child._process
    wait = process.wait

    def interrupted(timeout: float | None) -> None:
        monkeypatch.setattr(process, "wait", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        question.answer()
    assert process.returncode is not None and not question.running


def test_without_z3s_program_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sat.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(sat.shutil, "which", lambda _: None)
    with pytest.raises(EnvironmentFailure, match=r"FKV062.*z3.*pip install z3-solver"):
        absent(space_of(vllm_48412.REPORT.policies), LAYOUT, 2, seconds=60)


def test_a_window_of_one_session_is_widened_where_a_rule_looks_at_the_other() -> None:
    for policies, requests in ((vllm_48412.REPORT.policies, 1), (vllm_45357.REPORT.policies, 2)):
        space = space_of(policies)
        assert Unrolling(policies, SMALL, space.window, space.codes).window.requests == requests


def test_a_question_has_no_longer_to_be_put_than_to_be_answered() -> None:
    asked = SolverQuestion(space_of(vllm_48412.REPORT.policies), 4, target=LAYOUT, seconds=0)
    assert not asked.running and asked.answer() is None
    asked.cancel()


def test_pages_fade_at_once_only_where_no_act_looks_at_it_or_opens_one() -> None:
    def apart(*policies: Policy) -> bool:
        space = space_of(policies)
        return Unrolling(policies, SMALL, space.window, space.codes)._fades_apart

    assert apart(PROMISES, SHRINKS) and apart(*vllm_48412.REPORT.policies)
    assert not apart(PROMISES, OF_FADED)
    # Drafts open pages, and whoever forks a session copies what has faded.
    drafts = next(policy for policy in vllm_53505.REPORT.policies if policy.name == "page-drafts")
    assert not apart(drafts)
    # While time passes nobody looks at it, nor opens a page.
    assert all("RELEVANT" not in columns for columns in columns_of([apply_tick]))


def test_a_report_that_a_rule_looks_at_is_kept() -> None:
    for policies, kept in ((vllm_48412.REPORT.policies, False), (design_s5.REPORT.policies, True)):
        space = space_of(policies)
        unrolled = Unrolling(policies, SMALL, space.window, space.codes)
        for _ in range(2):
            unrolled.extend()
        assert unrolled.circuit.is_term(unrolled.state.cells[COLUMNS["STEPS"]]) == kept
