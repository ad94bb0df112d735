"""The necessity of shared metadata on the corpus: the pages say what the kept reports say, and the pairs still are pairs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.necessity import DATA, PAGE, both, page, printed
from fuzzkv.cases.corpus import load_corpus
from fuzzkv.cli import app
from fuzzkv.metadata.fields import FIELD_NAMES
from fuzzkv.metadata.metadata_report import least, necessity, recheck
from fuzzkv.metadata.pairs import Bound
from fuzzkv.report.necessity import VERDICTS
from tests.field.reports import REPORTS

REPORT = json.loads(DATA.read_text(encoding="utf-8"))
CASES = {case["id"]: case for case in load_corpus("corpus") if case.get("target") != "vllm"}
FIELD = [policy for report in REPORTS for policy in report.policies]


def test_the_page_has_the_tables() -> None:
    assert page(REPORT) == PAGE.read_text(encoding="utf-8")


def test_the_command_prints_what_the_page_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzzkv.metadata.metadata_report.necessity", lambda *_, **__: REPORT["default"])
    done = CliRunner().invoke(app, ["necessity"], env={"COLUMNS": "100", "NO_COLOR": "1"})
    assert done.exit_code == 0
    assert "\n".join(line.rstrip() for line in done.output.splitlines()) == printed(REPORT["default"])


def test_the_page_says_what_each_verdict_means() -> None:
    text = Path("docs/necessity.md").read_text(encoding="utf-8")
    assert all(f"*{verdict}*" in text for verdict in VERDICTS)
    assert all(piece["verdict"] in VERDICTS for report in REPORT.values() for piece in report["pieces"])


def test_both_reports_are_of_this_corpus() -> None:
    assert [row["id"] for row in REPORT["all"]["cases"]] == sorted(CASES)
    assert both(REPORT["all"])["default"] == REPORT["default"]


def test_a_piece_is_needed_only_if_a_pair_says_so() -> None:
    for report in REPORT.values():
        for piece in report["pieces"]:
            pair = piece["pair"]
            assert (pair is None) == (piece["verdict"] in ("replaceable (bounded)", "no part"))
            if piece["verdict"] == "needed":
                assert pair["pieces"] == [piece["name"]] and not pair["allowed"]["others"]
            if piece["verdict"] == "needed, any neighbour":
                assert pair["pieces"] == [piece["name"]] and pair["allowed"]["others"]


def test_the_least_that_tells_all_pairs_apart() -> None:
    target, version, horizon = (frozenset({name}) for name in ("target", "version", "horizon"))
    assert least([]) == [frozenset()]
    assert least([target, target | version]) == [target]
    assert least([target | version, version | horizon]) == [version]
    assert least([target | version]) == [target, version]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIELD_NAMES)
def test_the_pair_that_is_shown_is_a_pair(name: str) -> None:
    for report in REPORT.values():
        (piece,) = (piece for piece in report["pieces"] if piece["name"] == name)
        if piece["pair"]:
            assert recheck(CASES[piece["pair"]["case"]], piece["pair"], FIELD) == piece["pair"]["pieces"]


@pytest.mark.slow
def test_a_pair_without_its_difference_is_none() -> None:
    (piece,) = (piece for piece in REPORT["all"]["pieces"] if piece["name"] == "version")
    pair: dict[str, Any] = piece["pair"]
    case = CASES[pair["case"]]
    assert recheck(case, {**pair, "allowed": pair["refused"]}, FIELD) == []
    assert recheck(case, {**pair, "refused": pair["allowed"]}, FIELD) == []


@pytest.mark.slow
@pytest.mark.parametrize("label", ["S2", "vllm#48412"])
def test_a_case_comes_to_the_same_again(label: str) -> None:
    kept = next(row for row in REPORT["all"]["cases"] if row["label"] == label)
    again = necessity([CASES[kept["id"]]], allowed=FIELD, bound=Bound(**REPORT["all"]["bound"]))
    assert again["cases"] == [kept]


def test_a_policy_in_ordinary_python_is_not_looked_into() -> None:
    case = next(case for case in CASES.values() if case["label"] == "vllm#48412")
    free = [replace(policy, free=True) for policy in FIELD]
    (left,) = necessity([case], allowed=free)["left_out"]
    assert left["id"] == case["id"] and "ordinary Python" in left["why"]


def test_cases_that_cannot_be_looked_at_are_named(tmp_path: Path) -> None:
    field = next(row["id"] for row in REPORT["default"]["left_out"])
    shutil.copy(f"corpus/{field}.json", tmp_path)
    done = CliRunner().invoke(app, ["necessity", "--corpus", str(tmp_path)])
    assert done.exit_code == 3 and f"1 left out (it needs other policies): {field}." in done.output
    report = json.loads(CliRunner().invoke(app, ["necessity", "--corpus", str(tmp_path), "--json"]).stdout)
    assert report["left_out"] == [{"id": field, "why": "it needs other policies"}]
    assert all(piece["verdict"] == "no part" for piece in report["pieces"])
