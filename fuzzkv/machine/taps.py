"""The written-out reader with somebody in between: each act of a rule is told, and may be kept from happening."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fuzzkv.contract.policy import Policy
from fuzzkv.contract.view import DOES
from fuzzkv.machine.linker import unique_name
from fuzzkv.machine.readers import fresh_module

Tap = Callable[[str, Any, int, tuple[int, ...], Callable[[bool], Any]], Any]
"""``tap(primitive, state, slot, what, act)``: ``act(True)`` lets the act happen, ``act(False)`` doesn't; what the tap
returns is what the rule hears.
"""


def tapped_apply(policies: Sequence[Policy], tap: Tap) -> Callable[..., None]:
    """``apply(s, op, a, b, mask)``, where each act that a rule wants goes through ``tap``.

    A rule in free Python calls the texts themselves, so its acts don't.
    """
    space = fresh_module(tuple((policy.rule, policy.free) for policy in policies), False)

    def tapped(name: str, text: Callable[..., Any]) -> Callable[..., Any]:
        def call(s: Any, g: Any, k: int, *what: int) -> Any:
            if not g or k < 0:
                return text(s, g, k, *what)
            return tap(name, s, k, what, lambda go: text(s, go, k, *what))

        return call

    for name, text in DOES.items():
        if unique_name(text) in space:
            space[unique_name(text)] = tapped(name, space[unique_name(text)])
    return space["apply"]  # type: ignore[no-any-return]
