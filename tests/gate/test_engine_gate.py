"""The gate on an engine (a toy one): alone, in the place of its kind through the corpus, in a hunt of pairs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.cases.corpus import load_corpus
from fuzzkv.core.results import Failure
from fuzzkv.events import Event, GateFinished
from fuzzkv.gate.engine_gate import EngineGate, EngineGateOptions
from fuzzkv.gate.run import GateResult
from fuzzkv.report.gate import gate_page
from fuzzkv.report.junit import junit_bytes
from fuzzkv.search.live.filing import LiveFiling
from fuzzkv.search.live.hunt import LiveHunt, LiveOptions
from fuzzkv.targets.vllm.policies import resolve
from fuzzkv.targets.vllm.target import EngineTarget
from tests.targets.vllm.toy import ToyLife

PAIR = ("vllm:offload-lru", "vllm:prefix-cache")
CANDIDATE = "vllm:offload-arc"


def target(**faults: bool) -> EngineTarget:
    return EngineTarget(
        lambda config: ToyLife(config, **faults),
        lambda policies, schedule, history: history.failures,
        "toy 1",
    )


@cache
def cases() -> tuple[dict[str, Any], ...]:
    """A case of the planted fault, with another policy of the candidate's kind."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        options = LiveOptions(policies=resolve(PAIR), max_examples=40, max_time=None, corpus=Path(folder))
        LiveHunt(options, target(fault=True)).run()
        return tuple(dict(case) for case in load_corpus(folder))


def gate(folder: Path, given: EngineTarget, **options: Any) -> GateResult:
    heard: list[Event] = []
    (candidate,) = resolve((options.pop("candidate", CANDIDATE),))
    chosen = EngineGateOptions(candidate=candidate, max_time=None, report_dir=folder, **options)
    result = EngineGate(given, chosen, [heard.append]).run()
    assert isinstance(heard[-1], GateFinished) and heard[-1].report == result.report
    assert junit_bytes(result.report, {"I4": "store-snapshot"}) and gate_page(result.report)
    return result


@pytest.mark.slow
def test_a_case_that_fails_with_the_candidate_in_the_place_of_its_kind(tmp_path: Path) -> None:
    result = gate(tmp_path, target(fault=True), cases=cases())
    assert result.exit_code == 1 and result.report["outcome"] == "conflict"
    (failure,) = result.report["failures"]
    assert failure["policies"] == [CANDIDATE, "vllm:prefix-cache"] and failure["invariant"] == "I4"
    assert failure["corpus"] == [cases()[0]["id"]]
    (filed,) = load_corpus(tmp_path)
    assert filed["id"] == failure["case_id"] and filed["class"]["policies"] == failure["policies"]
    assert [row["verdict"] for row in result.report["checks"]] == ["accepted", "conflict"]


@pytest.mark.slow
def test_the_repaired_engine_lets_it_in(tmp_path: Path) -> None:
    result = gate(tmp_path, target(), cases=cases())
    assert result.exit_code == 0 and result.report["outcome"] == "clean" and not result.report["failures"]
    assert [row["verdict"] for row in result.report["checks"]] == ["accepted", "not-reproduced"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_one_that_fails_alone_is_tried_beside_nobody(tmp_path: Path) -> None:
    result = gate(tmp_path, target(alone=True), cases=cases())
    assert result.exit_code == 1 and result.report["outcome"] == "single-policy"
    assert [row["check"] for row in result.report["checks"]] == ["alone"]


@pytest.mark.slow
def test_without_a_case_of_its_kind_and_without_a_hunt_it_proves_nothing(tmp_path: Path) -> None:
    result = gate(tmp_path, target(), candidate="vllm:chunked-prefill", cases=cases())
    assert result.exit_code == 3 and result.report["outcome"] == "vacuous"
    assert "Corpus: 0 replayed, 0 still failing, 1 not applicable." in result.report["notes"]


@pytest.mark.slow
def test_the_hunt_finds_what_no_case_told(tmp_path: Path) -> None:
    against = resolve(("vllm:prefix-cache",))
    result = gate(tmp_path, target(fault=True), against=against, max_examples=160)
    assert result.exit_code == 1
    (failure,) = result.report["failures"]
    assert failure["policies"] == [CANDIDATE, "vllm:prefix-cache"] and failure["corpus"] == []
    clean = gate(tmp_path / "clean", target(), against=against, max_examples=160)
    assert clean.exit_code == 0 and clean.report["checks"][-1]["verdict"] == "none found"


@pytest.mark.slow
def test_a_plain_engine_that_fails_shows_nothing_of_the_candidate(tmp_path: Path) -> None:
    broken = EngineTarget(
        ToyLife, lambda policies, schedule, history: (Failure("I13", "died", text="x"),), "toy 1"
    )
    result = gate(tmp_path, broken, cases=cases())
    assert result.exit_code == 3 and result.report["outcome"] == "vacuous"
    assert [row["verdict"] for row in result.report["checks"]] == ["vacuous"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outcome", "told", "code"), [("interrupted", "interrupted", 130), ("failed", "vacuous", 3)]
)
def test_a_hunt_that_came_to_nothing_is_not_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Any, told: str, code: int
) -> None:
    ran = LiveHunt.run
    monkeypatch.setattr(LiveHunt, "run", lambda hunt: replace(ran(hunt), outcome=outcome))
    against = resolve(("vllm:prefix-cache",))
    result = gate(tmp_path, target(), cases=cases(), against=against, max_examples=10)
    assert (result.report["outcome"], result.exit_code) == (told, code)
    assert "Corpus: 1 replayed, 0 still failing, 0 not applicable." in result.report["notes"]


@pytest.mark.slow
def test_what_fewer_show_under_nearly_the_same_schedule_is_what_they_come_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fewer(filing: LiveFiling, verdict: Any, schedule: Any, drawn: int) -> Any:
        prefix_cache = [arm for arm in verdict.arms if arm.names == ("vllm:prefix-cache",)]
        return prefix_cache[0], schedule

    monkeypatch.setattr(LiveFiling, "take", fewer)
    result = gate(tmp_path, target(fault=True), cases=cases())
    assert [row["verdict"] for row in result.report["checks"]] == ["accepted", "not-reproduced"]
    assert result.exit_code == 0 and not result.report["failures"]
