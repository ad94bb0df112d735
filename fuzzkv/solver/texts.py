"""The operations that can run for a policy set: its events, its rules read exactly, and an over-approximation of its manifests.

The over-approximation is any primitive that a manifest declares, or that only says something, with any arguments, by any policy of
the set: whatever the policies do comes to a sequence of those.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fuzzkv.semantics.layout import NR, PAGES, SAID
from fuzzkv.semantics.ops.registry import FRAMES, OPERATIONS, PLACES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, BOUNDS, LATE, OPS, TICK
from fuzzkv.simulator.symbolic.interpreter import SymbolicInterpreter, SymbolicState
from fuzzkv.simulator.symbolic.scope import Window

_ENDLESS = (TICK, LATE)


class InterpreterSetting(Protocol):
    """The setting of an operation: an interpreter, a policy set, a window, and arguments that nobody knows."""

    policies: tuple[Policy, ...]
    window: Window

    @property
    def reader(self) -> SymbolicInterpreter:
        """Who reads it."""

    def unknown_from(self, low: int, high: int | None) -> Any:
        """Any number from ``low`` to ``high``, or without bound."""


@dataclass(frozen=True)
class Text:
    """Something that can run: its name and what it does to a state."""

    name: str
    run: Callable[[InterpreterSetting, SymbolicState], None]


def events_of(policies: Sequence[Policy], window: Window) -> Iterator[Text]:
    """The usual events and those that a policy of the set asks for, a session at a time; time has no bound."""
    asked = {name for policy in policies for name in policy.workload}
    for op, name in enumerate(OPS):
        if op == ACT or (op > LATE and name not in asked):
            continue
        low_a, high_a, low_b, high_b = BOUNDS[op]
        if (low_a, high_a) == (0, NR - 1):
            # Numbers of pages, and of a page, are those of the window.
            most = window.pages - (PAGES - high_b) if high_b in (PAGES, PAGES - 1) else high_b
            for r in range(window.requests):
                yield Text(f"{name} {r}", _event(op, (r, r), (low_b, most)))
        else:
            yield Text(name, _event(op, (low_a, None if op in _ENDLESS else high_a), (low_b, high_b)))


def _event(
    op: int, a: tuple[int, int | None], b: tuple[int, int | None]
) -> Callable[[InterpreterSetting, Any], None]:
    def run(c: InterpreterSetting, s: SymbolicState) -> None:
        c.reader.apply(s, c.policies, op, c.unknown_from(*a), c.unknown_from(*b), 0)

    return run


def rules_of(policies: Sequence[Policy]) -> Iterator[Text]:
    """An act of each policy whose rule is in the vocabulary."""
    for k, policy in enumerate(policies):
        if policy.free:
            continue

        def run(c: InterpreterSetting, s: SymbolicState, k: int = k) -> None:
            c.reader.apply(s, c.policies, ACT, k, 0, 1 << k)

        yield Text(f"act of {policy.name}", run)


def overapproximation_of(policies: Sequence[Policy]) -> Iterator[Text]:
    """The primitives that the policies may use, by any of them, with any arguments."""
    declared = {action.primitive for policy in policies for action in policy.manifest.actions}
    for name in sorted(declared | SAID):
        yield Text(name, _primitive(name))


def _primitive(name: str) -> Callable[[InterpreterSetting, Any], None]:
    does = OPERATIONS[name]

    def run(c: InterpreterSetting, s: SymbolicState) -> None:
        bounds = arguments_of(name, c.window)
        values = [c.unknown_from(low, high) for low, high in bounds.values()]
        c.reader.text(does)(s, True, *values)

    return run


def arguments_of(name: str, window: Window) -> dict[str, tuple[int, int]]:
    """The arguments of a primitive behind state and guard, each with its least and largest number."""
    sizes = window.names()
    counts = {"k": sizes["NK"], "p": sizes["NP"], "r": sizes["NR"], "x": sizes["NX"]}
    counts |= {"frame": sizes["NH" if name in FRAMES else "ND"], "n": sizes["PAGES"] + 1}
    names = list(inspect.signature(OPERATIONS[name]).parameters)[2:]
    return {a: (0, counts[a] - 1) if a in counts else PLACES[a] for a in names}
