"""The readers of the one text that run on numbers: plain Python, written-out Python, and compiled.

The compiled one is the written-out text under numba, kept as a module in the user's cache under the hash of
its own source, so that a second process starts without compiling and a changed text can never meet an old
compilation.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import fuzzkv.contract.apply as table
from fuzzkv.contract import facts
from fuzzkv.contract.policy import Policy, Rule
from fuzzkv.contract.schedule import OPS
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.machine.linker import unique_name, write_out

Reader = Literal["plain", "python", "compiled"]

_EVENTS = tuple(op for op in OPS if op != "act")


def _text(op: str) -> Callable[..., Any]:
    return getattr(table, f"apply_{op}")  # type: ignore[no-any-return]


def dispatch_source(rules: Sequence[tuple[Rule, bool]], *, prefix: str) -> str:
    """The function ``apply(s, op, a, b, mask)``: one event of a schedule; a policy acts only if its bit is in
    ``mask``.
    """
    lines = [f"{prefix}def apply(s, op, a, b, mask):"]
    for op in _EVENTS:
        lines.append(f"    {'if' if op == _EVENTS[0] else 'elif'} op == {OPS.index(op)}:")
        lines.append(f"        {unique_name(_text(op))}(s, a, b)")
    lines.append(f"    elif op == {OPS.index('act')}:")
    for k, (rule, _) in enumerate(rules):
        lines.append(f"        if a == {k} and mask >> {k} & 1:")
        lines.append(f"            {unique_name(rule)}(s, {k})")
    lines.append("        pass")
    return "\n".join(lines) + "\n"


def module_source(rules: Sequence[tuple[Rule, bool]], *, trace: bool, compiled: bool, extra: str = "") -> str:
    """The whole written-out module for a policy set."""
    prefix = "@njit(cache=True, boundscheck=False)\n" if compiled else ""
    roots = [_text(op) for op in _EVENTS] + [facts.damage] + [rule for rule, free in rules if not free]
    parts = ["from numba import njit" if compiled else "", write_out(roots, trace=trace, prefix=prefix)]
    parts.append(dispatch_source(rules, prefix=prefix))
    parts.append(f"damage = {unique_name(facts.damage)}")
    return "\n\n".join([*parts, extra])


def cache_folder() -> Path:
    """Where compiled readers are kept: ``$FUZZKV_CACHE`` or the user's cache folder."""
    base = os.environ.get("FUZZKV_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "fuzzkv"
    )
    return Path(base)


@lru_cache(maxsize=16)
def _python_module(rules: tuple[tuple[Rule, bool], ...], trace: bool) -> dict[str, Any]:
    source = module_source(rules, trace=trace, compiled=False)
    space: dict[str, Any] = {unique_name(rule): rule for rule, free in rules if free}
    exec(compile(source, "<fuzzkv written out>", "exec"), space)
    return space


def python_apply(
    policies: tuple[Policy, ...], tell: Callable[[int, int, int, int], None] | None = None
) -> Callable[..., None]:
    """The written-out Python reader; ``tell(primitive, actor, page, detail)`` hears every primitive that
    ran.
    """
    space = _python_module(tuple((policy.rule, policy.free) for policy in policies), tell is not None)
    if tell is not None:
        space["_tell"] = tell
    return space["apply"]  # type: ignore[no-any-return]


def plain_apply(policies: Sequence[Policy]) -> Callable[..., None]:
    """The plain Python reader: the text as it is imported, nothing rewritten.  Slow; for debugging and for
    comparison.
    """

    def apply(s: Any, op: int, a: int, b: int, mask: int) -> None:
        if OPS[op] != "act":
            _text(OPS[op])(s, a, b)
        elif a < len(policies) and mask >> a & 1:
            policies[a].rule(s, a)

    return apply


def load_compiled(source: str, name: str) -> ModuleType:
    """A module of this source in the cache, imported.  The file name carries the hash of source, numba and
    Python.
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


def rule_digest(policy: Policy) -> str:
    """What the policy does, as 16 hex digits: a hash of its rule with everything that it calls, written out."""
    text = inspect.getsource(policy.rule) if policy.free else write_out([policy.rule], trace=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
