"""What an exhaustive search of small scopes says about the default policies, and how it says it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fuzzkv.cases.corpus import load_corpus
from fuzzkv.cli import app
from fuzzkv.core.results import FailureClass
from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.modelcheck import exhaust as way
from fuzzkv.modelcheck.exhaust import ExhaustResult, exhaust, parse_memory, parse_sizes
from fuzzkv.modelcheck.results import Explored
from fuzzkv.modelcheck.scope import Scope, default_ticks
from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.schedule import Config
from fuzzkv.targets.model.recipe import read_case
from tests.field import design_s8, mlxvlm_1715, trtllm_11879, vllm_46971, vllm_48412
from tests.field.report import Report

POLICIES = resolve(["offload", "quant"])
SCOPE = Scope(pages=2, requests=1, sessions=1, steps=2, ticks=3, tick_sizes=default_ticks(POLICIES, Config()))


@pytest.fixture(scope="module")
def observed() -> ExhaustResult:
    """offload and quant without the contract."""
    return exhaust(POLICIES, Config(), SCOPE)


@pytest.mark.slow
def test_it_finds_the_one_conflict_of_a_small_scope(observed: ExhaustResult) -> None:
    assert [found.policies for found in observed.sets] == [(), ("offload",), ("quant",), ("offload", "quant")]
    assert {found.verdict for found in observed.sets} == {"exhausted"} and observed.exit_code == 1
    [conflict] = observed.conflicts
    wanted = FailureClass(("offload", "quant"), "I2", "drop_device", "offload")
    assert conflict.finding.failure_class == wanted
    assert len(conflict.recipe.schedule.events) == 10 and conflict.case is None
    assert conflict.recipe.finding() == conflict.finding
    # Shortest, so nothing can be left out.
    events = conflict.recipe.schedule.events
    for i in range(len(events)):
        shorter = conflict.recipe.schedule.with_events(events[:i] + events[i + 1 :])
        assert replace(conflict.recipe, schedule=shorter).finding() is None


@pytest.mark.slow
def test_with_the_contract_there_is_none(observed: ExhaustResult) -> None:
    enforced = exhaust(POLICIES, Config(), SCOPE, enforce=True)
    assert not enforced.conflicts and not enforced.single and enforced.exit_code == 0
    assert enforced.sets[-1].explored.states > observed.sets[1].explored.states


def test_a_policy_that_never_acts_is_said() -> None:
    chosen = resolve(["evict"])
    result = exhaust(chosen, Config(), replace(SCOPE, ticks=1))
    assert result.sets[-1].verdict == "vacuous" and result.sets[-1].idle == ("evict",)
    assert result.exit_code == 3


@pytest.mark.slow
def test_bounds_are_said_and_larger_sets_keep_their_arms() -> None:
    result = exhaust(POLICIES, Config(), SCOPE, depth=5)
    assert [found.verdict for found in result.sets] == ["exhausted", "bounded(5)", "bounded(5)", "bounded(5)"]
    assert result.exit_code == 3
    assert exhaust(POLICIES, Config(), SCOPE, seconds=1e-9).exit_code == 3


SMALL = Scope(pages=1, requests=1, sessions=1, steps=1, ticks=1)
"""One session of a page; each kind of event that the policies ask for may come once."""


def check(report: Report, scope: Scope) -> None:
    """The search finds the report's fault by a schedule as long as its trace, no part fails, and the repair holds."""
    found = exhaust(report.policies, report.config, scope, depth=report.depth)
    shortest = {
        c.finding.failure_class.invariant: len(c.recipe.schedule.events) for c in reversed(found.conflicts)
    }
    assert shortest == {report.invariant: report.depth}
    assert not found.single
    repaired = exhaust(report.twins, report.config, scope)
    assert {f.explored.ending for f in repaired.sets} == {"exhausted"}
    assert repaired.sets[-1].verdict == "exhausted" and not repaired.conflicts and not repaired.single
    assert repaired.exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("report", "scope"),
    [
        (vllm_48412.REPORT, SMALL),
        pytest.param(trtllm_11879.REPORT, SMALL, marks=pytest.mark.thorough),
        pytest.param(design_s8.REPORT, SMALL, marks=pytest.mark.thorough),
        pytest.param(vllm_46971.REPORT, SMALL, marks=pytest.mark.thorough),
        (mlxvlm_1715.REPORT, replace(SMALL, pages=5, ticks=0)),
    ],
    ids=lambda value: value.name if isinstance(value, Report) else "",
)
def test_reports_of_the_field_are_found_and_their_repairs_hold(report: Report, scope: Scope) -> None:
    check(report, scope)


def test_events_that_a_policy_asks_for_are_enumerated_and_said() -> None:
    result = exhaust(vllm_46971.REPORT.policies, Config(), replace(SMALL, extra=2), depth=1)
    assert result.events == {
        "tick": 1,
        "arrive": 1,
        "step": 1,
        "act": None,
        "fade": None,
        "finish": None,
        "verify": 2,
    }
    none = exhaust(vllm_46971.REPORT.policies, Config(), replace(SMALL, extra=0), depth=5)
    assert "verify" not in none.events and not none.conflicts


def test_an_interrupt_ends_it() -> None:
    def stop(names: tuple[str, ...], explored: Explored) -> None:
        if names == ("quant",):
            raise KeyboardInterrupt

    result = exhaust(POLICIES, Config(), SCOPE, tell=stop)
    assert [found.policies for found in result.sets] == [(), ("offload",), ("quant",)]
    assert result.interrupted and result.exit_code == 130


@pytest.mark.slow
def test_a_witness_that_the_python_reader_denies_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way, "smallest_failing", lambda arms: [])
    with pytest.raises(EnvironmentFailure, match="FKV073"):
        exhaust(POLICIES, Config(), SCOPE)


def test_numbers_of_the_command_line() -> None:
    assert parse_memory("800M") == 800 << 20 and parse_memory("2 gib") == 2 << 30
    assert parse_sizes("12, 8,8") == (8, 12)
    for wrong in ("", "800", "-1M", "1.5G"):
        with pytest.raises(UsageError, match="FKV030"):
            parse_memory(wrong)
    for wrong in ("", "8;12", "x", "-3"):
        with pytest.raises(UsageError, match="FKV030"):
            parse_sizes(wrong)


def run(*words: str) -> Result:
    """The command as a user types it."""
    return CliRunner().invoke(app, ["exhaust", *words])


@pytest.mark.slow
def test_the_command_prints_and_files(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    words = ("--pages", "2", "--requests", "1", "--steps", "2", "--ticks", "3", "--corpus", str(corpus))
    shown = run(*words)
    assert shown.exit_code == 1 and not corpus.exists()
    assert "offload + quant: exhausted: depth 1" in shown.output
    assert "I2 (single-writer) in 10 events: offload gives up the device copy" in shown.output
    assert "arrive 0 2; tick 12 0; act quant 0" in shown.output
    assert (
        "1 session (1 at once) of up to 2 pages, 2 steps each, 3 idle times of 8 or 12 ticks" in shown.output
    )
    assert "arrive (1), step (2), act, fade, finish; steps" in shown.output.replace("tick (3), ", "")
    filed = run(*words, "--file")
    [case] = load_corpus(corpus)
    assert f"filed as {case['id']}" in filed.output
    assert read_case(case).finding() is not None


def test_the_command_refuses(tmp_path: Path) -> None:
    for words, code in (
        (("--pages", "9"), "FKV030"),
        (("--memory", "100M"), "FKV030"),
        (("--policies", "nothing"), "FKV001"),
        (("--device-frames", "99"), "FKV032"),
    ):
        result = run(*words)
        assert isinstance(result.exception, UsageError) and result.exception.code == code
