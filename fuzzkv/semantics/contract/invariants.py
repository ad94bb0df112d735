"""The eighteen invariants as data.  Their predicates are in ``semantics.contract.predicates``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["corruption", "quality", "latency", "progress", "contract"]


@dataclass(frozen=True)
class Invariant:
    """One rule.  ``implied_by``: violations of these on the same page bring this one with them, so it isn't a
    kind of its own then.
    """

    id: str
    name: str
    rule: str
    severity: Severity
    oracle: str
    implied_by: tuple[str, ...] = ()


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "I1",
        "authority",
        "an exact copy exists until nothing that was promised depends on it",
        "corruption",
        "content",
        ("I2", "I4", "I12"),
    ),
    Invariant(
        "I2",
        "single-writer",
        "a frame returns to its pool only behind the fence of every copy and step in flight on it",
        "corruption",
        "content",
        ("I7", "I8"),
    ),
    Invariant(
        "I3",
        "fill-before-read",
        "a fill completes before it is read",
        "corruption",
        "content",
        ("I1", "I2", "I8", "I16"),
    ),
    Invariant(
        "I4",
        "store-snapshot",
        "the bytes stored under a key are those that the key described",
        "corruption",
        "content",
        ("I2",),
    ),
    Invariant("I5", "layout-identity", "layout is equal for writer and reader", "corruption", "content"),
    Invariant("I6", "sidecar-unity", "payload and its scales move as one unit", "corruption", "content"),
    Invariant(
        "I7", "key-identity", "a key covers everything that the bytes depend on", "corruption", "content"
    ),
    Invariant(
        "I8",
        "index-truth",
        "an index entry exists if and only if its frame holds that content",
        "corruption",
        "content",
        ("I5", "I6", "I9"),
    ),
    Invariant(
        "I9",
        "exact-rewind",
        "rollback, fork and replay restore every component, or refuse loudly",
        "corruption",
        "content",
        ("I7",),
    ),
    Invariant(
        "I10", "one-boundary", "all groups and tiers resume from one boundary", "corruption", "content"
    ),
    Invariant(
        "I11",
        "conservation",
        "a page and its frame name each other; counts match what is filed; every pin has an owner",
        "corruption",
        "conservation",
        ("I2",),
    ),
    Invariant(
        "I12",
        "claim-stable",
        "what was quoted is true when it is given and when it is used",
        "corruption",
        "content",
        ("I1", "I2", "I3", "I4"),
    ),
    Invariant(
        "I13",
        "progress",
        "if a free resource suffices for some request, some request progresses",
        "progress",
        "progress",
    ),
    Invariant(
        "I14",
        "budget",
        "background and recovery traffic together fit the link and the latency objective",
        "latency",
        "latency",
    ),
    Invariant(
        "I15",
        "no-silent-void",
        "turning one policy on may not silently void what another promises",
        "progress",
        "progress",
    ),
    Invariant(
        "I16",
        "fail-closed",
        "a failed or short transfer never yields a page that counts as valid",
        "corruption",
        "content",
    ),
    Invariant("I17", "evidence", "an action runs only on evidence that covers it", "contract", "contract"),
    Invariant(
        "I18",
        "quality-budget",
        "the irreversible losses charged to one request stay within its quality budget",
        "quality",
        "quality",
        ("I1",),
    ),
)
"""All of them, in order."""

BY_ID: dict[str, Invariant] = {invariant.id: invariant for invariant in INVARIANTS}
"""Invariant id -> invariant."""


def names() -> dict[str, str]:
    """Invariant id -> name."""
    return {invariant.id: invariant.name for invariant in INVARIANTS}
