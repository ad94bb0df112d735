"""Planted caches are found by the way that meets their fault, and clean ones are silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fuzzkv.targets.vllm.audit.cells import served_cells, session_cells
from fuzzkv.targets.vllm.audit.rollback import assemble
from fuzzkv.targets.vllm.audit.scenarios import KINDS, random_scenarios
from tests.targets.vllm.audit import toys

SCENARIOS = random_scenarios(toys.VOCABULARY, 7, 2)


def report(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    named = [{"engine": "toy", "model": "toy", "scenario": 0, **cell} for cell in cells]
    return assemble(7, [], [], named, [], [])


def sessions(toy: toys.ToySessions) -> dict[str, Any]:
    return report([cell for sc in SCENARIOS for cell in session_cells(toy, "dynamic", sc)])


def served(toy: toys.ToyServer) -> dict[str, Any]:
    return report([cell for sc in SCENARIOS for cell in served_cells(toy, sc)])


def broken(found: dict[str, Any]) -> list[str]:
    return [way["way"] for way in found["ways"] if not way["ok"]]


@pytest.fixture(scope="module")
def clean() -> dict[str, Any]:
    return sessions(toys.ToySessions())


@pytest.fixture(scope="module")
def clean_server() -> dict[str, Any]:
    return served(toys.ToyServer())


def test_a_clean_cache_is_silent(clean: dict[str, Any]) -> None:
    assert broken(clean) == [] and clean["exit_code"] == 0
    safe = [way for way in clean["ways"] if way["role"] == "safe"]
    assert {way["way"] for way in safe} == {"crop", "recorded, crop", "snapshot", "reset, fed again"}
    assert all(way["same"] == way["cells"] == len(SCENARIOS) for way in safe)


def test_a_cache_as_it_is_differs_and_equals_the_branch_in_the_text(clean: dict[str, Any]) -> None:
    cells = [cell for cell in clean["cells"] if cell["way"] == "as it is"]
    assert all(cell["verdict"] == "differs" and cell["from_text"] == "0" for cell in cells)
    for sc, cell in zip(SCENARIOS, cells, strict=True):
        assert cell["retained"] == [len(sc.keep) + len(sc.branch)] * 2 and cell["rebuilt"] == len(sc.keep)
        assert cell["attended"][0] == cell["committed"] + len(sc.branch)


@pytest.mark.parametrize(
    ("toy", "ways"),
    [
        (toys.KeepsTheBranch, ["crop", "recorded, crop"]),
        (toys.KeepsOneToken, ["crop", "recorded, crop"]),
        (toys.KeepsOneLayer, ["crop", "recorded, crop"]),
        (toys.SharesSnapshots, ["snapshot"]),
        (toys.ResetsHalf, ["reset, fed again"]),
    ],
)
def test_planted_caches_are_found(toy: type[toys.ToySessions], ways: list[str]) -> None:
    found = sessions(toy())
    assert broken(found) == ways and found["exit_code"] == 1


def test_rebuilt_caches_that_disagree_are_no_noise() -> None:
    found = sessions(toys.LosesATokenBetweenChunks())
    assert {"rebuilt, turn by turn", "rebuilt, chunks of 16", "rebuilt, chunks of 5"} <= set(broken(found))
    assert found["exit_code"] == 1 and found["noise"] == []


def test_not_a_number_is_a_difference(clean: dict[str, Any]) -> None:
    cells = [dict(cell) for cell in clean["cells"]]
    victim = [cell for cell in cells if cell["way"] == "crop"][1]
    victim["forced"] = "nan"
    found = assemble(7, [], [], cells, [], [])
    assert broken(found) == ["crop"] and found["exit_code"] == 1
    assert next(way for way in found["ways"] if way["way"] == "crop")["most"] == "nan"


def test_a_refusal_is_not_a_difference_but_half_of_one_is_told(clean: dict[str, Any]) -> None:
    found = sessions(toys.RefusesHalfWay())
    assert broken(found) == [] and found["exit_code"] == 0
    crop = next(way for way in found["ways"] if way["way"] == "crop")
    assert crop["refused"] == crop["torn"] == crop["cells"] and crop["why"] == [
        "RuntimeError: the second layer can't"
    ]


def test_a_clean_server_is_silent(clean_server: dict[str, Any]) -> None:
    assert broken(clean_server) == [] and clean_server["exit_code"] == 0
    safe = [way for way in clean_server["ways"] if way["role"] == "safe"]
    assert len(safe) == 4 and all(way["same"] == way["cells"] and way["served"] for way in safe)
    control = next(way for way in clean_server["ways"] if way["role"] == "control")
    assert control["differs"] == control["cells"]


@pytest.mark.parametrize("toy", [toys.HashesPositions, toys.HashesFirstHalves])
def test_planted_keys_are_found(toy: type[toys.ToyServer]) -> None:
    found = served(toy())
    assert "branch finished" in broken(found) and found["exit_code"] == 1


def test_a_rebuilt_cache_that_was_served_something_is_no_measure_of_noise() -> None:
    found = served(toys.HashesPositions())
    twin = next(way for way in found["ways"] if way["role"] == "twin")
    assert twin["differs"] and not twin["ok"]
    assert all(float(row["measured"]) == 0 for row in found["noise"])


def test_blocks_of_an_aborted_request_are_found_by_the_aborts_alone() -> None:
    found = served(toys.PublishesAborted())
    assert set(broken(found)) == {"branch aborted while read", "branch aborted while written"}


def test_a_cache_that_serves_nothing_is_blind() -> None:
    found = served(toys.ServesNothing())
    assert broken(found) == [] and found["exit_code"] == 3
    assert all(way["blind"] for way in found["ways"] if way["role"] == "safe")


def test_more_served_than_shared_differs_whatever_the_logits_say(clean_server: dict[str, Any]) -> None:
    cells = [dict(cell) for cell in clean_server["cells"]]
    victim = next(cell for cell in cells if cell["way"] == "branch finished")
    victim["retained"] = [victim["common"] + 1]
    assert broken(assemble(7, [], [], cells, [], [])) == ["branch finished"]


def test_every_kind_takes_part() -> None:
    assert {sc.kind for sc in SCENARIOS} == set(KINDS)
