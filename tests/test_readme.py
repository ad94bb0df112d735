"""README and the pages made from data are up to date, short, and no number in them is written by hand."""

from __future__ import annotations

import importlib.util
import json
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.discovery_page import short
from fuzzkv.cli import app
from scripts.picture import STEPS, picture
from scripts.readme import DESIGN, DISCOVERY, FINDING, LINES, README, SOURCE, TEMPLATE, facts, pages, readme

TEXT = Path(README).read_text(encoding="utf-8")
CASES: list[dict[str, Any]] = [
    json.loads(path.read_bytes()) for path in sorted(Path("corpus").glob("fkv-*.json"))
]
NAMES = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|\{\{\w+\}\}", re.DOTALL)
"""Code, links and facts: what may hold digits beside names such as I2 or Apache-2.0."""


def bare_numbers(template: str) -> list[str]:
    """Numbers that stand in a text as such."""
    return re.findall(r"(?<![\w.-])\d[\d.,]*\w*", NAMES.sub(" ", template))


def test_the_pages_are_up_to_date() -> None:
    for path, text in pages().items():
        assert Path(path).read_text(encoding="utf-8") == text, f"{path}: run python -m scripts.readme"


def test_readme_is_short_and_no_number_is_written_by_hand() -> None:
    assert len(TEXT.splitlines()) < 130
    assert bare_numbers(Path(TEMPLATE).read_text(encoding="utf-8")) == []
    assert bare_numbers("4 of 44 in `2` and [x](3.md), I2, {{n}}, S1, Apache-2.0, 0.25 s") == [
        "4",
        "44",
        "0.25",
    ]


def test_facts_are_those_of_the_files() -> None:
    known = facts()
    model = [case for case in CASES if "target" not in case]
    own = [case for case in model if case["status"] in ("candidate", "confirmed")]
    assert known["model_cases"] == str(len(model)) and known["live_cases"] == str(len(CASES) - len(model))
    assert known["own_cases"] == str(len(own)) and known["reported"] == str(len(model) - len(own))
    assert known["own_confirmed"] == str(sum(case["status"] == "confirmed" for case in own))
    assert known["certified"] == str(sum(case["minimality"] == "certified" for case in CASES))
    assert f"of the other {len(own)}, {known['own_confirmed']} are confirmed" in TEXT
    hunt = json.loads(Path("bench/results/live_hunt.json").read_bytes())
    assert f"{hunt['schedules']:,} schedules of {hunt['sets']} sets, {hunt['steps']:,} engine steps" in TEXT
    met = [one for one in CASES if "target" in one and str(one["id"]) in json.dumps(hunt["cases"])]
    assert known["hunt_found"] == {1: "one", 2: "two", 3: "three", 4: "four"}[len(met)]


def test_the_finding_is_what_the_command_prints() -> None:
    block = TEXT.split(f"$ fuzzkv explain {FINDING}\n")[1].split("```")[0]
    printed = CliRunner().invoke(app, ["explain", FINDING], env={"COLUMNS": "112"}).output
    lines = [line for line in block.splitlines() if line != "..."]
    assert len(lines) > 12 and "..." in block.splitlines()
    assert [line for line in printed.splitlines() if line in lines] == lines


def test_the_lines_of_vllm_are_there() -> None:
    found = next(case for case in CASES if case["id"] == FINDING)
    package, release = str(found["engine"]).split()
    try:
        if version(package) != release:
            pytest.skip(f"{package} {release} isn't installed")
    except PackageNotFoundError:
        pytest.skip(f"{package} isn't installed")
    spec = importlib.util.find_spec("vllm")
    assert spec is not None and spec.origin is not None
    lines = (Path(spec.origin).parents[1] / SOURCE).read_text(encoding="utf-8").splitlines()
    for number, words in LINES.values():
        assert lines[number - 1].strip() == words


def test_every_label_is_explained() -> None:
    for label in set(re.findall(r"\bS\d+\b", re.sub(r"`[^`]*`", "", TEXT))):
        assert DESIGN[label] in TEXT, label
    listed = Path("docs/generated/corpus.md").read_text(encoding="utf-8")
    assert all(str(case["id"]) in listed for case in CASES)


def test_the_discovery_table_stays() -> None:
    table = "<!-- discovery -->\n| a table |\n<!-- /discovery -->"
    template = "x {{vllm}}\n<!-- discovery -->\nhere\n<!-- /discovery -->\n"
    assert readme(template, {"vllm": "1"}, f"old\n{table}\n") == f"x 1\n{table}\n"
    assert len(DISCOVERY.findall(TEXT)) == 1


def test_the_discovery_table_is_that_of_the_kept_results() -> None:
    kept = json.loads(Path("bench/results/discovery.json").read_bytes())
    assert "\n".join(short(kept)) in TEXT


def test_the_picture_has_a_ground_in_light_and_dark() -> None:
    for text in (picture(), Path(f"docs/generated/{FINDING}.svg").read_text(encoding="utf-8")):
        assert (
            "prefers-color-scheme: dark" in text and text.count(".paper {") == 2 and 'class="paper"' in text
        )
    assert all(f">{title}<" in picture() for title, *_ in STEPS)
