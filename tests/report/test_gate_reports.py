"""The gate on the screen, as JUnit and as JSON: nothing lost at any width, everything escaped, written whole."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from fuzzkv import events as ev
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.report.console import ConsoleReport
from fuzzkv.report.gate import gate_page
from fuzzkv.report.junit import clean, junit_bytes
from fuzzkv.report.written import WrittenReport, json_bytes

NAMES = {"I1": "authority", "I18": "quality-budget"}
ODD = 'takes <what> & \x00\x1b[31m\ud800 "others" need \U0001f600'


def row(check: str, policies: list[str], verdict: str, **more: Any) -> dict[str, Any]:
    return {"check": check, "policies": policies, "verdict": verdict, "text": "", "seconds": 0.0, **more}


def failure(**changes: Any) -> dict[str, Any]:
    return {
        "policies": ["mine", "offload"],
        "invariant": "I1",
        "name": "authority",
        "rule": "an exact copy exists",
        "action": "drop_host",
        "actor": "mine",
        "title": "mine destroys the host copy while offload relies on it",
        "events": 7,
        "event": 6,
        "clause": "authority",
        "refused_at": 6,
        "case_id": "fkv-0123456789ab",
        "path": "gate-report/fkv-0123456789ab.json",
        "explain": "fuzzkv explain gate-report/fkv-0123456789ab.json --policies my_package.my_module:MINE",
        "replay": "fuzzkv replay gate-report/fkv-0123456789ab.json --policies my_package.my_module:MINE",
        "corpus": ["fkv-ba9876543210"],
        **changes,
    }


def report(outcome: str = "conflict", **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "fuzzkv": "0.1.0",
        "candidate": "mine",
        "version": "1",
        "kind": "evict",
        "against": ["offload", "quant"],
        "replaced": ["evict"],
        "seed": 0,
        "seconds": 12.34,
        "checks": [
            row("alone", ["mine"], "accepted", text="0 of 100,000 schedules", seconds=1.2, schedules=100_000),
            row(
                "corpus",
                ["mine", "offload"],
                "conflict",
                text="1 of 4 cases",
                seconds=0.4,
                replayed=4,
                failing=1,
            ),
            row(
                "hunt",
                ["mine", "offload"],
                "conflict",
                text="1 kind, 666,666 drawn",
                seconds=2.0,
                schedules=666_666,
            ),
            row(
                "hunt", ["mine", "quant"], "vacuous", text="they never touched each other", schedules=666_666
            ),
            row("hunt", ["mine", "offload", "quant"], "not run"),
        ],
        "failures": [failure()],
        "errors": [],
        "notes": ["mine stands in the place of evict (kind evict)."],
        "outcome": outcome,
        "exit_code": 1,
        **changes,
    }


def shown(found: dict[str, Any], width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, highlight=False).print(
        gate_page(found, width=width), crop=False
    )
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut_off_at_any_width(width: int) -> None:
    text = shown(report(), width)
    assert "\x1b" not in text and "…" not in text
    flat = " ".join(text.split())
    for words in (
        "mine + offload break I1 authority in 7 events",
        "refused it at event 6 by the clause 'authority'",
        "shown by fkv-ba9876543210 with the candidate standing in",
        "1 class of conflict with mine (12 s, seed 0; exit 1)",
        "in the place of evict",
    ):
        assert words in flat
    assert f"  {failure()['replay']}" in text.splitlines() and "666,666" in text


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("clean", "No conflict found"),
        ("single-policy", "mine fails alone, so it is not let in"),
        ("vacuous", "so this proves nothing"),
        ("failed", "could not finish"),
        ("interrupted", "Interrupted. 1 class of failures found so far"),
    ],
)
def test_closing_lines(outcome: str, words: str) -> None:
    assert words in shown(report(outcome), 120)


def test_what_has_no_invariant_no_clause_or_no_file_is_said() -> None:
    text = shown(
        report(failures=[failure(invariant="", policies=["mine"], title="its rule fails: X: y")]), 120
    )
    assert "mine is not accepted: its rule fails: X: y" in text
    text = shown(report(failures=[failure(clause="", path="", explain="", replay="", corpus=[])]), 120)
    assert "no clause of the contract refuses it" in text and "its case could not be filed" in text
    error = {
        "code": "FKV073",
        "policies": ["mine", "quant"],
        "invariant": "I1",
        "text": "the interpreters disagree",
    }
    assert "FKV073: I1 of mine + quant: the interpreters disagree." in shown(
        report("failed", errors=[error]), 120
    )


def parsed(found: dict[str, Any]) -> ET.Element:
    return ET.fromstring(junit_bytes(found, NAMES))


def outcomes(found: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {
        (case.get("classname", ""), case.get("name", "")): ",".join(child.tag for child in case)
        for case in parsed(found).iter("testcase")
    }


def test_junit_has_a_test_case_for_every_set_and_invariant() -> None:
    root = parsed(report())
    assert [suite.get("name") for suite in root] == [
        "mine",
        "mine + offload",
        "mine + quant",
        "mine + offload + quant",
    ]
    assert outcomes(report()) == {
        ("mine", "I1 authority"): "",
        ("mine", "I18 quality-budget"): "",
        ("mine + offload", "I1 authority"): "failure",
        ("mine + offload", "I18 quality-budget"): "",
        ("mine + quant", "I1 authority"): "skipped",
        ("mine + quant", "I18 quality-budget"): "skipped",
        ("mine + offload + quant", "I1 authority"): "skipped",
        ("mine + offload + quant", "I18 quality-budget"): "skipped",
    }
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "8", "failures": "1", "errors": "0", "skipped": "4",
    }  # fmt: skip
    (found,) = root.iter("failure")
    assert found.get("type") == "conflict" and found.text is not None
    for words in (failure()["replay"], failure()["explain"], "clause 'authority'", "an exact copy exists"):
        assert words in found.text


def test_junit_keeps_errors_apart_from_failures() -> None:
    error = {
        "code": "FKV073",
        "policies": ["mine", "offload"],
        "invariant": "I18",
        "text": "the interpreters disagree",
    }
    found = outcomes(report(errors=[error]))
    assert found["mine + offload", "I1 authority"] == "failure"
    assert found["mine + offload", "I18 quality-budget"] == "error"
    vacuous = outcomes(report("vacuous", failures=[]))
    assert (
        vacuous["mine + quant", "I1 authority"] == "error" and vacuous["mine + offload", "I1 authority"] == ""
    )
    interrupted = outcomes(report("interrupted"))
    assert interrupted["mine + offload", "I18 quality-budget"] == "skipped"
    assert (
        interrupted["mine + offload", "I1 authority"] == "failure"
        and interrupted["mine", "I1 authority"] == ""
    )


def test_junit_names_an_unlisted_invariant_and_a_failure_without_one() -> None:
    found = outcomes(report(failures=[failure(invariant="I7", name="identity")]))
    assert found["mine + offload", "I7 identity"] == "failure"
    alone = failure(invariant="", name="acceptance", policies=["mine"], title="its rule fails")
    checks = [row("alone", ["mine"], "single-policy", text="its rule fails")]
    assert outcomes(report("single-policy", failures=[alone], checks=checks)) == {
        ("mine", "I1 authority"): "skipped",
        ("mine", "I18 quality-budget"): "skipped",
        ("mine", "acceptance"): "failure",
    }


def test_junit_escapes_what_xml_cannot_hold() -> None:
    (found,) = parsed(report(failures=[failure(title=ODD)])).iter("failure")
    said = found.get("message", "")
    assert said == 'takes <what> & \\x00\\x1b[31m\\ud800 "others" need \U0001f600'
    assert clean("tab\tand\nline") == "tab\tand\nline"


def test_json_is_the_report_without_floats() -> None:
    found = json.loads(json_bytes(report()))
    assert found["seconds"] == "12.34" and found["failures"][0]["case_id"] == "fkv-0123456789ab"


def test_a_written_report_is_whole_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.json"
    listener = WrittenReport(path, json_bytes)
    assert path.parent.is_dir() and not path.exists()
    for seed in (1, 2):
        listener(ev.GateStarted("mine", ("offload",), (), seed))
        listener(ev.GateFinished("conflict", 1, report(seed=seed)))
        assert json.loads(path.read_text(encoding="utf-8"))["seed"] == seed
    assert [item.name for item in path.parent.iterdir()] == ["out.json"]


def test_a_report_that_cannot_be_written_says_so_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for path in (tmp_path, tmp_path / "file" / "out.json"):
        with pytest.raises(EnvironmentFailure, match="FKV081"):
            WrittenReport(path, json_bytes)
    listener = WrittenReport(tmp_path / "out.json", json_bytes)
    (tmp_path / "out.json").mkdir()
    with pytest.raises(EnvironmentFailure, match=r"FKV081: .*out.json"):
        listener(ev.GateFinished("clean", 0, report()))


@pytest.mark.parametrize("live", [True, False])
def test_the_console_tells_a_gate(live: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=live, no_color=True, highlight=False)
    with ConsoleReport(console, names=NAMES, live=live) as listener:
        for event in (
            ev.GateStarted("mine", ("offload", "quant"), ("evict",), 3),
            ev.PhaseStarted("replay", 17),
            ev.AcceptanceDone("mine", False, 100, "breaks I1 alone in 3 of 100 schedules"),
            ev.GateFinished("conflict", 1, report()),
        ):
            listener(event)
    text = out.getvalue()
    assert "gating mine against offload + quant, seed 3" in text and "1 class of conflict with mine" in text
    assert "3 of 100 schedules" in text and "left out" not in text
