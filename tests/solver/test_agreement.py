"""The solver's relation and the Python interpreter agree on every cell after every event, and every case is a path of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzkv.cases.corpus import Case, load_case, load_corpus
from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.contract.minimal import subsets
from fuzzkv.semantics.layout import PAGES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.history import run_history
from fuzzkv.simulator.outcome import ending
from fuzzkv.simulator.symbolic.circuit import FALSE
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.asking import SolverQuestion, Space
from fuzzkv.solver.certify import judge_of, target_of, used, whole
from fuzzkv.solver.unrolling import Unrolling
from fuzzkv.strategies.covering_arrays import enabled
from fuzzkv.targets.model.recipe import Recipe, read_case
from tests.field import design_s5, sglang_27631, vllm_44250, vllm_45357, vllm_53505
from tests.field.reports import REPORTS
from tests.mutants import MUTANTS
from tests.solver.agreeing import agree

PAIR, TRIPLE = resolve(["offload", "quant"]), resolve(["offload", "quant", "evict"])
BREAKING = tuple(m.policy for m in MUTANTS if m.invariant in ("I2", "I5", "I8", "I12"))
TAKING_BACK = tuple(m.policy for m in MUTANTS if m.invariant in ("I9", "I10", "I11", "I16"))

CORPUS = Path(__file__).parents[2] / "corpus"
OF_THE_MODEL = [case for case in load_corpus(CORPUS) if case.get("target") != "vllm"]
FIELD = {policy.name: policy for report in REPORTS for policy in report.policies}
GROWING = ("drafts and groups",)
"""Sets whose sessions outgrow a window now and then."""

THOROUGH = (
    "triple, enforced, with arms",
    "pair, two sessions",
    "mutants that take back",
    "looks at steps",
    "looks at the other session",
)
"""Sets that cost most; the others compare arms, the contract, two sessions and mutants as well."""

SETS: dict[str, tuple[tuple[Policy, ...], tuple[int, int], int, int, bool, tuple[int, ...], int]] = {
    # Policies, sessions x pages, schedules, events of each, contract, arms beside, least that break or are refused.
    "triple": (TRIPLE, (1, 4), 1500, 8, False, (), 0),
    "triple, enforced, with arms": (TRIPLE, (1, 6), 1000, 7, True, (3, 5), 1),
    "pair, two sessions": (PAIR, (2, 3), 1500, 7, False, (), 0),
    "pair, whole": (PAIR, (2, 8), 200, 3, False, (1,), 0),
    "mutants": (BREAKING, (1, 4), 2500, 7, False, (), 1000),
    "mutants, enforced": (BREAKING, (1, 6), 2500, 6, True, (), 1000),
    "mutants that take back": (TAKING_BACK, (1, 4), 1200, 6, False, (), 1),
    "looks at steps": (design_s5.REPORT.policies, (1, 4), 1000, 6, False, (), 0),
    "looks at the other session": (vllm_45357.REPORT.policies, (1, 3), 1000, 4, False, (), 0),
    "drafts and groups": (vllm_53505.REPORT.policies, (1, 4), 1000, 5, False, (), 0),
    "an external store": (vllm_44250.REPORT.policies, (1, 4), 1000, 4, True, (), 0),
    "write-back": (sglang_27631.REPORT.policies, (1, 4), 1000, 6, True, (), 0),
}


def window_of(policies: tuple[Policy, ...], sessions: int, pages: int) -> Window:
    config = Config()
    return Window(
        requests=sessions,
        pages=pages,
        device=config.device_frames,
        host=config.host_frames,
        policies=len(policies),
    )


class Followed(Unrolling):
    """The relation along a schedule that is known, every arm beside the set."""

    def __init__(self, recipe: Recipe, window: Window) -> None:
        arms = tuple(subsets((1 << len(recipe.policies)) - 1))
        super().__init__(recipe.policies, recipe.config, window, enabled(recipe.policies), arms=arms)
        self._known = iter(recipe.schedule.events)
        for _ in recipe.schedule.events:
            self.extend()

    def _drawn(self) -> tuple[int, int, int]:
        return next(self._known)

    def failures(self, mask: int, names: tuple[str, ...]) -> list[tuple[object, ...]]:
        """What is broken in an arm: invariant, count, actor, action, page, stamp and event, in their order."""
        cells = list(self.states[mask].cells)
        return [
            (v.invariant, v.count, v.actor, v.action, self._page(v.page), v.stamp, v.event)
            for v in ending(cells, names).failures
        ]

    def _page(self, page: int) -> int:
        return page if page < 0 else page // self.window.pages * PAGES + page % self.window.pages


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in THOROUGH)) for name in SETS]
)
def test_random_schedules_come_to_the_same_states(name: str) -> None:
    policies, (sessions, pages), count, depth, enforce, arms, least = SETS[name]
    window = window_of(policies, sessions, pages)
    seed = list(SETS).index(name)
    found = agree(policies, window, count=count, depth=depth, seed=seed, enforce=enforce, masks=arms)
    assert not found.differences
    # Few schedules outgrow the window, and the comparison means something: violations were met, or refusals.
    assert found.events > 0.8 * events(name) and found.broke >= least
    assert found.events == events(name) or name in GROWING


def events(name: str) -> int:
    _, _, count, depth, _, arms, _ = SETS[name]
    return count * depth * (1 + len(arms))


def test_that_is_more_than_a_hundred_thousand_events() -> None:
    assert sum(events(name) for name in SETS if name not in GROWING) >= 100_000


@pytest.mark.slow
@pytest.mark.parametrize("case", OF_THE_MODEL, ids=lambda case: str(case["id"]))
def test_every_case_is_a_path_of_the_relation(case: Case) -> None:
    recipe = read_case(case, allowed=FIELD)
    names, events = recipe.schedule.policies, recipe.schedule.events
    # The whole machine takes longer.
    for window in dict.fromkeys((used(recipe), whole(recipe)) if len(events) < 10 else (used(recipe),)):
        path = Followed(recipe, window)
        assert path.shows(target_of(case)) is True
        assert FALSE not in path.circuit.always
        for mask in path.states:
            arm = run_history(recipe.schedule, recipe.policies, mask, recipe.config).outcome
            assert (path.clean(mask) is True) == (not arm.failed)
            assert path.failures(mask, names) == [
                (v.invariant, v.count, v.actor, v.action, v.page, v.stamp, v.event) for v in arm.failures
            ]
        assert len(path.events) == len(events)


@pytest.mark.slow
@pytest.mark.parametrize("ident", ["fkv-45d424f910e5", "fkv-be1329ddcf7c", "fkv-6f8595e70666"])
def test_a_class_of_the_corpus_is_found_in_as_many_events(ident: str) -> None:
    case = load_case(CORPUS / f"{ident}.json")
    recipe, target = read_case(case, allowed=FIELD), target_of(case)
    space = Space(
        policies=recipe.policies,
        config=recipe.config,
        window=used(recipe),
        codes=enabled(recipe.policies),
        arms=tuple(subsets((1 << len(recipe.policies)) - 1)),
    )
    length = len(recipe.schedule.events)
    found = SolverQuestion(space, length, target=target, seconds=120).answer()
    assert isinstance(found, tuple) and judge_of(recipe, target)(found) == found
    assert SolverQuestion(space, length - 1, target=target, seconds=120).answer() is False
