"""The real caches, one scenario of each kind, each in a worker process of its own."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from fuzzkv.targets.vllm.audit import rollback
from fuzzkv.targets.vllm.replay.engine import installed

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def audit(engine: str, how: str) -> dict[str, Any]:
    command = (sys.executable, "-m", "tests.targets.vllm.audit.worker", how)
    report = rollback.audit((engine,), ("tiny",), seed=1, seconds=240, command=command)
    assert report["errors"] == [] and report["runs"][0]["done"] == 5
    schema = files("fuzzkv").joinpath("schemas/rollback-1.json").read_text(encoding="utf-8")
    jsonschema.validate(report, json.loads(schema))
    return report


def ways(report: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(way["cache"], way["way"]): way for way in report["ways"]}


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
def test_transformers() -> None:
    report = audit("transformers", "short")
    found = ways(report)
    assert report["exit_code"] == 0
    for cache in ("dynamic", "static", "window"):
        assert found[cache, "as it is"]["differs"] == 5, cache
        assert found[cache, "snapshot"]["same"] == found[cache, "reset, fed again"]["same"] == 5, cache
        as_text = [c for c in report["cells"] if c["cache"] == cache and c["way"] == "as it is"]
        assert all(float(c["from_text"]) < 1e-2 < float(c["decision"]) for c in as_text), cache
    assert found["dynamic", "crop"]["same"] == found["window", "recorded, crop"]["same"] == 5
    assert found["static", "crop"]["refused"] == 5
    assert found["window", "crop"]["refused"] == found["window", "crop"]["torn"] > 0


@pytest.mark.skipif(installed() is None, reason="no engine is installed")
@pytest.mark.parametrize("how", ["short", "planted"])
def test_vllm_and_its_planted_twin(how: str) -> None:
    report = audit("vllm", how)
    safe = [way for way in report["ways"] if way["role"] == "safe"]
    if how == "short":
        assert report["exit_code"] == 0
        assert all(way["same"] == 5 and way["served"] for way in safe)
    else:
        assert report["exit_code"] == 1
        assert {w["way"] for w in report["ways"] if not w["ok"]} >= {
            "branch finished",
            "branch still running",
        }
        cells = [c for c in report["cells"] if c["role"] == "safe" and c["retained"][0] > c["common"]]
        assert cells and all(cell["verdict"] == "differs" for cell in cells)
