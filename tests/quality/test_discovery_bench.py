"""The discovery benchmark counts to the exact schedule, and its pages say what was measured with the draws of today."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from bench.discovery import COMPILED, first, hit, ready, settle
from bench.discovery_page import (
    DATA,
    FUZZKV,
    PAGE,
    README,
    UNIFORM,
    cell,
    depth_gain,
    median,
    page,
    ratio,
    short,
    summary,
)
from bench.peers import PEERS
from bench.targets import targets
from fuzzkv.simulator.bulk.engine import BulkEngine

RAW = json.loads(DATA.read_text(encoding="utf-8"))
TOOLS = (*COMPILED, *PEERS)


def made(*schedules: int) -> dict[str, Any]:
    """Results of runs that found the conflict after so many schedules; 0: not after 500."""
    runs = [
        {"found": n > 0, "schedules": n or 500, "primitives": 10 * n, "seconds": n / 1e3} for n in schedules
    ]
    return {"runs": runs, "false_alarms": []}


@pytest.mark.parametrize("name", ["S1", "S2"])
def test_the_first_detection_is_exact_and_as_kept(compiled: BulkEngine, name: str) -> None:
    target = next(t for t in targets() if t.name == name)
    engine = ready(target)
    for seed in range(3):
        schedules = first(target, engine, seed, cap=60)
        fresh = engine.again(seed=seed)
        fresh.search(schedules - 1)
        assert not hit(target, fresh)
        fresh.search(1)
        assert hit(target, fresh)
        kept = RAW["targets"][name][FUZZKV]["runs"][seed]
        assert (schedules, fresh.runs, fresh.primitives) == (
            kept["schedules"],
            kept["runs"],
            kept["primitives"],
        )


def test_every_target_was_looked_for_by_every_tool() -> None:
    assert set(RAW["targets"]) == {target.name for target in targets()} and len(RAW["targets"]) == 41
    for target in targets():
        kept = RAW["targets"][target.name]
        assert (kept["kind"], kept["invariants"], kept["depth"]) == (
            target.kind,
            list(target.invariants),
            target.depth,
        )
        for tool in TOOLS:
            assert len(kept[tool]["runs"]) == RAW["seeds" if tool in COMPILED else "peer_seeds"]


@pytest.mark.parametrize(("path", "lines"), [(PAGE, page(RAW)), (README, short(RAW))])
def test_the_pages_say_what_was_measured(path: Any, lines: list[str]) -> None:
    text = path.read_text(encoding="utf-8")
    if path == PAGE or "<!-- discovery -->" in text:
        assert "<!-- discovery -->\n" + "\n".join(lines) + "\n<!-- /discovery -->" in text


def test_a_run_without_a_find_is_endless() -> None:
    assert median(made(3, 0, 7), "schedules") == 7
    assert cell(made(0, 0, 7), "schedules", 5) == "none (1/3)"
    assert cell(made(0, 0, 7), "seconds", 5) == "> 5 s (1/3)"
    assert cell(made(2000, 1500), "seconds", 5) == "1.8 s"
    assert cell(made(4), "seconds", 5) == "4.00 ms"


def test_ahead_and_behind() -> None:
    ahead = {FUZZKV: made(5), UNIFORM: made(10)}
    behind = {FUZZKV: made(20), UNIFORM: made(10)}
    never = {FUZZKV: made(50), UNIFORM: made(0)}
    assert [ratio(t, "schedules") for t in (ahead, behind, never)] == [0.5, 2.0, 0.0]
    assert depth_gain(ahead) == "2 times" and depth_gain(never) == "more than 10 times"
    told = summary({"targets": {"one": ahead, "two": behind, "S1": never}})
    assert told[2] == (
        "by schedules: ahead of the compiled uniform loop on 2 of 3, ahead or within a factor of 1.5 on 2; "
        "beyond that on two (2.0)"
    )


def test_results_of_another_cap_are_dropped() -> None:
    options = argparse.Namespace(tools=["atheris"], seeds=30, cap=5.0, peer_seeds=3, peer_cap=10.0)
    raw: dict[str, Any] = {
        "peer_seeds": 3,
        "peer_cap_s": 10.0,
        "targets": {"S1": {tool: made(1) for tool in TOOLS}},
    }
    settle(raw, options)
    assert set(raw["targets"]["S1"]) == set(TOOLS) and "cap_s" not in raw
    options.peer_cap = 15.0
    settle(raw, options)
    assert set(raw["targets"]["S1"]) == set(COMPILED) and raw["peer_cap_s"] == 15.0
