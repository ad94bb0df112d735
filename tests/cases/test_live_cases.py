"""Live cases as files: schema, ids, and how the readers of model cases refuse them; the command line of both."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzzkv import cli
from fuzzkv.cases.corpus import Case, case_id, is_live, load_case, save_case, validate
from fuzzkv.cases.session_cases import make_session_case
from fuzzkv.core.results import Failure, Outcome
from fuzzkv.errors import UsageError
from fuzzkv.metadata.metadata_report import necessity
from fuzzkv.targets.arms import below
from fuzzkv.targets.base import Arm
from fuzzkv.targets.environments import Environment
from fuzzkv.targets.model.recipe import read_case
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.kept_log import MOST_ROWS, history_of
from fuzzkv.targets.vllm.policies import LivePolicy, resolve
from fuzzkv.targets.vllm.schedule import LiveSchedule
from fuzzkv.targets.vllm.target import EngineTarget, read_engine_case
from tests.samples import make_case
from tests.targets.vllm.toy import ToyLife

PAIR = ("vllm:offload-lru", "vllm:prefix-cache")
SCHEDULE = LiveSchedule(
    48,
    256,
    (("hold", 1, 0, 0), ("arrive", 0, 4, 2), ("step", 1, 0, 0), ("abort", 0, 0, 0), ("arrive", 0, 0, 1)),
)


def judge(policies: object, schedule: object, history: LiveHistory) -> tuple[Failure, ...]:
    return history.failures


TARGET = EngineTarget(lambda config: ToyLife(config, fault=True), judge, "toy 1", EngineConfig(pages=128))


def live_case(**changes: Any) -> Case:
    session = TARGET.session(keep=2)
    whole = session.run(resolve(PAIR), SCHEDULE)
    every = (*below(session, resolve(PAIR), SCHEDULE), whole)
    case = make_session_case(TARGET, every, whole.classes()[0], SCHEDULE, seed=3, schedules=9)
    if changes:
        case |= changes
        case["id"] = case_id(case)
    return case


def test_a_live_case_is_a_case(tmp_path: Path) -> None:
    case = live_case()
    assert is_live(case) and not is_live(make_case())
    saved = save_case(case, tmp_path)
    assert load_case(saved.path) == case and saved.path.name == f"{case['id']}.json"
    recipe = read_engine_case(load_case(saved.path))
    assert recipe.schedule == SCHEDULE
    other = replace(TARGET, base=EngineConfig())
    assert other.configured_as(case) == TARGET != other
    assert recipe.failure_class.policies == PAIR and [p.name for p in recipe.policies] == list(PAIR)
    assert case["title"] == (
        "offload-lru and prefix-cache together break store-snapshot: the bytes that were stored are another prompt's"
    )
    assert case["confirmations"][0]["reason"] == "fails on a fresh engine; 3 of 3 subsets pass"


def test_the_engine_that_found_it_is_no_part_of_the_id() -> None:
    assert live_case(engine="toy 2")["id"] == live_case()["id"]
    config = live_case()["config"]
    assert live_case(config={**config, "pool": 40})["id"] != live_case()["id"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": "Torch 2"}, "target"),
        ({"target": "model"}, "target"),
        ({"schedule": [["step", 1, 0]]}, "schedule[0]"),
        ({"schedule": [["act", 1, 0, 0]]}, "schedule[0][0]"),
        ({"schedule": [["step", 1, 0, 99]]}, "schedule[0][3]"),
        ({"config": {"pages": 4}}, "config"),
        ({"config": {"engine": {"pages": [1]}, "pool": 9, "chunk": 64}}, "config.engine.pages"),
        ({"config": {"engine": {}, "pool": 3, "chunk": 64}}, "config.pool"),
        ({"violation": {"invariant": "I4"}}, "violation"),
        ({"violation": {**live_case()["violation"], "request": -2}}, "violation.request"),
        ({"violation": {**live_case()["violation"], "text": "a\nb"}}, "violation.text"),
        ({"engine": "x\x1b"}, "engine"),
    ],
)
def test_what_the_schema_refuses(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match="FKV014") as caught:
        validate(live_case(**changes), "x")
    assert words in str(caught.value)


def test_a_case_of_the_model_has_no_engine_and_a_live_one_needs_it() -> None:
    with pytest.raises(UsageError, match="FKV014"):
        validate(make_case(engine="vllm 1"), "x")
    case = live_case()
    del case["engine"]
    with pytest.raises(UsageError, match=r"FKV014.*'engine' is a required property"):
        validate(case, "x")


def test_readers_of_the_other_kind_refuse_it() -> None:
    with pytest.raises(UsageError, match=r"FKV101: fkv-.*'fuzzkv replay' runs it"):
        read_case(live_case())
    with pytest.raises(UsageError, match="FKV101"):
        read_engine_case(make_case())
    with pytest.raises(UsageError, match="FKV101"):
        read_engine_case(live_case(target="torch"))
    report = necessity([live_case()])
    assert report["left_out"] == [{"id": live_case()["id"], "why": "it is a case of a live engine"}]


def test_a_live_case_carries_the_log_of_its_runs_outside_its_id() -> None:
    case = live_case()
    kept = case["history"]
    assert [arm["policies"] for arm in kept["arms"]] == [[], [PAIR[0]], [PAIR[1]], list(PAIR)]
    assert ["arrive", 0] in kept["log"]
    without = {key: value for key, value in case.items() if key != "history"}
    assert case_id(without) == case["id"] and validate(without, "x")
    with pytest.raises(UsageError, match="FKV014"):
        validate({**case, "history": {**kept, "log": [["store+", "x"]]}}, "x")
    with pytest.raises(UsageError, match="FKV014"):
        validate(make_case(history=kept), "x")


def test_a_log_that_is_too_long_isn_t_kept() -> None:
    long = LiveHistory(log=(("step", 0),) * (MOST_ROWS + 1))

    def arm(history: LiveHistory) -> Arm[LivePolicy]:
        return Arm((), Outcome(), history=history)

    assert history_of([arm(long)]) is None
    assert history_of([arm(LiveHistory())]) is None
    kept = history_of([arm(LiveHistory(log=(("step", 0),), steps=1, tokens=((5, -1),)))])
    assert kept is not None and kept["arms"][0]["tokens"] == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"policies": [{"name": "vllm:x", "version": "1", "parameters": {}}]}, "FKV001"),
        ({"policies": [{"name": PAIR[0], "version": "0", "parameters": {}}]}, "FKV006"),
        ({"config": {"engine": {"wheels": 4}, "pool": 9, "chunk": 64}}, "FKV030"),
        ({"schedule": [["step", 9, 0, 0]]}, "FKV033"),
    ],
)
def test_what_can_not_be_run(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_engine_case({**live_case(), **changes})
    assert caught.value.code == code


# -- the command line


class Judge:
    def __call__(self, policies: object, schedule: object, history: LiveHistory) -> tuple[Failure, ...]:
        return history.failures

    def too_far(self, policies: object) -> str:
        return ""


class Engines:
    """The toy in the place of real engines."""

    name = "toy 1"
    faulty = True

    def __init__(self, device: str, environment: Environment) -> None:
        assert device == "cpu" and environment.source == "here"

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def target(self, base: EngineConfig) -> EngineTarget:
        return EngineTarget(self.start, self.judge, self.name, base, self.judge.too_far)

    def start(self, config: EngineConfig) -> ToyLife:
        return ToyLife(config, fault=self.faulty)

    judge = Judge()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("fuzzkv.targets.vllm.target.Engines", Engines)

    def command(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fuzzkv", *args])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return command


@pytest.mark.slow
def test_hunt_and_replay(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ",".join(PAIR)
    code, out, err = run(
        "hunt", "--target", "vllm", "--policies", names, "--max-examples", "150", "--report-dir", "r"
    )
    assert code == 1 and not err
    assert "engine toy 1" in out and "1 class of conflict found, 1 confirmed on a real engine" in out
    assert "1 of 1 pairs" in out and "vllm:offload-lru passes alone" in out
    report = json.loads((tmp_path / "r" / "hunt.json").read_text())
    (found,) = report["cases"]
    assert (tmp_path / "r" / "events.ndjson").read_text().count("EngineSearchDone") == 1
    code, out, _ = run("replay", found)
    assert code == 1 and f"{found} on toy 1: fails. I4 foreign" in out and "3 of 3 subsets pass" in out
    code, out, _ = run("corpus", "show", found)
    assert code == 0 and "engine.pages=128" in out and "on toy 1: together fails, controls 3 of 3 pass" in out
    assert run("corpus", "check")[0] == 0 and run("corpus", "ls")[0] == 0
    code, _, err = run("replay", found, "--target", "model")
    assert code == 2 and "FKV101" in err
    code, out, _ = run("explain", found)
    assert code == 0 and "break I4 (store-snapshot) together in toy 1" in out
    monkeypatch.setattr(Engines, "faulty", False)
    code, out, _ = run("replay", "corpus")
    assert code == 0 and "passes" in out


def test_options_of_the_model_mean_nothing_on_an_engine(run: Any) -> None:
    for flags in (["--workers", "2"], ["--contract", "enforce"], ["--no-confirm"], ["--solver-depth", "3"]):
        code, _, err = run("hunt", "--target", "vllm", *flags)
        assert code == 2 and f"FKV030: {flags[0]}: it is an option of hunts on the model" in err
    code, _, err = run("hunt", "--target", "vllm", "--policies", "vllm:prefix")
    assert code == 2 and "FKV001: 'vllm:prefix'" in err and "vllm:prefix-cache" in err
