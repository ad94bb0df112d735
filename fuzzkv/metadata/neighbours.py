"""Variations of known policies: neighbours that do the same and say otherwise, and rules that can't see a field.

A policy knows itself and its view, never another policy.  So a rule that is right beside every neighbour has to be right
beside these: they take the same acts at the same time, as far as their rules let them, and only what they say, or whether
their bytes can be had back, is different.

A known rule that reads a field is no private rule.  ``BLIND`` is such a rule as it would be without: it reads the number
that stands in its way least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

from fuzzkv.metadata.trials import CallFate, Hear, Setting, listening
from fuzzkv.semantics.layout import ANSWER, COLUMNS, CURRENT_ATTENTION
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.vocabulary import get

Way = tuple[int, str]
"""A slot, and how its policy differs from the known one."""


def _silent(name: str, arguments: tuple[int, ...]) -> CallFate:
    return "pretend" if name in ("promise", "withdraw") else "let"


def _exact(name: str, arguments: tuple[int, ...]) -> CallFate:
    return "pretend" if name in ("quantise", "encode") else "let"


def _certifies(target: int, horizon: int) -> Callable[[str, tuple[int, ...]], CallFate]:
    def say(name: str, arguments: tuple[int, ...]) -> CallFate:
        return (arguments[0], target or arguments[1], horizon or arguments[2]) if name == "certify" else "let"

    return say


SAYS: Mapping[str, tuple[Callable[[str, tuple[int, ...]], CallFate], frozenset[str]]] = {
    "quotes nothing": (_silent, frozenset({"promise"})),
    "keeps its bytes exact": (_exact, frozenset({"quantise", "encode"})),
    "predicts the answer": (_certifies(ANSWER, 0), frozenset({"certify"})),
    "predicts the current attention": (_certifies(CURRENT_ATTENTION, 0), frozenset({"certify"})),
    "certifies for good": (_certifies(0, 100_000), frozenset({"certify"})),
}
"""How another neighbour differs, and the primitives that its policy must use for that to mean something."""
BLIND: Mapping[str, tuple[Mapping[str, int], frozenset[str]]] = {
    "can't see how long a certificate holds": ({"CERT_FOR": 1_000_000}, frozenset({"spend"})),
}
"""What a rule can't see: the columns and what it reads instead, and the primitives that its policy must use."""


def altered(setting: Setting, ways: Iterable[Way]) -> Setting:
    """The setting with some policies in another way.  Raises ``KeyError`` for a way that isn't known."""
    found = dict(setting.altered)
    by_slot: dict[int, list[str]] = {}
    for slot, how in ways:
        by_slot.setdefault(slot, []).append(how)
    for slot, hows in by_slot.items():
        blind = {
            COLUMNS[name]: value for how in hows if how in BLIND for name, value in BLIND[how][0].items()
        }
        says = [SAYS[how][0] for how in hows if how not in BLIND]
        if blind:
            found[slot] = _blinded(found.get(slot, setting.policies[slot]), blind)
        if says:
            found[slot] = listening(found.get(slot, setting.policies[slot]), _all_of(says))
    return replace(setting, altered=found)


def other_neighbours(setting: Setting, k: int) -> Iterator[Way]:
    """How the neighbours of the policy in slot ``k`` may differ."""
    for j, policy in enumerate(setting.policies):
        if j != k:
            yield from ((j, how) for how, (_, about) in SAYS.items() if about & _uses(policy))


def blindfolds(setting: Setting, k: int) -> Iterator[tuple[Way, ...]]:
    """What the policy in slot ``k`` reads of others and could do without seeing, its neighbours saying all that it needs
    otherwise.
    """
    for how, (_, about) in BLIND.items():
        if about & _uses(setting.policies[k]):
            yield (k, how), *(way for way in other_neighbours(setting, k) if way[1] == "predicts the answer")


def _all_of(says: list[Callable[[str, tuple[int, ...]], CallFate]]) -> Hear:
    def hear(s: Any, k: int, name: str, arguments: tuple[int, ...]) -> CallFate:
        answer: CallFate = "let"
        for say in says:
            now = say(name, arguments)
            if isinstance(now, tuple):
                arguments = now
            answer = answer if now == "let" else now
        return answer

    return hear


def _blinded(policy: Policy, blind: Mapping[int, int]) -> Policy:
    """The policy with a rule that reads given numbers in the place of some columns; its primitives read the truth."""

    def seen(s: Any, column: int, i: int) -> int:
        return blind[column] if column in blind else int(s[column + i])

    def text(function: FunctionType) -> FunctionType:
        space = dict(function.__globals__)
        for name in function.__code__.co_names:
            value = space.get(name)
            if value is get:
                space[name] = seen
            elif isinstance(value, FunctionType) and not value.__module__.startswith("fuzzkv.semantics."):
                space[name] = text(value)
        return FunctionType(
            function.__code__, space, function.__name__, function.__defaults__, function.__closure__
        )

    rule: Any = policy.rule
    return replace(policy, rule=text(rule), free=True)


def _uses(policy: Policy) -> frozenset[str]:
    """The primitives that a rule's text names, in functions that it calls included."""
    found: set[str] = set()
    todo, done = [policy.rule], set()
    while todo:
        function: Any = todo.pop()
        if function in done or function.__module__.startswith("fuzzkv.semantics."):
            continue
        done.add(function)
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, FunctionType):
                found.add(name)
                todo.append(value)
    return frozenset(found)
