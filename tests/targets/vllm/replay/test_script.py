"""Jobs: what is accepted, what is refused, and that data and back is the identity."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from fuzzkv.errors import FuzzkvError
from fuzzkv.targets.vllm.replay.script import job_from_dict, validate
from tests.targets.vllm.replay.scripts import job, ops

GOOD = job("quality", {"": "arrive 0 3; ask 0 1", "a": "arrive 0 3; discard_device 0 1; ask 0 1"})


def test_round_trip() -> None:
    assert job_from_dict(json.loads(json.dumps(GOOD.as_dict()))) == GOOD


def test_endpoints_default_to_every_page() -> None:
    assert GOOD.endpoints() == ((0, 0), (0, 1), (0, 2))
    assert replace(GOOD, endpoint=((0, 2), (0, 2))).endpoints() == ((0, 2),)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("arrive 0 3; discard 0 1", "Did you mean 'discard_"),
        ("arrive 0 9", "1 to 8 pages"),
        ("arrive 0 3; arrive 0 3", "only after its end"),
        ("ask 0 1; arrive 0 3", "has not arrived"),
        ("arrive 0 3; ask 0 3", "no such page"),
        ("arrive 0 3; quantise 0 1 9", "2 to 8 bits"),
        ("arrive 0 3; wait -2", "ticks"),
        ("arrive 0 2", "same requests"),
    ],
)
def test_refused(script: str, said: str) -> None:
    bad = replace(GOOD, arms=(GOOD.arms[0], replace(GOOD.arms[1], script=ops(script))))
    with pytest.raises(FuzzkvError, match="FKV057") as e:
        validate(bad)
    assert said in str(e.value)


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, arms=GOOD.arms[::-1]),
        replace(GOOD, arms=(GOOD.arms[0], GOOD.arms[1], GOOD.arms[1])),
        replace(GOOD, endpoint=((0, 7),)),
        replace(GOOD, kind="latency", slack_ticks=0),
        replace(GOOD, kind="speed"),  # type: ignore[arg-type]
    ],
)
def test_bad_jobs(bad: object) -> None:
    with pytest.raises(FuzzkvError, match="FKV057"):
        validate(bad)  # type: ignore[arg-type]


def test_broken_data_is_named() -> None:
    with pytest.raises(FuzzkvError, match="FKV057"):
        job_from_dict({"case_id": "x"})


def test_the_parent_imports_no_engine() -> None:
    code = (
        "import sys, fuzzkv.targets.vllm.replay.confirm; print(sorted({'torch', 'vllm'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
