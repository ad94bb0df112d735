"""Where compiled modules are kept: in the user's cache, under the hash of their own source, so that a second
process starts without compiling and a changed text can never meet an old compilation.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
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
    import numba

    salt = f"{numba.__version__} {sys.version} {source}"
    digest = hashlib.sha256(salt.encode()).hexdigest()[:16]
    folder = cache_folder() / "compiled"
    name = re.sub(r"\W", "_", name)[:80]
    path = folder / f"{name}_{digest}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            partial = path.with_suffix(f".{os.getpid()}.tmp")
            partial.write_text(source)
            # Numba asks whether a source is newer than its compilation; here the name says that already, and
            # two processes that write the same file must not void each other's.
            os.utime(partial, (0, 0))
            os.replace(partial, path)
    except OSError as error:
        raise EnvironmentFailure(
            code="FKV075",
            value=str(folder),
            reason=f"the compiled reader can't be kept there ({error.strerror or error})",
            cure="Free some space, or set FUZZKV_CACHE to a folder that you may write.",
        ) from error
    spec = importlib.util.spec_from_file_location(f"{name}_{digest}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
