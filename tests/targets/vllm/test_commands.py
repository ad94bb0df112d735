"""Every command takes every case: the commands on the corpus's cases of live vLLM, on a toy engine here and on vLLM itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fuzzkv.cases.corpus import case_id, load_case, load_corpus, save_case
from fuzzkv.cli import app, live
from fuzzkv.errors import EnvironmentFailure, FuzzkvError
from fuzzkv.targets.vllm.target import EngineTarget
from tests.gate.test_engine_gate import cases, target

CORPUS = Path(__file__).parents[3] / "corpus"
FOUR = sorted(case["id"] for case in load_corpus(CORPUS) if case.get("target") == "vllm")


class Run:
    """A command that ran: its exit code, and what it wrote, words with one space between."""

    def __init__(self, *arguments: str) -> None:
        done = CliRunner().invoke(app, arguments, catch_exceptions=True)
        error = done.exception
        known = isinstance(error, FuzzkvError)
        self.exit_code = error.exit_code if isinstance(error, FuzzkvError) else done.exit_code
        self.output = " ".join(f"{done.output} {error if known else ''}".split())


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> dict[str, EngineTarget]:
    """What stands in for the engine: the one with the fault, or what a test puts there."""
    standing = {"engine": target(fault=True)}

    @contextmanager
    def engine_for(
        case: Mapping[str, Any], wanted: str | None, device: str, policies: str
    ) -> Iterator[tuple[EngineTarget, dict[str, Any]]]:
        yield standing["engine"], {}

    monkeypatch.setattr(live, "engine_for", engine_for)
    return standing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for case in cases():
        save_case(case, tmp_path)
    return tmp_path


def test_there_are_four() -> None:
    assert len(FOUR) == 4


@pytest.mark.slow
def test_replay_of_a_folder_names_what_it_cannot_run_and_goes_on(
    toys: dict[str, EngineTarget], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = load_corpus(folder)
    shutil.copy(CORPUS / f"{FOUR[0]}.json", folder)
    shutil.copy(CORPUS / "fkv-65e04cb4a865.json", folder)
    real = live.replay_one

    def replay_one(item: Mapping[str, Any], *rest: Any) -> Any:
        if item["id"] == FOUR[0]:
            raise EnvironmentFailure(
                code="FKV050", value="vllm", reason="it isn't installed", cure="Install it."
            )
        return real(item, *rest)

    monkeypatch.setattr(live, "replay_one", replay_one)
    done = Run("replay", str(folder))
    assert done.exit_code == 1, done.output
    assert f"{FOUR[0]} not run: it isn't installed (FKV050). Install it." in done.output
    assert (
        f"{case['id']} on toy 1: fails." in done.output and "fkv-65e04cb4a865 on model: fails." in done.output
    )


@pytest.mark.slow
def test_shrink_files_a_shorter_case_beside_the_old_one(toys: dict[str, EngineTarget], folder: Path) -> None:
    (case,) = load_corpus(folder)
    done = Run("shrink", case["id"], "--corpus", str(folder))
    assert done.exit_code == 0 and "none of our passes makes it shorter" in done.output
    assert load_case(folder / f"{case['id']}.json") == case
    longer = {**case, "schedule": [["hold", 1, 0, 0], *case["schedule"]]}
    longer["id"] = case_id(longer)
    longer["replay"] = f"fuzzkv replay {longer['id']}"
    save_case(longer, folder)
    done = Run("shrink", longer["id"], "--corpus", str(folder))
    assert done.exit_code == 0 and f"{case['id']}: {len(case['schedule'])} events" in done.output
    toys["engine"] = target()
    done = Run("shrink", case["id"], "--corpus", str(folder))
    assert done.exit_code == 2 and "FKV024" in done.output


@pytest.mark.parametrize("command", ["replay", "explain", "shrink"])
def test_a_case_of_a_target_that_no_command_knows_is_said_to_be_one(command: str, folder: Path) -> None:
    (case,) = load_corpus(folder)
    other = {key: value for key, value in case.items() if key != "history"} | {
        "target": "ring",
        "config": {"slots": 3},
    }
    other |= {"schedule": [["write", 1]]}
    other["id"] = case_id(other)
    path = save_case(other, folder).path
    done = Run(command, str(path), "--corpus", str(folder))
    assert (
        done.exit_code == 2
        and "its target is ring" in done.output
        and "docs/adding-a-target.md" in done.output
    )


def test_a_folder_of_one_case_that_cannot_run_proves_nothing(tmp_path: Path) -> None:
    shutil.copy(CORPUS / "fkv-556659605256.json", tmp_path)
    done = Run("replay", str(tmp_path))
    assert done.exit_code == 3 and "not run: it needs other policies" in done.output


def test_a_case_that_needs_other_policies_says_which() -> None:
    done = Run("explain", "fkv-556659605256", "--corpus", str(CORPUS))
    assert done.exit_code == 2 and "--policies tests.field.vllm_49674:FENCE" in done.output


def test_there_is_no_certificate_of_an_engines_case() -> None:
    done = Run("shrink", FOUR[0], "--certify", "--corpus", str(CORPUS))
    assert (
        done.exit_code == 2 and "FKV107" in done.output and "no text that a solver could read" in done.output
    )


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("case", FOUR)
def test_each_of_the_four_is_replayed_explained_and_shrunk(case: str, tmp_path: Path) -> None:
    shutil.copy(CORPUS / f"{case}.json", tmp_path)
    place = ("--corpus", str(tmp_path))
    replayed = Run("replay", case, *place)
    assert replayed.exit_code == 1 and "3 of 3 subsets pass" in replayed.output
    assert Run("explain", case, *place).exit_code == 0
    shrunk = Run("shrink", case, *place)
    assert shrunk.exit_code == 0, shrunk.output


@pytest.mark.engine
@pytest.mark.slow
def test_a_policy_of_the_engine_is_gated_through_the_four(tmp_path: Path) -> None:
    place = ("--corpus", str(CORPUS), "--report-dir", str(tmp_path))
    done = Run("gate", "vllm:sliding-window", *place)
    assert done.exit_code == 1, done.output
    assert "4 replayed, 4 still failing" in done.output
