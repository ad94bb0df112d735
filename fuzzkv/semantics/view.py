"""The object view for policies in ordinary Python: the cache, its pages and sessions over the same state and operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, SupportsIndex

from fuzzkv.semantics import facts
from fuzzkv.semantics.contract.evidence import Action, Evidence, Manifest
from fuzzkv.semantics.layout import (
    ACTIONS,
    COLUMNS,
    ND,
    NH,
    NP,
    NPARAM,
    NR,
    PAGES,
    SIZES,
)
from fuzzkv.semantics.ops.registry import FRAMES, OPERATIONS, PLACES, USUAL
from fuzzkv.semantics.policy import Policy


def does(*names: str, **changes: Any) -> tuple[Action, ...]:
    """Declarations of actions by the primitives' names; ``changes`` go into each (see ``Action``).

    Unless told otherwise an action is exact, relies on the host's copy and gives nothing up.  Raises
    ``ValueError`` for a name that is no action of the contract.
    """
    unknown = [name for name in names if name not in ACTIONS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no action; there are {', '.join(sorted(ACTIONS))}")
    fields = {"reversibility": "exact", "authority_copy": "host", "recovery_p95": 0, "quality_budget": 0}
    return tuple(Action(primitive=name, **{**fields, **changes}) for name in names)


class Page:
    """One page of a session, as a policy sees it.  All numbers are read when they are asked for."""

    __slots__ = ("_k", "_s", "number")

    def __init__(self, state: Any, slot: int, number: int) -> None:
        self._s, self._k, self.number = state, slot, number

    def __index__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Page) and other.number == self.number

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"page {self.index} of session {self.session}"

    def _at(self, column: str) -> int:
        return int(self._s[COLUMNS[column] + self.number])

    @property
    def session(self) -> int:
        """Its session."""
        return self.number // PAGES

    @property
    def index(self) -> int:
        """Its place in the session, from 0."""
        return self.number % PAGES

    @property
    def newest(self) -> bool:
        """Whether it is the session's last page."""
        return self.index == int(self._s[COLUMNS["R_N"] + self.session]) - 1

    @property
    def on_device(self) -> bool:
        """Whether the device has it, completely."""
        return bool(facts.present(self._s, self.number))

    @property
    def on_host(self) -> bool:
        """Whether the host has it, completely."""
        return bool(facts.hosted(self._s, self.number))

    @property
    def in_flight(self) -> bool:
        """Whether a copy of it is in flight."""
        return bool(facts.page_in_flight(self._s, self.number))

    @property
    def full(self) -> bool:
        """Whether it is full of tokens, accepted or drafted."""
        return bool(facts.complete_page(self._s, self.number))

    @property
    def settled(self) -> bool:
        """Whether it holds accepted tokens only."""
        return bool(facts.settled(self._s, self.number))

    @property
    def to_do(self) -> bool:
        """Whether it is still to be computed, and nothing is on its way for it."""
        return bool(facts.to_do(self._s, self.number))

    @property
    def promised(self) -> bool:
        """Whether some policy's quote stands on it: it says that the exact bytes can be had."""
        return bool(facts.quoted(self._s, self.number))

    @property
    def quoted(self) -> bool:
        """Whether this policy's own quote stands on it."""
        return bool(self._s[COLUMNS["QUOTE"] + self._k * NP + self.number])

    @property
    def attention(self) -> int:
        """Attention that steps have seen on it, summed up."""
        return self._at("ATT")

    @property
    def age(self) -> int:
        """Steps of its session since it was written."""
        return self._at("LIFE")

    @property
    def unseen(self) -> int:
        """Steps of its session since one read it."""
        return self._at("LIFE") - self._at("SEEN")

    @property
    def idle(self) -> int:
        """Ticks since a step asked about it."""
        return int(self._s[COLUMNS["NOW"]]) - self._at("LAST")

    @property
    def hits(self) -> int:
        """How often a step asked about it."""
        return self._at("HITS")

    @property
    def mark(self) -> int:
        """A number that the policy may keep with it; 0 when its session opens."""
        return int(self._s[COLUMNS["MARK"] + self._k * NP + self.number])

    @mark.setter
    def mark(self, value: int) -> None:
        self._s[COLUMNS["MARK"] + self._k * NP + self.number] = int(value)


Tap = Callable[[str, Any, int, tuple[int, ...], Callable[[bool], Any]], Any]
"""``tap(primitive, state, slot, what, act)``: ``act(True)`` lets the act happen, ``act(False)`` doesn't; what the tap
returns is what the policy hears.
"""
_taps: list[Tap] = []


@contextmanager
def tapping(tap: Tap) -> Iterator[None]:
    """While this is open, each act of a policy in ordinary Python goes through ``tap``."""
    _taps.append(tap)
    try:
        yield
    finally:
        _taps.pop()


class Cache:
    """The cache as one policy sees it.

    Every primitive of the contract is a method, without state, guard and slot: ``cache.begin_store(page)``
    returns whether it ran.  A policy's memory is here and nowhere else, so that any run can be made again:
    ``page.mark`` a page, ``cache.note`` for all.
    """

    def __init__(self, state: Any, slot: int, parameters: Mapping[str, int]) -> None:
        self.state, self.slot = state, slot
        self._names = tuple(parameters)

    def __getattr__(self, name: str) -> Callable[..., bool]:
        act = OPERATIONS.get(name)
        if act is None:
            raise AttributeError(f"a policy has no {name!r}; it can do {', '.join(sorted(OPERATIONS))}")

        def acting(*arguments: SupportsIndex, **named: SupportsIndex) -> bool:
            numbers = [a.__index__() for a in arguments]
            missing = False
            for word in act.__code__.co_varnames[3 + len(numbers) : act.__code__.co_argcount]:
                missing = missing or not (word in named or word in USUAL)
                numbers.append(named.pop(word, USUAL.get(word, 0)).__index__())
            words = act.__code__.co_varnames[3 : act.__code__.co_argcount]
            if named or missing or len(numbers) != len(words):
                raise TypeError(f"{name} takes ({', '.join(words)})")

            def acts(go: bool) -> bool:
                return bool(act(self.state, go, self.slot, *numbers))

            for word, number in zip(words, numbers, strict=True):
                low, high = PLACES.get(word) or (0, FRAMES.get(name, ND) - 1)
                if not low <= number <= high:
                    raise ValueError(f"{name}: {word} is {number}, and can be {low} to {high}")
            if _taps:
                return bool(_taps[-1](name, self.state, self.slot, tuple(numbers), acts))
            return acts(True)

        return acting

    def at(self, column: str, place: int = 0) -> int:
        """The number at a place of a column of the state (``semantics.layout`` has their names).  Raises
        ``IndexError`` for a place that the column doesn't have.
        """
        if not 0 <= (i := int(place)) < SIZES[column]:
            raise IndexError(f"{column} has places 0 to {SIZES[column] - 1}, not {i}")
        return int(self.state[COLUMNS[column] + i])

    def parameter(self, name: str) -> int:
        """One of the policy's parameters."""
        return self.at("PARAM", self.slot * NPARAM + self._names.index(name))

    @property
    def now(self) -> int:
        """Virtual time, in ticks."""
        return self.at("NOW")

    @property
    def pages(self) -> Iterator[Page]:
        """The pages of all open sessions."""
        owned = COLUMNS["OWNED"]
        return (Page(self.state, self.slot, p) for p in range(NP) if self.state[owned + p] == 1)

    @property
    def sessions(self) -> Iterator[int]:
        """The open sessions."""
        return (r for r in range(NR) if self.at("R_ACTIVE", r) == 1)

    def pages_of(self, session: int) -> list[Page]:
        """The pages of one session."""
        return [page for page in self.pages if page.session == session]

    def waiting(self, session: int) -> bool:
        """Whether the session still waits for pages."""
        return bool(facts.waiting(self.state, session))

    def running(self, session: int) -> bool:
        """Whether the session's next step can run."""
        return bool(facts.running(self.state, session))

    @property
    def own_copies(self) -> int:
        """How many copies of this policy are in flight."""
        return self.at("FLYING", self.slot)

    @property
    def free_device_frames(self) -> int:
        """Free frames of the device."""
        return sum(self.at("D_PAGE", f) == -1 for f in range(ND))

    @property
    def free_host_frames(self) -> int:
        """Free frames of the host."""
        return sum(self.at("H_PAGE", f) == -1 for f in range(NH))

    @property
    def note(self) -> int:
        """A number that the policy may keep; 0 at first."""
        return self.at("NOTE", self.slot)

    @note.setter
    def note(self, value: int) -> None:
        self.state[COLUMNS["NOTE"] + self.slot] = int(value)


class Custom:
    """A policy in ordinary Python: a subclass says what it is and writes ``act``.

    ``kind``, ``actions`` (see ``does``), ``evidence``, ``source`` and ``fidelity`` make its manifest;
    ``parameters``, ``edges``, ``workload`` and ``version`` are those of ``Policy``; ``name`` is the class's own name if
    it is empty.  It keeps nothing in itself: setting an attribute
    in ``act`` raises ``AttributeError``.
    """

    name: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    actions: ClassVar[tuple[Action, ...]] = ()
    evidence: ClassVar[Evidence] = Evidence(
        target="next-access",
        horizon=1,
        confidence=900,
        provenance="not said",
        calibrated_on="not said",
    )
    source: ClassVar[str] = "own"
    fidelity: ClassVar[str] = "[R]"
    version: ClassVar[str] = "1"
    parameters: ClassVar[Mapping[str, int]] = {}
    edges: ClassVar[tuple[tuple[str, int], ...]] = ()
    workload: ClassVar[tuple[str, ...]] = ()

    def act(self, cache: Cache) -> None:
        """One act of the policy: look at the cache, do what it does."""
        raise NotImplementedError

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a policy keeps {name!r} in page.mark or cache.note, not in itself")

    @classmethod
    def as_policy(cls) -> Policy:
        """The policy that the machine runs."""
        acting = cls()
        parameters = dict(cls.parameters)

        def rule(s: Any, k: int) -> None:
            acting.act(Cache(s, k, parameters))

        return Policy(
            name=cls.name or cls.__name__,
            version=cls.version,
            parameters=parameters,
            edges=cls.edges,
            rule=rule,
            free=True,
            owner=cls,
            workload=cls.workload,
            manifest=Manifest(
                kind=cls.kind,
                actions=cls.actions,
                evidence=cls.evidence,
                source=cls.source,
                fidelity=cls.fidelity,
            ),
        )
