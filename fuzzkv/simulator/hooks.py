"""The written-out interpreter with hooks: each act of a rule is reported first, and may be kept from happening."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.view import Tap, tapping
from fuzzkv.simulator.interpreters import fresh_module
from fuzzkv.simulator.linker import unique_name


def tapped_apply(policies: Sequence[Policy], tap: Tap) -> Callable[..., None]:
    """``apply(s, op, a, b, mask)``, where each act that a policy wants goes through ``tap``.

    A free rule that doesn't act through ``semantics.view`` can't be tapped.
    """
    space = fresh_module(tuple((policy.rule, policy.free) for policy in policies), False)

    def tapped(name: str, text: Callable[..., Any]) -> Callable[..., Any]:
        def call(s: Any, g: Any, k: int, *what: int) -> Any:
            if not g or k < 0:
                return text(s, g, k, *what)
            return tap(name, s, k, what, lambda go: text(s, go, k, *what))

        return call

    for name, text in OPERATIONS.items():
        if unique_name(text) in space:
            space[unique_name(text)] = tapped(name, space[unique_name(text)])
    if not any(policy.free for policy in policies):
        return space["apply"]  # type: ignore[no-any-return]

    def apply(s: Any, op: int, a: int, b: int, mask: int) -> None:
        with tapping(tap):
            space["apply"](s, op, a, b, mask)

    return apply
