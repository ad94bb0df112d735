"""Hypothesis in a live hunt, on the toy engine: what failed once is replayed first, and what it generates is observed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from fuzzkv import events as ev
from fuzzkv.cases.corpus import load_corpus
from fuzzkv.search.live.generating import remember, remembered
from fuzzkv.strategies.memory import open_database
from fuzzkv.strategies.observing import TESTCASES, observed
from fuzzkv.targets.vllm.language import EngineLanguage
from fuzzkv.targets.vllm.policies import resolve
from fuzzkv.targets.vllm.schedule import LiveSchedule
from tests.drawn import drawn_from
from tests.search.live.test_hunt import PAIR, hunt, toy


def conflicts(heard: list[ev.Event]) -> list[ev.ConflictFound]:
    return [event for event in heard if isinstance(event, ev.ConflictFound)]


@pytest.mark.slow
def test_what_failed_once_is_replayed_first(tmp_path: Path) -> None:
    given = {"alone": 6, "database": tmp_path / "examples"}
    first, heard = hunt(tmp_path / "one", toy(fault=True), PAIR, max_examples=240, **given)
    (found,) = conflicts(heard)
    assert found.policies == PAIR and found.schedules > 1
    # Another seed, and a larger set of policies, in whose plan the pair isn't the first.
    names = ("vllm:chunked-prefill", *PAIR)
    again, heard = hunt(tmp_path / "two", toy(fault=True), names, seed=1, max_examples=2, **given)
    assert again.report["rows"][0]["policies"] == list(PAIR)
    assert [one.schedules for one in conflicts(heard)] == [1]
    (case,) = load_corpus(tmp_path / "two")
    assert case["class"] == first.cases[0]["class"]
    given["database"] = None
    other, heard = hunt(tmp_path / "three", toy(fault=True), names, seed=1, max_examples=2, **given)
    assert other.report["rows"][0]["policies"] != list(PAIR) and not conflicts(heard)


@pytest.mark.slow
def test_what_fails_alone_is_replayed_first(tmp_path: Path) -> None:
    given = {"max_examples": 1, "alone": 12, "database": tmp_path / "examples"}
    _, heard = hunt(tmp_path, toy(alone=True), PAIR, **given)
    assert list((tmp_path / "examples").rglob("*"))
    once = [e for e in heard if isinstance(e, ev.ShrinkStep)]
    result, heard = hunt(tmp_path, toy(alone=True), PAIR, seed=9, **given)
    again = [e for e in heard if isinstance(e, ev.ShrinkStep)]
    assert [e.before for e in again] == [e.before for e in once], "the same schedule is shrunk"
    assert result.report["alone"][1]["standing"] == "fails"


@pytest.mark.slow
def test_what_is_mended_is_forgotten(tmp_path: Path) -> None:
    given = {"max_examples": 240, "database": tmp_path / "examples"}
    hunt(tmp_path / "one", toy(fault=True), PAIR, **given)
    assert [p for p in (tmp_path / "examples").rglob("*") if p.is_file()]
    result, _ = hunt(tmp_path / "two", toy(), PAIR, seed=3, **{**given, "max_examples": 2})
    assert result.exit_code == 0 and result.report["rows"][0]["verdicts"] == {"clean": 2}
    assert not [p for p in (tmp_path / "examples").rglob("*") if p.is_file()]


@pytest.mark.slow
def test_a_live_hunt_is_observed(tmp_path: Path) -> None:
    given = {"max_examples": 240, "database": tmp_path / "examples"}
    for seed in (0, 1):
        with observed(tmp_path / str(seed)):
            hunt(tmp_path / "corpus", toy(fault=True), PAIR, seed=seed, **given)
    for seed, first in ((0, "generate"), (1, "reuse")):
        lines = [json.loads(line) for line in (tmp_path / str(seed) / TESTCASES).read_text().splitlines()]
        lines = [line for line in lines if line["type"] == "test_case"]
        how = Counter(line["how_generated"] for line in lines)
        assert how["during generate phase"] > 100
        assert lines[0]["how_generated"] == "during generate phase"
        failed = [line for line in lines if line["status"] == "failed"]
        assert failed[0]["how_generated"] == f"during {first} phase"
        assert "schedule=LiveSchedule(pool=" in failed[0]["representation"]
        assert any("target:abstract states" in line["features"] for line in lines)


def test_a_part_remembers_what_means_something_to_it(tmp_path: Path) -> None:
    database, language = open_database(tmp_path), EngineLanguage()
    part = resolve(["vllm:preempt", "vllm:prefix-cache"])
    events = (("hold", 1, 0, 0), ("arrive", 0, 4, 2), ("complete", 0, 0, 0), ("step", 1, 0, 0))
    remember(database, language, part, LiveSchedule(events=events))
    memory = remembered(database, language, part)
    assert memory is not None
    (choices,) = memory.saved()
    assert drawn_from(memory.strategy, choices) == LiveSchedule(events=(events[1], events[3]))
    remember(None, language, part, LiveSchedule(events=events))
