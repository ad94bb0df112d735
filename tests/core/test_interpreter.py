"""Workers in another interpreter get fuzzkv's own code, and nothing else of what is installed here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fuzzkv.core.cache import cache_root
from fuzzkv.core.childproc import Child
from fuzzkv.core.interpreter import HERE, PACKAGE, Interpreter
from fuzzkv.core.scratch import Scratch


def test_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    scratch = Scratch()
    found = HERE.environment({"A": "1"}, scratch)
    scratch.remove()
    assert HERE.command("fuzzkv.x") == (sys.executable, "-m", "fuzzkv.x")
    assert (
        found["A"] == "1" and found["TMPDIR"] == str(scratch.folder) and found["PATH"] == os.environ["PATH"]
    )
    assert found["PYTHONPATH"].split(os.pathsep) == [str(PACKAGE.parent), "/mine"]


def test_another_interpreter_sees_one_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", sys.base_prefix)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    other, scratch = Interpreter(sys.executable), Scratch()
    environment = other.environment({}, scratch)
    assert other.environment({}, scratch) == environment and "PYTHONHOME" not in environment
    assert os.listdir(environment["PYTHONPATH"]) == ["fuzzkv"]
    # Without site-packages: what these import is the standard library and fuzzkv.
    text = "import fuzzkv.targets.vllm.engine.worker, fuzzkv.targets.vllm.pool.fork_server_main, sys; print(fuzzkv.__file__)"
    command = [sys.executable, "-S", "-c", f"import os; os.chdir({str(tmp_path)!r}); {text}"]
    with Child(command, environment=environment, answers="stdout", log=tmp_path / "log") as one:
        path = one.line(30)
    scratch.remove()
    assert path.decode() == str(scratch.folder / "path" / "fuzzkv" / "__init__.py")
    assert PACKAGE.is_dir(), "only the link to it is removed"


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FUZZKV_CACHE", str(tmp_path))
    assert cache_root() == tmp_path
    monkeypatch.delenv("FUZZKV_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "fuzzkv"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path.home() / ".cache" / "fuzzkv"
