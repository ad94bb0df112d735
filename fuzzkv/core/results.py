"""The one language for what a run comes to, on any target: failure, failure class, outcome.

A target judges a run of some policies under a schedule and answers with an :class:`Outcome`.  Arms (the subsets of a
policy set) are numbered by masks over the order in which the set names its policies: bit ``k`` is policy ``k``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FailureClass:
    """What makes two failures the same: the policies of the set in their order, the invariant, the action that broke it, and
    whose action it was (``None``: nobody's).
    """

    policies: tuple[str, ...]
    invariant: str
    action: str
    actor: str | None = None

    def of(self, policies: Iterable[str]) -> FailureClass:
        """The same failure in another set."""
        return FailureClass(tuple(policies), self.invariant, self.action, self.actor)


@dataclass(frozen=True)
class Failure:
    """An invariant that was broken.

    ``action`` is the operation that broke it, or a word for what was seen ("foreign", "stale", "leak" ...); ``actor`` the
    policy whose action it was (``None``: nobody's).  ``event`` is the number of the schedule's event (after the last one:
    their count); ``stamp`` orders failures within a run (operations run before it, or engine steps); ``request`` and
    ``page`` are -1 where there is none; ``count`` says how often it happened.
    """

    invariant: str
    action: str
    actor: str | None = None
    event: int = -1
    stamp: int = -1
    request: int = -1
    page: int = -1
    text: str = ""
    count: int = 1


Signature = tuple[str, str, str]


def signature(failure: Failure) -> Signature:
    """What tells failures of one cause from others: invariant, action, and the text without its numbers and keys."""
    return failure.invariant, failure.action, re.sub(r"\b[0-9a-f]{8}\b|\d+", "#", failure.text)[:80]


@dataclass(frozen=True)
class Outcome:
    """What one arm of a schedule came to.

    ``failures`` in the order in which they came to be; ``acted`` the mask of the policies that did something; ``damage``
    how much worse than exact each page ended, by page number (empty where a target can't tell); ``ties`` differences at an
    exact tie of logits, which are no failures; ``counts`` what was exercised, by name.
    """

    failures: tuple[Failure, ...] = ()
    acted: int = 0
    damage: tuple[int, ...] = ()
    ties: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether some invariant is broken."""
        return bool(self.failures)


def names_of(policies: Sequence[str], mask: int) -> tuple[str, ...]:
    """The names of the policies in a mask."""
    return tuple(name for k, name in enumerate(policies) if mask >> k & 1)


def mask_of(policies: Sequence[str], names: Iterable[str]) -> int:
    """The mask of some of the policies.  Raises ``ValueError`` for a name that isn't among them."""
    return sum(1 << policies.index(name) for name in names)


def class_of(case: Mapping[str, Any]) -> FailureClass:
    """The class that a case file tells of."""
    told = case["class"]
    return FailureClass(
        tuple(told["policies"]), told["invariant"], str(told["action"]), told["actor"] or None
    )
