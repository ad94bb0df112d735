"""The policies by name: built-in ones, installed entry points, and ``pkg.module:NAME`` paths that the user
allowed.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import FunctionType
from typing import Any, Final, get_args

from fuzzkv.errors import UsageError, did_you_mean
from fuzzkv.semantics.contract.evidence import Evidence, Manifest, Target
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import EXTRA
from fuzzkv.semantics.view import Custom

ENTRY_POINTS = "fuzzkv.policies"
"""Group under which installed packages register policies."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,199}")
_INT64: Final = range(-(2**63), 2**63)
_LONGEST: Final = 1_000_000
"""Steps that the horizon of an evidence can have."""


def builtin() -> dict[str, Policy]:
    """The default policies by name."""
    from fuzzkv.policies.evict import EVICT
    from fuzzkv.policies.offload import OFFLOAD
    from fuzzkv.policies.quant import QUANT

    return {policy.name: policy for policy in (EVICT, OFFLOAD, QUANT)}


def installed() -> dict[str, Policy]:
    """Built-in policies and those that installed packages register, without those that can't be loaded."""
    return survey()[0]


def survey() -> tuple[dict[str, Policy], list[UsageError]]:
    """The installed policies by name, and an error for each registered one that can't be loaded."""
    found, broken = builtin(), []
    for name, point in registered().items():
        if name in found:
            continue
        try:
            found[name] = _load(point)
        except UsageError as error:
            broken.append(error)
    return found, broken


def registered() -> dict[str, EntryPoint]:
    """The entry points of installed packages, by name; nothing of it is imported."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=ENTRY_POINTS):
        found.setdefault(point.name, point)
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
    known, points = builtin(), registered()
    chosen: dict[str, Policy] = {}
    for name in wanted:
        if name in known:
            policy = known[name]
        elif name in points:
            policy = _load(points[name])
        else:
            policy = _from_path(name, {*known, *points}, allow_paths)
        if policy.name in chosen:
            raise UsageError(
                code="FKV002", value=repr(name), reason="is given twice", cure="Name each policy once."
            )
        chosen[policy.name] = policy
    return tuple(chosen[name] for name in sorted(chosen))


def _from_path(name: str, known: Iterable[str], allow_paths: bool) -> Policy:
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
    if os.getcwd() not in sys.path and "" not in sys.path:
        # The user named it, and a module of one's own lies in the folder where one works.
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may fail in any way while it is imported, sys.exit included
        raise UsageError(
            code="FKV003",
            value=repr(name),
            reason=f"can't be imported ({_why(error)})",
            cure="Check that the module is in this folder or on PYTHONPATH and has that attribute.",
        ) from error
    return _checked(name, found)


def _load(point: EntryPoint) -> Policy:
    try:
        found = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # as above
        raise UsageError(
            code="FKV003",
            value=repr(point.name),
            reason=f"is registered as {point.value}, which can't be imported ({_why(error)})",
            cure="Mend or remove the package that registers it.",
        ) from error
    return _checked(point.name, found)


def _why(error: BaseException) -> str:
    """The kind and the text of an exception on one line; its own text may fail too."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _checked(name: str, found: object) -> Policy:
    try:
        made: object = found
        if isinstance(found, type):
            made = found.as_policy() if issubclass(found, Custom) else found()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the class is a stranger's: it may do anything
        raise UsageError(
            code="FKV004",
            value=repr(name),
            reason=f"can't be made without arguments ({_why(error)})",
            cure="Export a Policy or a subclass of Custom (see fuzzkv.api).",
        ) from error
    if not isinstance(made, Policy):
        raise UsageError(
            code="FKV004",
            value=repr(name),
            reason=f"is a {type(made).__name__}, not a fuzzkv policy with a manifest",
            cure="Export a Policy or a subclass of Custom (see fuzzkv.api).",
        )
    _check_fields(name, made)
    return made


def _check_fields(name: str, policy: Policy) -> None:
    fields: Mapping[str, Any] = vars(policy)
    wrong = ""
    unknown = [event for event in fields["workload"] if event not in EXTRA]
    if not isinstance(fields["manifest"], Manifest):
        wrong = f"its manifest is a {type(fields['manifest']).__name__}, not a Manifest"
    elif not isinstance(fields["name"], str) or not _NAME.fullmatch(fields["name"]):
        wrong = f"its name {_shown(fields['name'])} isn't a plain name (letters, digits, '_', '.', ':', '-')"
    elif not isinstance(fields["version"], str) or not 0 < len(fields["version"]) <= 60:
        wrong = f"its version {_shown(fields['version'])} isn't a text of 1 to 60 characters"
    elif not fields["manifest"].kind:
        wrong = "its manifest names no kind"
    elif evidence := _wrong_evidence(fields["manifest"].evidence):
        wrong = evidence
    elif unknown:
        wrong = f"its workload names {_shown(unknown[0])}, which is none of {', '.join(EXTRA)}"
    elif not isinstance(fields["rule"], FunctionType):
        wrong = f"its rule is a {type(fields['rule']).__name__}, not a plain function"
    if wrong:
        raise UsageError(code="FKV004", value=repr(name), reason=wrong, cure="See docs/writing-a-policy.md.")
    parameters: Any = fields["parameters"]
    if not isinstance(parameters, Mapping):
        wrong = f"its parameters are a {type(parameters).__name__}, not a mapping of names to integers"
    else:
        for key, value in parameters.items():
            if not isinstance(key, str) or not _NAME.fullmatch(key):
                wrong = f"the parameter name {_shown(key)} isn't a plain name"
            elif type(value) is not int or value not in _INT64:
                wrong = f"the parameter {key} is {_shown(value)}, not an integer of 64 bits"
        wrong = wrong or _wrong_edges(fields["edges"], parameters)
    if wrong:
        raise UsageError(
            code="FKV005", value=repr(name), reason=wrong, cure="Declare parameters as {'name': 3}."
        )


def _wrong_edges(edges: Any, parameters: Mapping[str, int]) -> str:
    for edge in edges if isinstance(edges, tuple) else (edges,):
        if not (
            isinstance(edge, tuple)
            and len(edge) == 2
            and edge[0] in list(parameters)
            and type(edge[1]) is int
        ):
            return f"the edge {_shown(edge)} isn't one of its parameters with an integer"
    return ""


def _wrong_evidence(evidence: Any) -> str:
    if not isinstance(evidence, Evidence):
        return f"its evidence is a {type(evidence).__name__}, not an Evidence"
    if evidence.target not in get_args(Target):
        return f"its evidence has the target {_shown(evidence.target)}, which is none of {', '.join(get_args(Target))}"
    if type(evidence.horizon) is not int or not 0 <= evidence.horizon <= _LONGEST:
        return f"the horizon of its evidence is {_shown(evidence.horizon)}, not 0 to {_LONGEST} steps"
    if type(evidence.confidence) is not int or not 0 <= evidence.confidence <= 1000:
        return f"the confidence of its evidence is {_shown(evidence.confidence)}, not 0 to 1000 permille"
    return ""


def _shown(value: object) -> str:
    return ascii(value)[:80] if isinstance(value, (str, int, float)) else f"of type {type(value).__name__}"
