"""Verdicts from raw counts, without an engine."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

from fuzzkv.oracles.thresholds import default_thresholds
from fuzzkv.targets.vllm.replay.judge import QualityJudge, ReplayJudgement, judge_exact, judge_latency
from tests.targets.vllm.replay.scripts import job

LIMITS = replace(default_thresholds(), dq=Decimal("0.10"), looks=3, min_requests=300, bootstrap_samples=400)
A = "arrive 0 4"
JOB = job("quality", {"": A, "a": A, "b": A, "a+b": A})


def rows(loss: float, seed: int, n: int = 240, tie: bool = False) -> dict[str, Any]:
    """Questions of which full cache has 80 % right and this arm loses ``loss`` of all."""
    base = random.Random(99)
    full = [base.random() < 0.8 for _ in range(n)]
    mine = random.Random(seed)
    right = [f and mine.random() >= loss / 0.8 for f in full]
    ties = [tie and f and not r for f, r in zip(full, right, strict=True)]
    return {
        "right": "".join("01"[r] for r in right),
        "tie": "".join("01"[t] for t in ties),
        "counters": {"asks": 1},
        "nll": [500_000 if r else 3_000_000 for r in right],
        "context": [i // 6 for i in range(n)],
    }


def look(*losses: float, tie: bool = False) -> ReplayJudgement:
    judge = QualityJudge(JOB, LIMITS)
    found = {str(i): rows(x, i, tie=tie and i == 3) for i, x in enumerate(losses)}
    return judge.add(found)


def test_a_clear_conflict_is_confirmed_at_the_first_look() -> None:
    j = look(0.0, 0.01, 0.02, 0.45)
    assert j.verdict == "confirmed", j
    last = j.arms[3]
    assert last.counts["c"] + last.counts["both"] == j.arms[0].counts["right"]
    assert (
        float(last.intervals["difference"]["high"]) < -0.10 and float(last.intervals["nll_rise"]["low"]) > 0
    )
    assert last.counts["asks"] == 1


def test_a_control_that_fails_alone_is_no_conflict() -> None:
    j = look(0.0, 0.01, 0.45, 0.5)
    assert j.verdict == "not-reproduced" and "b alone" in j.reason


def test_a_harmless_set_is_not_reproduced() -> None:
    assert look(0.0, 0.0, 0.01, 0.01).verdict == "not-reproduced"


def test_undecided_arms_go_on_and_end_underpowered() -> None:
    judge = QualityJudge(JOB, LIMITS)
    first = judge.add({str(i): rows(x, i) for i, x in enumerate((0, 0.01, 0.1, 0.4))})
    assert (
        first.verdict is None and 0 in first.open_arms and 2 in first.open_arms and 1 not in first.open_arms
    )
    judge.add({str(i): rows(0.1 if i else 0, i + 10) for i in first.open_arms})
    third = judge.add({str(i): rows(0.1 if i else 0, i + 20) for i in first.open_arms})
    assert third.verdict == "underpowered" and "b" in third.reason
    assert third.arms[2].counts["n"] == 720 and third.arms[1].counts["n"] == 240


def test_only_ties_are_a_numeric_tie() -> None:
    assert look(0.0, 0.01, 0.02, 0.45, tie=True).verdict == "numeric-tie"


def test_related_questions_cannot_confirm_alone() -> None:
    """All the loss in a few contexts: the score test alone would be sure, the context bootstrap is not."""
    judge = QualityJudge(JOB, LIMITS)
    found = {str(i): rows(0.0, i) for i in range(4)}
    right = found["3"]["right"]
    found["3"]["right"] = "0" * 70 + right[70:]
    for record in found.values():
        record["context"] = [i // 80 for i in range(240)]
    assert judge.add(found).verdict is None


def exact(*arms: list[int], gap: int = 5_000_000) -> ReplayJudgement:
    made = replace(JOB, kind="exact")
    found = {
        str(i): {"tokens": [["audit 0 1", [[t, gap] for t in a]]], "counters": {}} for i, a in enumerate(arms)
    }
    return judge_exact(made, found)


def test_exact() -> None:
    assert exact([1, 2], [1, 2], [1, 2], [1, 3]).verdict == "confirmed"
    assert exact([1, 2], [1, 2], [1, 2], [1, 2]).verdict == "not-reproduced"
    assert exact([1, 2], [1, 3], [1, 2], [1, 3]).verdict == "not-reproduced"
    assert exact([1, 2], [1, 2], [1, 2], [1, 3], gap=3).verdict == "numeric-tie"


def latency(*base: int) -> ReplayJudgement:
    noise = random.Random(4)
    us = {
        str(i): {"us": [[b + noise.randrange(900), 3000] for _ in range(300)], "counters": {}}
        for i, b in enumerate(base)
    }
    return judge_latency(replace(JOB, kind="latency"), LIMITS, us)


def test_latency() -> None:
    j = latency(4000, 4500, 5000, 20000)
    assert j.verdict == "confirmed" and int(j.values["objective_us"]) < 10_100
    assert latency(4000, 4000, 20000, 21000).verdict == "not-reproduced"
    assert latency(4000, 4000, 4000, 4500).verdict == "not-reproduced"
    assert latency(4000, 4000, 4000, 9000).verdict in ("underpowered", "not-reproduced")
