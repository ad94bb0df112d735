"""Results of an exhaustive search as data, and the number of states that fit a bound of memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fuzzkv.core.results import FailureClass
from fuzzkv.errors import UsageError
from fuzzkv.modelcheck import nodes
from fuzzkv.semantics.schedule import Event

RESERVE = 256 << 20
"""Bytes that the interpreter and the compiled code take, apart from the store."""
LEAST = 16 << 20
"""Bytes of the smallest store that is worth a start."""
MOST_NODES = 2**31 - 2
BYTES = 16 + 4 + 1
"""Bytes of a node without the budgets used (one each): fingerprint, parent, event; its place in the hash table comes
besides.
"""

Ending = Literal["exhausted", "memory", "time", "depth", "interrupted"]


@dataclass(frozen=True)
class ShortestSchedule:
    """The shortest schedule of a class of failures."""

    failure_class: FailureClass
    events: tuple[Event, ...]


@dataclass
class Explored:
    """The result of one policy set so far: nodes ("states"), the depth that is complete, nodes in it, events tried that changed
    something, merges, merges that were looked at, schedules cut short by a failure, classes, and why it ended.

    ``states`` that were met, ``frontier`` of them at the last complete depth.  ``capacity`` is the number of states that
    fit the memory.  ``relative`` says that states were merged (see ``modelcheck.fingerprint``), not taken exactly.
    """

    ending: Ending = "exhausted"
    states: int = 1
    depth: int = 0
    frontier: int = 1
    children: int = 0
    merged: int = 0
    checked: int = 0
    failing: int = 0
    seconds: float = 0.0
    capacity: int = 0
    relative: bool = True
    acted: int = 0
    witnesses: list[ShortestSchedule] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """States a second."""
        return self.states / max(1e-9, self.seconds)


def store_size(memory: int, counters: int = nodes.U_EXTRA) -> tuple[int, int]:
    """How many nodes fit so many bytes, and the size of their hash table (a power of two, three quarters full at most).

    ``counters``: budgets whose use is kept with a node.

    Raises ``UsageError`` (FKV030) for too little memory.
    """
    if memory < RESERVE + LEAST:
        raise UsageError(
            code="FKV030",
            value=f"--memory {memory}",
            reason=f"leaves no room beside the {RESERVE >> 20}M of the interpreter",
            cure=f"Give at least {(RESERVE + LEAST) >> 20}M.",
        )
    room = memory - RESERVE
    best = (0, 0)
    bits = 16
    while 4 << bits < room:
        count = min((room - (4 << bits)) // (BYTES + counters), 3 << bits >> 2, MOST_NODES)
        best = max(best, (count, 1 << bits))
        bits += 1
    return best
