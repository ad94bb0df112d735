"""Runs a schedule and keeps, for each primitive that ran, which numbers of the state it read and which it wrote.

A number that was read names the primitive that wrote it last: that is a dependency of the run, taken from the semantics
as they ran and stated nowhere else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzzkv.semantics.layout import COLUMNS, NINV, NP, PRIMITIVES, SIZES
from fuzzkv.semantics.ops.primitives import complete
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.ops.workload import read, serve
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, OPS, Config, Schedule
from fuzzkv.semantics.view import tapping
from fuzzkv.semantics.vocabulary import listening
from fuzzkv.simulator.history import Record
from fuzzkv.simulator.interpreters import begin, fresh_module
from fuzzkv.simulator.linker import unique_name
from fuzzkv.simulator.start import first_state

INNER = (complete, read, serve)
"""What the workload does in parts: each part's reads and writes are its own."""


@dataclass(frozen=True)
class Access:
    """One number that a node read: its column and place, its value, and the node that wrote it (-1: it was so at first)."""

    column: str
    place: int
    value: int
    writer: int


@dataclass(frozen=True)
class Node:
    """One primitive that ran, or an event that changed something and told none (``told`` is false).

    ``reads`` are of what others wrote, ``looked`` what its policy read in the same event to decide what to do; ``writes`` has what was
    there and what is there now, by column and place; ``frames`` the device and the host frame of every page before it
    and after it (-1: none); ``broke`` the invariants that it was the first to break; ``began`` how many nodes had run when it
    began (copies end while a step waits); ``within`` the later node of the same
    act that it is a part of (-1: none).
    """

    record: Record
    told: bool
    reads: tuple[Access, ...]
    looked: tuple[Access, ...]
    writes: dict[tuple[str, int], tuple[int, int]]
    frames: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    broke: frozenset[str]
    began: int = 0
    within: int = -1


@dataclass
class _Part:
    """A stretch of a run that comes to belong to one node: its own, or that of the part around it."""

    around: _Part | None
    before: list[tuple[int, int]]
    began: int
    reads: dict[tuple[int, int], tuple[int, _Part | None]] = field(default_factory=dict)
    writes: dict[int, tuple[int, int]] = field(default_factory=dict)
    looked: dict[tuple[int, int], tuple[int, _Part | None]] = field(default_factory=dict)
    broke: set[str] = field(default_factory=set)
    within: _Part | None = None
    record: Record | None = None
    told: bool = True
    after: list[tuple[int, int]] = field(default_factory=list)
    into: _Part | None = None

    @property
    def home(self) -> _Part:
        """The part that it has been counted to."""
        return self.into.home if self.into is not None else self


class _TracedState(list[int]):
    """A state that writes down who reads and writes it."""

    def __init__(self, state: Sequence[int]) -> None:
        super().__init__(state)
        self.part: _Part | None = None
        self.writer: dict[int, _Part] = {}

    def __getitem__(self, i: Any) -> Any:
        value = super().__getitem__(i)
        if self.part is not None and type(i) is int:
            writer = self.writer.get(i)
            self.part.reads.setdefault((i, id(writer)), (value, writer))
        return value

    def __setitem__(self, i: Any, value: Any) -> None:
        part = self.part
        if part is not None and type(i) is int:
            old = super().__getitem__(i)
            part.writes[i] = (part.writes.get(i, (old, 0))[0], value)
            self.writer[i] = part
        super().__setitem__(i, value)

    def placed(self) -> list[tuple[int, int]]:
        """The device and the host frame of every page, unseen."""
        dev, host = COLUMNS["DEV"], COLUMNS["HOST"]
        device, on_host = (
            super().__getitem__(slice(dev, dev + NP)),
            super().__getitem__(slice(host, host + NP)),
        )
        return list(zip(device, on_host, strict=True))


class _Trace:
    """Cuts a run into parts as it goes on."""

    def __init__(self, state: _TracedState, names: Sequence[str]) -> None:
        self.state, self.names = state, names
        self.parts: list[_Part] = []
        self.open: list[tuple[_Part, list[_Part]]] = []

    def begin(self) -> None:
        """A stretch begins within the one that is open."""
        around = self.open[-1][0] if self.open else None
        part = _Part(around, self.state.placed(), len(self.parts))
        self.open.append((part, []))
        self.state.part = part

    def tell(self, primitive: int, actor: int, page: int, detail: int) -> None:
        """A primitive ran: what was read and written since the last one in this stretch is its own."""
        part, told = self.open.pop()
        now, event = COLUMNS["NOW"], COLUMNS["EVENT"]
        at, e = list.__getitem__(self.state, now), list.__getitem__(self.state, event)
        name = None if actor < 0 else self.names[actor]
        part.record = Record(e, at, name, PRIMITIVES[primitive], page, detail)
        part.after = self.state.placed()
        self.parts.append(part)
        rest = _Part(part.around, part.after, len(self.parts))
        self.open.append((rest, [*told, part]))
        self.state.part = rest

    def end(self) -> list[_Part]:
        """The stretch ends: what comes after its last primitive is that one's; without one, it is the surroundings'.

        Returns the parts in it that told something.
        """
        rest, told = self.open.pop()
        home = told[-1] if told else rest.around
        if home is not None:
            _count(rest, home)
            home.after = self.state.placed() if told else home.after
        if self.open:
            self.open[-1][1].extend(told)
            self.state.part = self.open[-1][0]
        else:
            self.state.part = None
        return told

    def one_act(self, told: Sequence[_Part]) -> None:
        """These are parts of one act of a policy."""
        for part in told[:-1]:
            part.within = told[-1]

    def event(self, e: int, op: str, actor: str | None) -> None:
        """The event's stretch ends; if it told nothing but changed something, it is a node of its own."""
        part, told = self.open[-1]
        if told:
            if actor is not None:
                # What a policy looks at beside its acts decides which of them it takes.
                for one in told:
                    one.looked = dict(part.reads)
                part.reads.clear()
            self.end()
            return
        self.open.clear()
        self.state.part = None
        if not _UNSEEN.issuperset(part.writes):
            part.record = Record(e, list.__getitem__(self.state, COLUMNS["NOW"]), actor, op, -1, 0)
            part.told, part.after = False, self.state.placed()
            self.parts.append(part)


def _count(rest: _Part, home: _Part) -> None:
    """What one part read and wrote is another's."""
    rest.into = home
    for key, found in rest.reads.items():
        home.reads.setdefault(key, found)
    for i, (old, new) in rest.writes.items():
        home.writes[i] = (home.writes.get(i, (old, 0))[0], new)


_FIRST = sorted(COLUMNS.values())
_NAME = {base: name for name, base in COLUMNS.items()}
_TALLIES = {
    "EVENT",
    "PRIMS",
    "ACTED",
    "GOAL",
    "REFUSED",
    "STEPS",
    "LAT_MAX",
    "LAT_SUM",
    "FREED",
    "REMOTE",
    "DEMAND",
}
_TALLIES |= {name for name in COLUMNS if name.startswith("V_")}
_UNSEEN = frozenset(COLUMNS[name] + i for name in _TALLIES for i in range(SIZES[name]))
"""What a run is judged by: it has no influence on the run."""


def _cell(i: int) -> tuple[str, int]:
    base = _FIRST[bisect_right(_FIRST, i) - 1]
    return _NAME[base], i - base


def trace(schedule: Schedule, policies: Sequence[Policy], mask: int, config: Config) -> tuple[Node, ...]:
    """The nodes of a run of the policies in ``mask``, in the order in which they ran; their records are those of
    ``run_history``, with the events that tell nothing among them.
    """
    state = _TracedState(first_state(config, policies))
    run = _Trace(state, schedule.policies)
    space = fresh_module(tuple((policy.rule, policy.free) for policy in policies), True)
    space["_tell"] = run.tell

    def inner(text: Callable[..., Any]) -> Callable[..., Any]:
        def call(s: Any, g: Any, *what: Any) -> Any:
            if not g:
                return text(s, g, *what)
            run.begin()
            result = text(s, g, *what)
            run.end()
            return result

        return call

    def act(text: Callable[..., Any]) -> Callable[..., Any]:
        def call(s: Any, g: Any, k: int, *what: Any) -> Any:
            return acted(lambda: text(s, g, k, *what)) if g and k >= 0 else text(s, g, k, *what)

        return call

    def acted(go: Callable[[], Any]) -> Any:
        run.begin()
        result = go()
        run.one_act(run.end())
        return result

    for texts, wrap in ((INNER, inner), (OPERATIONS.values(), act)):
        for text in texts:
            name = unique_name(text)
            if name in space:
                space[name] = wrap(space[name])
    begin(policies, mask)
    with listening(run.tell), tapping(lambda name, s, k, what, go: acted(lambda: go(True))):
        for e, (op, a, b) in enumerate(schedule.events):
            list.__setitem__(state, COLUMNS["EVENT"], e)
            if op == ACT and not mask >> a & 1:
                continue
            run.begin()
            space["apply"](state, op, a, b, mask)
            run.event(e, OPS[op], schedule.policies[a] if op == ACT else None)
    return _nodes(run.parts)


def _nodes(parts: Sequence[_Part]) -> tuple[Node, ...]:
    number = {id(part): i for i, part in enumerate(parts)}
    counts = {f"I{i}": COLUMNS["V_COUNT"] + i for i in range(1, NINV)}
    seen: set[str] = set()
    nodes = []

    def accesses(reads: dict[tuple[int, int], tuple[int, _Part | None]], own: int) -> tuple[Access, ...]:
        found = []
        for (i, _), (value, writer) in reads.items():
            who = -1 if writer is None else number.get(id(writer.home), -1)
            if who < own:
                found.append(Access(*_cell(i), value, who))
        return tuple(found)

    for n, part in enumerate(parts):
        assert part.record is not None
        broke = {name for name, at in counts.items() if at in part.writes} - seen
        seen |= broke
        nodes.append(
            Node(
                record=part.record,
                told=part.told,
                reads=accesses(part.reads, n),
                looked=accesses(part.looked, n),
                writes={_cell(i): pair for i, pair in part.writes.items() if i not in _UNSEEN},
                frames=tuple(zip(part.before, part.after, strict=True)),
                broke=frozenset(broke),
                began=part.began,
                within=-1 if part.within is None else number[id(part.within)],
            )
        )
    return tuple(nodes)
