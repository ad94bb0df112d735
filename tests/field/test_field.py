"""Every report of the field: the set fails on its trace, every part passes, the repaired twin passes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzkv.oracles.conflict import findings, smallest_failing
from fuzzkv.strategies.schedules import schedules
from fuzzkv.targets.model.recipe import Recipe, outcomes
from tests.field.report import Report
from tests.field.reports import REPORTS

FOLDER = Path(__file__).parent

# Of this scope, so that pytest runs the tests of one report after another: each of its sets is then written out once.
every_report = pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name, scope="module")


def breaks(report: Report, *, twins: bool = False) -> list[str]:
    """Invariants that the set breaks on the trace as a conflict, in order; empty if it's none."""
    recipe = Recipe(report.schedule, report.twins if twins else report.policies, report.config)
    arms = outcomes(recipe.histories())
    full = (1 << len(report.policies)) - 1
    if full not in smallest_failing(arms):
        return []
    return [
        f.failure_class.invariant for f in findings(arms, full, recipe.schedule.policies) if not f.consequence
    ]


@every_report
def test_the_set_fails_and_every_part_passes(report: Report) -> None:
    assert report.invariant in breaks(report)
    assert set(breaks(report)) <= {report.invariant, *report.also}


@every_report
def test_the_trace_is_minimal(report: Report) -> None:
    for i in range(report.depth):
        shorter = report.trace[:i] + report.trace[i + 1 :]
        recipe = Recipe(report.schedule.with_events(shorter), report.policies, report.config)
        arms = outcomes(recipe.histories())
        full = (1 << len(report.policies)) - 1
        found = findings(arms, full, recipe.schedule.policies) if full in smallest_failing(arms) else []
        assert report.invariant not in [f.failure_class.invariant for f in found]


@every_report
def test_the_repaired_twin_passes(report: Report) -> None:
    recipe = Recipe(report.schedule, report.twins, report.config)
    for history in recipe.histories().values():
        assert not history.outcome.failed
    assert len(report.repaired) == 1


@every_report
def test_names_are_sorted(report: Report) -> None:
    names = [policy.name for policy in report.policies]
    assert names == sorted(names) == [policy.name for policy in report.twins]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*_*.py")), ids=lambda path: path.stem)
def test_only_the_public_api_is_used(path: Path) -> None:
    if path.stem.startswith("test_"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.module in (
                "__future__",
                "fuzzkv.api",
                "fuzzkv.semantics.schedule",
                "tests.field.report",
            )


@every_report
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_the_twin_is_clean_on_any_schedule(report: Report, data: st.DataObject) -> None:
    names = report.schedule.policies
    workload = sorted({name for policy in report.twins for name in policy.workload})
    schedule = data.draw(schedules(names, workload=workload, max_events=24))
    for history in Recipe(schedule, report.twins, report.config).histories().values():
        assert not history.outcome.failed
