"""Explaining a case with a policy in ordinary Python: its clauses by running, its acts through the view."""

from __future__ import annotations

import pytest

from fuzzkv.api import INT8, Cache, Custom, Page, does
from fuzzkv.explain.clauses import refused
from fuzzkv.explain.guard_words import in_words
from fuzzkv.explain.guards import blame, proposed
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, ARRIVE, FADE, STEP, TICK, Config, Schedule
from fuzzkv.targets.model.recipe import Recipe


class Squeezes(Custom):
    """Rewrites the first idle page, whatever is in flight."""

    kind = "quant"
    actions = does("quantise", reversibility="lossy-with-backup")

    def act(self, cache: Cache) -> None:
        any(self.rewrites(cache, page) for page in cache.pages)

    def rewrites(self, cache: Cache, page: Page) -> bool:
        return page.number > 0 and not page.newest and cache.quantise(page, INT8)


@pytest.fixture
def case(defaults: tuple[Policy, ...]) -> Recipe:
    events = (
        *((ARRIVE, 0, 6), (STEP, 0, 0), (FADE, 0, 1), (STEP, 0, 0), (STEP, 0, 0)),
        *((ACT, 1, 0), (ACT, 0, 0), (TICK, 8, 0)),
    )
    policies = (Squeezes.as_policy(), defaults[0])
    return Recipe(Schedule(tuple(policy.name for policy in policies), events), policies, Config())


def test_clauses_are_found_by_running(case: Recipe) -> None:
    violation = case.histories()[3].broke("I4")
    assert violation is not None
    assert refused(case, violation) == [
        "The contract would have refused it, and one clause is enough:",
        "  'fence', which first refuses Squeezes at event 6: a frame with something in flight on it may not be given up, "
        "rewritten or filled by a copy.",
        "That was seen while no other clause is enforced.",
        "Under the whole contract this schedule breaks nothing.",
    ]


def test_its_act_is_blamed_and_guarded(case: Recipe) -> None:
    violation = case.histories()[3].broke("I4")
    assert violation is not None
    found = blame(case, violation)
    assert found is not None
    assert (found.event, found.primitive, found.act.what, found.act.then) == (6, "quantise", (1, INT8), TICK)
    best = proposed(case, violation, tries=100)
    assert not isinstance(best, str)
    assert in_words(best[1].guard.ways) == "no copy in flight reads or fills its device frame"
    assert best[1].left == () and best[1].same == 0 < best[1].without
