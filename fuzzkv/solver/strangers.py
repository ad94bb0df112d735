"""Neighbours that nobody has met: a known policy that does the same and says otherwise.

A policy knows itself and its view, never another policy.  So a rule that is right beside every neighbour has to be right
beside these: they take the same acts at the same time, as far as their rules let them, and only what they say, or whether
their bytes can be had back, is different.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fuzzkv.contract.layout import ANSWER, CURRENT_ATTENTION
from fuzzkv.contract.policy import Policy
from fuzzkv.solver.trials import Answer, Hear, Setting, listening


@dataclass(frozen=True)
class Stranger:
    """The policy in ``slot`` with another word for what it does; ``setting`` has it in that policy's place."""

    slot: int
    how: str
    setting: Setting


def _silent(s: Any, k: int, name: str, arguments: tuple[int, ...]) -> Answer:
    return "pretend" if name in ("promise", "withdraw") else "let"


def _exact(s: Any, k: int, name: str, arguments: tuple[int, ...]) -> Answer:
    return "pretend" if name in ("quantise", "encode") else "let"


def _certifies(target: int, horizon: int) -> Hear:
    def hear(s: Any, k: int, name: str, arguments: tuple[int, ...]) -> Answer:
        if name != "certify":
            return "let"
        return arguments[0], target or arguments[1], horizon or arguments[2]

    return hear


_WAYS: tuple[tuple[str, Hear, frozenset[str]], ...] = (
    ("quotes nothing", _silent, frozenset({"promise"})),
    ("keeps its bytes exact", _exact, frozenset({"quantise", "encode"})),
    ("predicts the answer", _certifies(ANSWER, 0), frozenset({"certify"})),
    ("predicts the current attention", _certifies(CURRENT_ATTENTION, 0), frozenset({"certify"})),
    ("certifies for good", _certifies(0, 100_000), frozenset({"certify"})),
)
"""How a stranger differs, and the primitives that its policy must use for that to mean something."""


def strangers(setting: Setting, k: int) -> Iterator[Stranger]:
    """The neighbours that the policy in slot ``k`` may have instead of those that it has."""
    for j, policy in enumerate(setting.policies):
        if j == k:
            continue
        for how, hear, about in _WAYS:
            if about & _uses(policy):
                strange = listening(policy, hear)
                policies = tuple(strange if i == j else p for i, p in enumerate(setting.policies))
                yield Stranger(j, how, replace(setting, policies=policies))


def _uses(policy: Policy) -> frozenset[str]:
    """The primitives that a rule's text names, in functions that it calls included."""
    found: set[str] = set()
    todo, done = [policy.rule], set()
    while todo:
        function: Any = todo.pop()
        if function in done or function.__module__.startswith("fuzzkv.contract."):
            continue
        done.add(function)
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if callable(value) and hasattr(value, "__code__"):
                found.add(name)
                todo.append(value)
    return frozenset(found)
