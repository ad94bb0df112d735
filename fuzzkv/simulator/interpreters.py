"""The two interpreters of the semantics that run on numbers in Python: plain, and written out.

The compiled one is in ``simulator.bulk.core``.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

import fuzzkv.semantics.apply as table
from fuzzkv.semantics.policy import Policy, Rule
from fuzzkv.semantics.schedule import OPS
from fuzzkv.simulator.linker import unique_name, write_out

EVENTS = tuple(op for op in OPS if op != "act")
"""Events that are the workload's or the environment's."""


def text_of(op: str) -> Callable[..., Any]:
    """The text of an event."""
    return getattr(table, f"apply_{op}")  # type: ignore[no-any-return]


def module_source(rules: Sequence[tuple[Rule, bool]], *, trace: bool) -> str:
    """The written-out module of a policy set: ``apply(s, op, a, b, mask)`` is one event of a schedule; a policy
    acts only if its bit is in ``mask``.
    """
    roots = [text_of(op) for op in EVENTS] + [rule for rule, free in rules if not free]
    lines = ["def apply(s, op, a, b, mask):"]
    for op in EVENTS:
        lines.append(f"    {'if' if op == EVENTS[0] else 'elif'} op == {OPS.index(op)}:")
        lines.append(f"        {unique_name(text_of(op))}(s, a, b)")
    lines.append(f"    elif op == {OPS.index('act')}:")
    for k, (rule, free) in enumerate(rules):
        lines.append(f"        if a == {k} and mask >> {k} & 1:")
        lines.append(f"            {f'_free_{k}' if free else unique_name(rule)}(s, {k})")
    lines.append("        pass")
    return write_out(roots, trace=trace) + "\n\n" + "\n".join(lines) + "\n"


@lru_cache(maxsize=16)
def _code(rules: tuple[tuple[Rule, bool], ...], trace: bool) -> CodeType:
    return compile(module_source(rules, trace=trace), "<fuzzkv written out>", "exec")


def fresh_module(rules: tuple[tuple[Rule, bool], ...], trace: bool) -> dict[str, Any]:
    """The names of the written-out module of a policy set, for one who wants to put others in their place."""
    space: dict[str, Any] = {f"_free_{k}": rule for k, (rule, free) in enumerate(rules) if free}
    exec(_code(rules, trace), space)
    return space


_python_module = lru_cache(maxsize=16)(fresh_module)


def python_apply(
    policies: tuple[Policy, ...], tell: Callable[[int, int, int, int], None] | None = None
) -> Callable[..., None]:
    """The written-out Python interpreter; ``tell(primitive, actor, page, detail)`` hears every primitive that
    ran.
    """
    space = _python_module(tuple((policy.rule, policy.free) for policy in policies), tell is not None)
    if tell is not None:
        space["_tell"] = tell
    return space["apply"]  # type: ignore[no-any-return]


def plain_apply(policies: Sequence[Policy]) -> Callable[..., None]:
    """The plain Python interpreter: the text as it is imported, nothing rewritten.  Slow; for debugging and for
    comparison.
    """

    def apply(s: Any, op: int, a: int, b: int, mask: int) -> None:
        if OPS[op] != "act":
            text_of(OPS[op])(s, a, b)
        elif a < len(policies) and mask >> a & 1:
            policies[a].rule(s, a)

    return apply


def begin(policies: Sequence[Policy], mask: int) -> None:
    """Before every run of an arm: clear the state that free rules keep in Python."""
    for k, policy in enumerate(policies):
        if policy.fresh is not None and mask >> k & 1:
            policy.fresh()


def text_digest(policies: Sequence[Policy]) -> str:
    """All that a run of some policies depends on but their parameters, as 16 hex digits: a hash of the contract's text with
    their rules and what they declare.

    Of a rule in ordinary Python only its own source is in it, not what that calls.
    """
    rules = [(policy.rule, policy.free) for policy in policies]
    told = [repr((policy.manifest, policy.workload)) for policy in policies]
    text = _numbered(module_source(rules, trace=False)) + "".join([*map(rule_digest, policies), *told])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rule_digest(policy: Policy) -> str:
    """A digest of the policy's rule, 16 hex digits: a hash of its rule with everything that it calls, written out."""
    if policy.free:
        # The rule may be an object with a method ``__call__``.
        rule = policy.rule if inspect.isroutine(policy.rule) else type(policy.rule)
        text = inspect.getsource(policy.owner or rule)
    else:
        text = _numbered(write_out([policy.rule], trace=False))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _numbered(text: str) -> str:
    """Written-out source with its functions numbered: a digest is about what they do, not where they lie or what they are called."""
    names = re.findall(r"^def (\w+)\(", text, re.MULTILINE)
    numbers = {name: f"f{i}" for i, name in enumerate(names)}
    return re.sub(r"\w+", lambda word: numbers.get(word[0], word[0]), text)
