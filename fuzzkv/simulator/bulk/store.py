"""The cache of compiled modules: in the user's cache folder, under the hash of their own source, so that a second
process starts without compiling and a changed source never meets an old compilation.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from fuzzkv.errors import EnvironmentFailure


def cache_folder() -> Path:
    """The folder for everything that can be made again: ``$FUZZKV_CACHE`` or the user's cache folder."""
    base = os.environ.get("FUZZKV_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "fuzzkv"
    )
    return Path(base)


def load_compiled(source: str, name: str) -> ModuleType:
    """A module of this source in the cache, imported.  The file name carries the hash of source, numba and
    Python.  Raises ``EnvironmentFailure`` (FKV075) if the folder can't be written.
    """
    name = re.sub(r"\W", "_", name)[:80]
    path = _folder() / f"{name}_{_digest(source)}.py"
    if not path.exists():
        _write(path, source)
    return _imported(path)


def load_known(key: str, name: str, source: Callable[[], str]) -> ModuleType:
    """The same for a source that takes a while to make, and is the same whenever ``key`` is."""
    link = _link(key, name)
    path = _linked(link)
    if path is not None:
        return _imported(path)
    module = load_compiled(source(), name)
    _write(link, f"{module.__name__}.py")
    return module


def is_kept(key: str, name: str, function: str) -> bool:
    """Whether some process has compiled this function of the module that ``load_known`` gives."""
    path = _linked(_link(key, name))
    return path is not None and any((path.parent / "__pycache__").glob(f"{path.stem}.{function}-*.nbi"))


def _link(key: str, name: str) -> Path:
    return _folder() / f"{name}_{_digest(key)}.link"


def _linked(link: Path) -> Path | None:
    """The module that a link names, if both are there."""
    try:
        path = link.parent / link.read_text()
    except OSError:
        return None
    return path if path.suffix == ".py" and path.parent == link.parent and path.exists() else None


def _digest(text: str) -> str:
    import numba

    return hashlib.sha256(f"{numba.__version__} {sys.version} {text}".encode()).hexdigest()[:16]


def _folder() -> Path:
    folder = cache_folder() / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(error) from error
    return folder


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        partial.write_text(text)
        # Numba asks whether a source is newer than its compilation; here the name says that already, and two
        # processes that write the same file must not void each other's.
        os.utime(partial, (0, 0))
        os.replace(partial, path)
    except OSError as error:
        raise _refused(error) from error


def _refused(error: OSError) -> EnvironmentFailure:
    return EnvironmentFailure(
        code="FKV075",
        value=str(cache_folder() / "compiled"),
        reason=f"the compiled interpreter can't be kept there ({error.strerror or error})",
        cure="Free some space, or set FUZZKV_CACHE to a folder that you may write.",
    )


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
