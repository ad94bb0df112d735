"""The registry of operations: every primitive that a policy can use, by name, and the bounds of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType

from fuzzkv.semantics.layout import (
    ACTIONS,
    ALL_PARTS,
    ANSWER,
    CURRENT_ATTENTION,
    DELETE,
    ENTRY,
    INT4,
    INT8,
    KEY_ALL,
    NH,
    NP,
    NQ,
    NR,
    NX,
    PAGES,
    PAYLOAD,
    PRIMITIVES,
    RESIDE,
    SAID,
    SCALES,
    TOKENS,
)
from fuzzkv.semantics.ops import (
    accounting,
    admission,
    evidence_checks,
    generation,
    groups,
    index,
    primitives,
    renewal,
    rewind,
    scales,
    transfers,
)

_ROOMS = (
    primitives,
    index,
    transfers,
    generation,
    groups,
    rewind,
    scales,
    admission,
    accounting,
    renewal,
    evidence_checks,
)

OPERATIONS: dict[str, FunctionType] = {
    name: getattr(room, name)
    for name in PRIMITIVES
    if name in ACTIONS | SAID
    for room in _ROOMS
    if getattr(getattr(room, name, None), "__module__", "") == room.__name__
}
"""Everything that a policy can do: the primitives by name, each ``f(state, guard, slot, ...)``."""


USUAL: Mapping[str, int] = {
    "final": 0,
    "covers": KEY_ALL,
    "parts": ALL_PARTS,
    "what": PAYLOAD + SCALES + ENTRY,
    "early": 0,
    "lease": 0,
    "own_tail": 1,
    "scheme": 0,
}
"""What an argument of a primitive is unless a policy in ordinary Python says otherwise: the careful choice."""


_ANY = 1_000_000
PLACES: Mapping[str, tuple[int, int]] = {
    "p": (0, NP - 1),
    "r": (0, NR - 1),
    "x": (0, NX - 1),
    "n": (0, PAGES),
    "queue": (0, NQ - 1),
    "tokens": (1, TOKENS),
    "precision": (INT8, INT4),
    "layout": (0, 3),
    "adapter": (0, 3),
    "scheme": (0, 3),
    "covers": (0, KEY_ALL),
    "parts": (0, ALL_PARTS),
    "what": (0, PAYLOAD + SCALES + ENTRY),
    "target": (CURRENT_ATTENTION, ANSWER),
    "use": (RESIDE, DELETE),
    "final": (0, _ANY),
    "early": (0, _ANY),
    "own_tail": (0, _ANY),
    "lease": (0, _ANY),
    "horizon": (0, _ANY),
}
"""Least and largest value of an argument of a primitive.  A rule in the vocabulary has to keep to them by itself."""
FRAMES: Mapping[str, int] = {"unpin": NH}
"""Of the primitives that take a frame: how many there are on its tier, if it isn't the device."""
