"""``[targets.NAME]`` of ``fuzzkv.toml``, or ``[tool.fuzzkv.targets.NAME]`` of ``pyproject.toml``, in the current folder.

``python``: the interpreter of an environment that has the engine; relative to the file, ``~`` is the user's home.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from fuzzkv.errors import UsageError, did_you_mean

FILE: Final = "fuzzkv.toml"
BYTES: Final = 1 << 18
"""A larger file is none of ours."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,63}")
RESERVED: Final = ("model", "vllm")
"""Names of what this environment has itself."""


def configured(folder: Path) -> dict[str, Path]:
    """Names to interpreters, as the files of this folder say; ``fuzzkv.toml`` is taken before ``pyproject.toml``.

    Nothing is run. Raises ``UsageError`` (FKV136) for a file that can't be read or says something else than this.
    """
    file, table = _table(folder)
    _only(file, "", table, ("targets",))
    targets = _mapping(file, "targets", table.get("targets", {}))
    found = {}
    for name, entry in targets.items():
        where = f"targets.{name}"
        if not NAME.fullmatch(name) or name in RESERVED:
            raise _invalid(file, where, "no name for a target", "Choose another, such as vllm@nightly.")
        entry = _mapping(file, where, entry)
        _only(file, f"{where}.", entry, ("python",))
        python = entry.get("python")
        if not isinstance(python, str) or not python:
            raise _invalid(file, f"{where}.python", "not a path", 'Write python = "PATH/bin/python".')
        found[name] = folder / Path(python).expanduser()
    return found


def _table(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    """The file that is there, and what it says to us."""
    own, project = folder / FILE, folder / "pyproject.toml"
    if own.exists():
        return own, _read(own)
    tool = _mapping(project, "tool", _read(project).get("tool", {})) if project.exists() else {}
    return project, _mapping(project, "tool.fuzzkv", tool.get("fuzzkv", {}))


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            data = stream.read(BYTES + 1)
        if len(data) > BYTES:
            raise ValueError(f"it has more than {BYTES} bytes")
        return tomllib.loads(data.decode())
    except (OSError, ValueError, RecursionError) as error:  # both decoders raise ValueErrors
        why = " ".join(str(error).split())[:200]
        raise _invalid(file, "", f"not valid TOML ({why})", "Correct it, or remove it.") from error


def _mapping(file: Path, where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(file, where, "not a table", f"Write [{where}] and its keys below it.")
    return value


def _only(file: Path, where: str, table: Iterable[str], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise _invalid(file, f"{where}{key}", "a key that there isn't", did_you_mean(key, known))


def _invalid(file: Path, where: str, reason: str, cure: str) -> UsageError:
    value = f"{file.name}: {where}" if where else file.name
    return UsageError(code="FKV136", value=value, reason=f"it is {reason}", cure=cure)
