"""The over-approximation of a policy in ordinary Python by its manifest.

An act of it is up to ``CALLS`` primitives, each one that the manifest declares or that only says something, with any
arguments.  That is wider than the policy: an answer may be a schedule that the policy itself would never make harmful.  The
machine tells, and then that very schedule isn't answered again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuzzkv.semantics.layout import SAID
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.policy import Policy
from fuzzkv.simulator.symbolic.circuit import Circuit
from fuzzkv.simulator.symbolic.interpreter import SymbolicInterpreter, SymbolicState
from fuzzkv.solver.texts import arguments_of

CALLS = 2
"""Primitives of one act."""


def overapproximation(
    policy: Policy, reader: SymbolicInterpreter, circuit: Circuit
) -> Callable[[SymbolicState, int], None]:
    """An act of any policy with this manifest, as something to read in the place of the rule."""
    names = sorted({action.primitive for action in policy.manifest.actions} | SAID)

    def call(s: SymbolicState, k: int, name: str) -> None:
        given: list[Any] = []
        for argument, (low, high) in arguments_of(name, reader.window).items():
            given.append(k if argument == "k" else circuit.unknown(low, high))
        reader.text(OPERATIONS[name])(s, True, *given)

    def act(s: SymbolicState, k: int) -> None:
        for _ in range(CALLS):
            which = circuit.unknown(0, len(names))
            s.choose(which, {i: (lambda name=name: call(s, k, name)) for i, name in enumerate(names)})  # type: ignore[misc]

    return act
