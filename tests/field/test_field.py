"""Every report of the field: the set fails on its trace, every part passes, the repaired twin passes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fuzzkv.casebook import Recipe, outcomes
from fuzzkv.machine.engine import BulkEngine
from fuzzkv.oracles.verdict import findings, smallest_failing
from tests.field.report import Report
from tests.field.reports import REPORTS

FOLDER = Path(__file__).parent
every_report = pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)


def breaks(report: Report, *, twins: bool = False) -> list[str]:
    """Invariants that the set breaks on the trace as a conflict, in order; empty if it's none."""
    recipe = Recipe(report.schedule, report.twins if twins else report.policies, report.config)
    arms = outcomes(recipe.histories())
    full = (1 << len(report.policies)) - 1
    if full not in smallest_failing(arms):
        return []
    return [f.kind.invariant for f in findings(arms, full) if not f.consequence]


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
        found = findings(arms, full) if full in smallest_failing(arms) else []
        assert report.invariant not in [f.kind.invariant for f in found]


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
                "fuzzkv.contract.schedule",
                "tests.field.report",
            )


@every_report
def test_found_blind_and_no_false_alarm(report: Report, compiled: object) -> None:
    engine = BulkEngine(report.policies, report.config, seed=1)
    engine.search(60_000)
    full = (1 << len(report.policies)) - 1
    assert (full, report.invariant) in {(c.mask, c.invariant) for c in engine.classes}
    assert {c.mask for c in engine.classes} == {full}, "a part fails alone"
    clean = BulkEngine(report.twins, report.config, seed=1)
    clean.search(60_000)
    assert clean.classes == []
