"""``fuzzkv explain``: its formats, cases of either target, what it says where it can't explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fuzzkv.cases.corpus import load_case, save_case
from fuzzkv.cli import app
from fuzzkv.cli import live as cli_live
from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.explain.explanation import explain
from tests.explain.test_explanations import CASES, CORPUS

LIVE = "fkv-d0663e7c9582"
MODEL = "fkv-65e04cb4a865"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--corpus", str(CORPUS)], catch_exceptions=True)


@pytest.mark.parametrize("case_id", [LIVE, MODEL])
def test_every_format(case_id: str) -> None:
    text = run("explain", case_id, "--no-guards").output
    assert text.startswith(f"{case_id}: ") and "However, " in text and "a contradiction." in text
    marked = run("explain", case_id, "--no-guards", "--format", "md").output
    assert marked.startswith(f"## {case_id}: ") and "\n1. event 0" in marked and ") comes before (" in marked
    data = json.loads(run("explain", case_id, "--no-guards", "--format", "json").output)
    assert data["id"] == case_id and data["guard"] is None
    assert {"names", "nodes", "edges", "chain", "sentences", "arms", "refusing", "guard"} <= set(data)
    drawn = run("explain", case_id, "--format", "svg").output
    assert drawn.startswith("<?xml") and drawn.rstrip().endswith("</svg>")


def test_a_case_of_the_model_has_clauses_and_a_guard() -> None:
    data = json.loads(run("explain", MODEL, "--format", "json").output)
    assert any("'authority'" in line for line in data["refusing"])
    assert data["guard"][0].startswith("The weakest guard")


def test_what_was_false_isn_t_said() -> None:
    for case_id in ("fkv-78f0728acd57", "fkv-02f626019e02", "fkv-6f8595e70666"):
        text = run("explain", case_id, "--no-guards", *_own(case_id)).output
        assert "doesn't look at" not in text and "its quote stands" not in text


def _own(case_id: str) -> list[str]:
    replay = CASES[case_id]["replay"].split(" --policies ")
    return ["--policies", replay[1]] if len(replay) > 1 else []


@pytest.fixture
def without_log(tmp_path: Path) -> Path:
    case = {key: value for key, value in CASES[LIVE].items() if key != "history"}
    return save_case(case, tmp_path).path


def test_a_live_case_without_a_log_runs_first(without_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"history": CASES[LIVE]["history"]}
    monkeypatch.setattr(cli_live, "replay_one", lambda *_: ("toy 1: fails", True, kept))
    assert "vllm:sliding-window gives back block 1" in run("explain", str(without_log)).output
    monkeypatch.setattr(cli_live, "replay_one", lambda *_: ("toy 1: passes", False, {}))
    done = run("explain", str(without_log))
    assert isinstance(done.exception, UsageError) and done.exception.code == "FKV105"
    assert "--keep-log" in done.exception.render()


def test_without_an_engine_one_sentence(without_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any) -> Any:
        raise EnvironmentFailure(code="FKV050", value="vllm", reason="it isn't installed", cure="Install it.")

    monkeypatch.setattr(cli_live, "replay_one", absent)
    done = run("explain", str(without_log))
    assert isinstance(done.exception, EnvironmentFailure) and done.exception.render().count("\n") == 0


def test_a_replay_keeps_the_log(without_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"history": CASES[LIVE]["history"], "violation": CASES[LIVE]["violation"]}
    monkeypatch.setattr(cli_live, "replay_one", lambda *_: ("toy 1: fails", True, kept))
    before = without_log.read_bytes()
    assert run("replay", str(without_log)).exit_code == 1 and without_log.read_bytes() == before
    assert run("replay", str(without_log), "--keep-log").exit_code == 1
    case = load_case(without_log)
    assert case["id"] == LIVE and case["history"] == kept["history"]
    assert explain(case).startswith(f"{LIVE}: ")
