"""Coverage of a hunt on engines: abstract states of page events.

A device block, a page's key and a host page each remember the last two things that happened to them; an abstract state is
an event together with that, and with how many stores and loads are in flight (0, 1, 2 or more).  Numbers of blocks and
requests are left out, so the states are few, and new ones mean that pages met something new.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fuzzkv.targets.vllm.history import LiveHistory, Row

State = tuple[str, ...]
_KEYED = frozenset({"offer", "drop", "ready", "lost", "claim", "release"})
_BLOCKED = frozenset({"alloc", "hit", "free", "evict"})
_LONGEST = 2


@dataclass
class _Memory:
    past: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    jobs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    flying: dict[str, int] = field(default_factory=lambda: {"store": 0, "load": 0})

    def meets(self, what: str, thing: tuple[str, int]) -> State:
        before = self.past.get(thing, ())
        self.past[thing] = (*before, what)[-_LONGEST:]
        flights = (str(min(self.flying["store"], 2)), str(min(self.flying["load"], 2)))
        return (thing[0], *before, what, *flights)


def states(history: LiveHistory) -> frozenset[State]:
    """The abstract states that a run went through."""
    memory = _Memory()
    return frozenset(state for row in history.log for state in _of(row, memory))


def _of(row: Row, memory: _Memory) -> Iterator[State]:
    what, numbers = str(row[0]), [int(number) for number in row[1:]]
    way, ending = what[:-1], what[-1:]
    if way in memory.flying and ending == "+":
        pairs = numbers[1:]
        memory.flying[way] += 1
        memory.jobs[numbers[0]] = tuple(pairs[0::2])
        yield from (memory.meets(what, ("block", number)) for number in pairs[0::2])
        yield from (memory.meets(what, ("host", number)) for number in pairs[1::2])
    elif way in memory.flying:
        for number in memory.jobs.get(numbers[0] if numbers else -1, ()):
            yield memory.meets(what, ("block", number))
        if ending == "=":
            memory.flying[way] = max(0, memory.flying[way] - 1)
    elif what in _KEYED:
        keys = numbers if what in ("drop", "ready", "lost") else numbers[1:]
        yield from (memory.meets(what, ("key", number)) for number in keys)
    elif what == "publish":
        yield memory.meets(what, ("block", numbers[0]))
        yield memory.meets(what, ("key", numbers[1]))
    elif what in _BLOCKED:
        yield from (memory.meets(what, ("block", n)) for n in (numbers if what == "evict" else numbers[1:]))
    elif what != "step":
        yield memory.meets(what, ("request", numbers[0] if numbers else -1))
