"""The policies by name: built-in ones, installed entry points, and ``pkg.module:NAME`` paths that the user
allowed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from importlib.metadata import entry_points

from fuzzkv.contract.policy import Policy
from fuzzkv.errors import UsageError, did_you_mean

ENTRY_POINTS = "fuzzkv.policies"
"""Group under which installed packages register policies."""


def builtin() -> dict[str, Policy]:
    """The default policies by name."""
    from fuzzkv.policies.evict import EVICT
    from fuzzkv.policies.offload import OFFLOAD
    from fuzzkv.policies.quant import QUANT

    return {policy.name: policy for policy in (EVICT, OFFLOAD, QUANT)}


def installed() -> dict[str, Policy]:
    """Built-in policies and those that installed packages register."""
    found = builtin()
    for point in entry_points(group=ENTRY_POINTS):
        found.setdefault(point.name, _checked(point.value, point.load()))
    return found


def resolve(names: Iterable[str], *, allow_paths: bool = True) -> tuple[Policy, ...]:
    """The policies of a list, sorted by name.

    A name may be ``pkg.module:NAME`` if ``allow_paths``: then, and only then, that module is imported.
    Raises ``UsageError`` for an unknown name (FKV001), a name given twice or none (FKV002), a path that can't
    be imported (FKV003) and for something that is no policy or declares no manifest (FKV004).
    """
    wanted = [name.strip() for name in names if name.strip()]
    if not wanted:
        raise UsageError(
            code="FKV002",
            value="--policies",
            reason="names no policy",
            cure="Give at least one, e.g. offload,quant,evict.",
        )
    known = installed()
    chosen: dict[str, Policy] = {}
    for name in wanted:
        policy = known[name] if name in known else _from_path(name, known, allow_paths)
        if policy.name in chosen:
            raise UsageError(
                code="FKV002", value=repr(name), reason="is given twice", cure="Name each policy once."
            )
        chosen[policy.name] = policy
    return tuple(chosen[name] for name in sorted(chosen))


def _from_path(name: str, known: dict[str, Policy], allow_paths: bool) -> Policy:
    if ":" not in name:
        hint = did_you_mean(name, known)
        raise UsageError(
            code="FKV001",
            value=repr(name),
            reason="no policy of this name is registered",
            cure=hint or f"Known are {', '.join(sorted(known))}; your own is named pkg.module:NAME.",
        )
    if not allow_paths:
        raise UsageError(
            code="FKV003",
            value=repr(name),
            reason="is a path to code, which isn't imported from a case file",
            cure="Name it with --policies to allow it.",
        )
    module_name, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # a module may fail in any way while it is imported
        raise UsageError(
            code="FKV003",
            value=repr(name),
            reason=f"can't be imported ({type(error).__name__}: {error})",
            cure="Check that the module is on PYTHONPATH and has that attribute.",
        ) from error
    return _checked(name, found)


def _checked(name: str, found: object) -> Policy:
    try:
        made = found() if isinstance(found, type) else found
    except Exception as error:
        raise UsageError(
            code="FKV004",
            value=repr(name),
            reason=f"can't be made without arguments ({type(error).__name__}: {error})",
            cure="Export a fuzzkv.contract.policy.Policy, or a class that makes one from nothing.",
        ) from error
    if not isinstance(made, Policy):
        raise UsageError(
            code="FKV004",
            value=repr(name),
            reason=f"is a {type(made).__name__}, not a fuzzkv policy with a manifest",
            cure="Export a fuzzkv.contract.policy.Policy.",
        )
    return made
