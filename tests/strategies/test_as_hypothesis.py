"""Every filed case replays as an ordinary Hypothesis test: an example of the strategy that drew it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

from fuzzkv.cases.corpus import load_corpus
from fuzzkv.semantics.schedule import Schedule
from fuzzkv.strategies.schedules import schedules
from fuzzkv.targets.model.recipe import Recipe, read_case
from tests.field.reports import REPORTS

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
FIELD = {policy.name: policy for report in REPORTS for policy in report.policies}
"""Policies of the field's cases, which nobody has installed."""
CASES = [case for case in load_corpus(CORPUS) if case.get("target") != "vllm"] if CORPUS.is_dir() else []


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case_as_example(case: dict[str, Any]) -> None:
    recipe = read_case(case, allowed=FIELD)

    @settings(
        database=None, derandomize=True, phases=[Phase.explicit], suppress_health_check=list(HealthCheck)
    )
    @given(schedules(recipe.schedule.policies, workload=recipe.workload))
    @example(recipe.schedule)
    def no_conflict(schedule: Schedule) -> None:
        found = Recipe(schedule, recipe.policies, recipe.config).conflicts()
        assert not found, [finding.failure_class.invariant for finding in found]

    with pytest.raises(AssertionError, match=case["class"]["invariant"]):
        no_conflict()
