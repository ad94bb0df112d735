"""The first look of a hunt: the same whether anything has to be compiled, and nothing that the hunt doesn't find again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuzzkv import events as ev
from fuzzkv.cases.shrink import Shrinker
from fuzzkv.core.options import HuntOptions
from fuzzkv.search import first_look as looking
from fuzzkv.search.first_look import LOOK, compile_all, compiling_beside, first_look
from fuzzkv.search.hunt import hunt
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk import core
from fuzzkv.simulator.bulk.engine import BulkEngine
from tests.broken import CAREFUL, HASTY, TIDY_FREE

NAMES = ("offload", "quant", "evict")


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing seems to be compiled, and nothing is compiled beside."""
    monkeypatch.setattr(looking, "core_is_kept", lambda: False)
    monkeypatch.setattr(looking, "Child", lambda command, **options: _Nobody())


class _Nobody:
    def __enter__(self) -> _Nobody:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def wait(self) -> int:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_look_is_the_same_compiled_or_not(
    defaults: tuple[Policy, ...], compiled: BulkEngine, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = HuntOptions(policies=NAMES, seed=seed)
    seen = []
    for kept in (True, False):
        monkeypatch.setattr(looking, "core_is_kept", lambda kept=kept: kept)
        seen.append(list(first_look(defaults, Config(), options)))
    assert seen[0] == seen[1] != []
    # And it is the beginning of the search.
    engine = compiled.again(seed=seed)
    engine.search(seen[0][0].drawn)
    assert any(c.failure_class.policies == seen[0][0].failure_class.policies for c in engine.classes)


@pytest.mark.slow
def test_who_fails_alone_or_runs_in_python_gets_no_look(defaults: tuple[Policy, ...], cold: None) -> None:
    assert list(first_look((CAREFUL, HASTY), Config(), HuntOptions(policies=NAMES))) == []
    assert list(first_look((TIDY_FREE, CAREFUL), Config(), HuntOptions(policies=NAMES))) == []
    assert list(first_look(defaults[:1], Config(), HuntOptions(policies=NAMES))) == []
    few = list(first_look(defaults, Config(), HuntOptions(policies=NAMES, max_examples=1)))
    assert all(witness.drawn == 1 for witness in few)


@pytest.mark.slow
def test_a_cold_start_files_what_a_warm_one_does(
    tmp_path: Path, compiled: BulkEngine, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(Shrinker, "_leap", lambda self, best: best)
    monkeypatch.setattr(Shrinker, "_hypothesis", lambda self, best: best)
    monkeypatch.setattr("fuzzkv.search.admission.ALONE", 4_000)
    told: list[list[ev.ConflictFound]] = []
    for start in ("warm", "cold"):
        if start == "cold":
            request.getfixturevalue("cold")
        heard: list[ev.Event] = []
        options = HuntOptions(
            policies=NAMES, max_examples=20_000, confirm=False, corpus=tmp_path / start, solver_depth=0
        )
        hunt(options, [heard.append])
        conflicts = [event for event in heard if isinstance(event, ev.ConflictFound)]
        told.append(conflicts)
        assert conflicts[0].schedules <= LOOK
        # Before anyone is accepted.
        assert heard.index(conflicts[0]) < [isinstance(e, ev.AcceptanceDone) for e in heard].index(True)
    # No kind is told twice: the look's are told by the look alone.
    assert told[0] == told[1]
    early = [event for event in told[0] if event.schedules <= LOOK]
    assert len(early) == len(list(first_look(compiled.policies, Config(), options)))
    names = {path.name for path in (tmp_path / "warm").iterdir()}
    assert names == {path.name for path in (tmp_path / "cold").iterdir()} and len(names) > 4
    for name in names:
        assert (tmp_path / "warm" / name).read_bytes() == (tmp_path / "cold" / name).read_bytes()


def test_nothing_is_compiled_beside_what_is_kept(
    compiled: BulkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert core.core_is_kept()
    started: list[list[str]] = []

    class Beside(_Nobody):
        def __init__(self, command: list[str], **options: object) -> None:
            started.append(command)

    monkeypatch.setattr(looking, "Child", Beside)
    with compiling_beside(("evict",)):
        pass
    assert started == []
    monkeypatch.setattr(looking, "core_is_kept", lambda: False)
    with compiling_beside(("evict", "quant")):
        pass
    assert started == [[sys.executable, "-m", "fuzzkv.search.first_look", "evict", "quant"]]
    compile_all(compiled.policies)


def test_an_empty_cache_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUZZKV_CACHE", str(tmp_path))
    assert not core.core_is_kept()
