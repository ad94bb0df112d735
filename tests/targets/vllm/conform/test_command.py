"""The command, over engines that play recorded logs back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fuzzkv.cli import app
from fuzzkv.cli.conform import show
from fuzzkv.cli.shared import console
from fuzzkv.core.canonical import parse_json
from fuzzkv.targets.vllm.conform.conformance import conformance, report
from fuzzkv.targets.vllm.conform.differences import CLASSES
from fuzzkv.targets.vllm.conform.known import GAPS
from tests.targets.vllm.conform.recorded import recorded, with_log
from tests.targets.vllm.conform.test_conform import Played


@pytest.mark.parametrize("broken", [False, True])
def test_the_page_says_what_came_of_it(broken: bool, capsys: pytest.CaptureFixture[str]) -> None:
    history = recorded()["shared on plain"][1]
    if broken:
        history = with_log(history, [row for row in history.log if row[0] != "free"])
    rows = conformance((), lambda config: Played(history), seed=0, seconds=60, most=1)
    told = report(rows, engine="an engine", seed=0)
    show(told, rows, console(no_color=True))
    page = capsys.readouterr().out
    assert "an engine against the model" in page and "partial-block" in page
    assert ("not freed" in page) == broken
    assert parse_json(json.dumps(told).encode(), "a report")["unexplained"] == int(broken)


def test_a_policy_without_translation_is_named(tmp_path: Path) -> None:
    result: Any = CliRunner().invoke(app, ["conform", "--policies", "vllm:lora"])
    assert result.exception is not None and "vllm:lora" in str(result.exception)


def test_the_page_of_docs_names_every_gap() -> None:
    text = Path("docs/conformance.md").read_text(encoding="utf-8")
    for gap in GAPS:
        assert f"| `{gap.name}` | {gap.kind} |" in text
    assert text.count("\n| `") == len(GAPS) + len(CLASSES)
