"""The symbolic interpreter: the same semantics over terms, so that a schedule may have numbers that aren't known yet.

Every cell of the state is a Python int or a term of an algebra: Z3's integers (``simulator.symbolic.terms``, for proofs) or bits
(``simulator.symbolic.circuit``, for searches).  What is known stays an int, so a concrete run is a concrete run.  The functions of
the text are the imported ones, with the vocabulary's names bound to the meanings below, and the scope's to a window
(``simulator.symbolic.scope``); nothing is said a second time.

May be symbolic: the code of an event, its ``a`` and ``b``, the mask, every cell.  Must be known: the configuration's
number of slots, loop lengths, columns, invariants and primitives.  Codes, policy slots and sessions are told apart by
running each choice on its own; pages and ticks go through the text as terms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import fuzzkv.semantics.apply as table
from fuzzkv.semantics import vocabulary
from fuzzkv.semantics.layout import COLUMNS, SIZE
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import (
    ACT,
    BOUNDS,
    OF_SESSION,
    OPS,
    Config,
    Schedule,
)
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.circuit import Circuit
from fuzzkv.simulator.symbolic.scope import WHOLE, Window
from fuzzkv.simulator.symbolic.terms import Terms, solve

Number = Any
"""A Python int or an integer term."""
Truth = Any
"""A Python bool or a Boolean term."""


class SymbolicInterpreter:
    """The text over an algebra and within a window.

    Columns in ``left_out`` are never written: for those that only report.  ``writes`` collects when something was written,
    since it was last cleared.
    """

    def __init__(
        self, algebra: Terms | Circuit, window: Window = WHOLE, left_out: Sequence[str] = ()
    ) -> None:
        self.algebra, self.window = algebra, window
        self.writes: list[Truth] = []
        self._sizes = window.sizes()
        self._left_out = frozenset(COLUMNS[name] for name in left_out)
        self._bound: dict[Callable[..., Any], Callable[..., Any]] = {}
        self._names = window.names()
        self._meaning: dict[str, Any] = {
            "get": self.get,
            "put": self.put,
            "put_if": self.put_if,
            "add_if": self.add_if,
            "ite": algebra.ite,
            "and_": algebra.and_,
            "or_": algebra.or_,
            "not_": algebra.not_,
            "div": algebra.div,
            "each": range,
            "guard": _ignore,
            "skip": _ignore,
            "note": _ignore,
        }

    def text(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the text with the meanings of this reader, and so for everything that it calls."""
        if function in self._bound:
            return self._bound[function]
        assert isinstance(function, FunctionType)
        space = dict(function.__globals__)
        found = FunctionType(
            function.__code__, space, function.__name__, function.__defaults__, function.__closure__
        )
        self._bound[function] = found
        for name in function.__code__.co_names:
            value = space.get(name)
            if name in self._meaning and value is getattr(vocabulary, name):
                space[name] = self._meaning[name]
            elif name in self._names and value == getattr(vocabulary, name, None):
                space[name] = self._names[name]
            elif inspect.isfunction(value):
                space[name] = self.text(value)
        return found

    def read_as(self, function: Callable[..., Any], meaning: Callable[..., Any]) -> None:
        """From now on read this in the place of a function, which need not be a text."""
        self._bound[function] = meaning

    def _at(self, column: int, i: Number) -> list[tuple[Truth, int]]:
        """The cells that an index may mean, each with when it does."""
        i, size = self.algebra.known(i), self._sizes[column]
        if not self.algebra.is_term(i):
            if not 0 <= i < max(size, 1):
                raise IndexError(f"place {i} of a column of {size}")
            return [(True, column + i)] if size else []
        places = ((self.algebra.known(i == place), column + place) for place in range(size))
        return [(here, cell) for here, cell in places if here is not False]

    def get(self, s: SymbolicState, column: int, i: Number) -> Number:
        """The number at place ``i`` of a column; for an ``i`` that isn't known, a chain over the column."""
        places = self._at(column, i)
        value = s.cells[places[-1][1]] if places else 0
        for here, cell in reversed(places[:-1]):
            value = self.algebra.ite(here, s.cells[cell], value)
        return value

    def put(self, s: SymbolicState, column: int, i: Number, value: Number) -> None:
        """Write a number."""
        self.put_if(s, True, column, i, value)

    def put_if(self, s: SymbolicState, g: Truth, column: int, i: Number, value: Number) -> None:
        """Write a number if ``g`` holds."""
        g = self.algebra.known(g)
        if g is False or column in self._left_out:
            return
        self.writes.append(g)
        for here, cell in self._at(column, i):
            s.cells[cell] = self.algebra.ite(
                self.algebra.and_(g, here), self.algebra.known(value), s.cells[cell]
            )

    def add_if(self, s: SymbolicState, g: Truth, column: int, i: Number, value: Number) -> None:
        """Add to a number if ``g`` holds."""
        g = self.algebra.known(g)
        if g is False or column in self._left_out:
            return
        self.writes.append(g)
        for here, cell in self._at(column, i):
            more = self.algebra.known(s.cells[cell] + value)
            s.cells[cell] = self.algebra.ite(self.algebra.and_(g, here), more, s.cells[cell])

    def apply(
        self,
        s: SymbolicState,
        policies: Sequence[Policy],
        op: Number,
        a: Number,
        b: Number,
        mask: Number,
        codes: Sequence[int] = tuple(range(len(BOUNDS))),
    ) -> None:
        """One event.  ``op``, ``a``, ``b`` and ``mask`` are ints or terms within the bounds of
        ``semantics.schedule``; ``op`` is one of ``codes``.
        """

        def of_session(text: Callable[..., None]) -> None:
            sessions = range(self.window.requests)
            s.choose(a, {r: (lambda r=r: text(s, r, b)) for r in sessions})  # type: ignore[misc]

        def of_policy(k: int) -> None:
            rest = self.algebra.div(mask, 1 << k)
            acts = self.algebra.known(rest - self.algebra.div(rest, 2) * 2 == 1)
            if acts is not False:
                with s.under(acts):
                    self.text(policies[k].rule)(s, k)

        def happen(code: int) -> None:
            if code == ACT:
                s.choose(a, {k: (lambda k=k: of_policy(k)) for k in range(len(policies))})  # type: ignore[misc]
                return
            text = self.text(getattr(table, f"apply_{OPS[code]}"))
            if code in OF_SESSION:
                of_session(text)
            else:
                text(s, a, b)

        s.choose(op, {code: (lambda code=code: happen(code)) for code in codes})  # type: ignore[misc]


class SymbolicState:
    """A state whose cells are ints or terms of a reader's algebra."""

    def __init__(self, reader: SymbolicInterpreter, cells: Sequence[Number]) -> None:
        self.reader, self.algebra = reader, reader.algebra
        self.cells: list[Number] = list(cells)

    def broken(self, invariant: str) -> Truth:
        """Whether an invariant (``"I1"``) is broken in this state."""
        return self.algebra.known(self.cells[COLUMNS["V_COUNT"] + int(invariant[1:])] > 0)

    def solve(self, goal: Truth) -> dict[str, int] | None:
        """Numbers for what isn't known that reach a goal, by name; ``None`` if there are none.  Over integers only."""
        assert isinstance(self.algebra, Terms)
        return solve(self.algebra.always, goal)

    @contextmanager
    def under(self, condition: Truth) -> Iterator[None]:
        """What is done inside happens only if the condition holds."""
        before = list(self.cells)
        yield
        self.cells = [
            old if old is new else self.algebra.ite(condition, new, old)
            for old, new in zip(before, self.cells, strict=True)
        ]

    def choose(self, value: Number, choices: Mapping[int, Callable[[], None]]) -> None:
        """Do what belongs to a value; if it isn't known, each choice starts from this state, and the
        results are merged.
        """
        value = self.algebra.known(value)
        if not self.algebra.is_term(value):
            choices.get(value, lambda: None)()
            return
        before, ends = list(self.cells), []
        outside, wrote = self.reader.writes, []
        for choice, act in choices.items():
            here = self.algebra.known(value == choice)
            if here is False:
                continue
            self.cells, self.reader.writes = list(before), []
            act()
            ends.append((here, self.cells))
            wrote.append(self.algebra.and_(here, self.algebra.or_(*self.reader.writes)))
        self.cells, self.reader.writes = before, [*outside, *wrote]
        for i, old in enumerate(before):
            merged = old
            for condition, end in ends:
                if end[i] is not old:
                    merged = self.algebra.ite(condition, end[i], merged)
            self.cells[i] = merged


def _ignore(*_: Any) -> None:
    """``guard`` and ``skip`` are hints for speed, and nobody listens to notes here."""


def run_symbolic(
    schedule: Schedule,
    policies: Sequence[Policy],
    mask: int,
    config: Config,
    *,
    enforce: bool = False,
    reader: SymbolicInterpreter | None = None,
) -> list[int]:
    """The last state of a schedule whose numbers are all known."""
    reader = reader or SymbolicInterpreter(Terms())
    state = SymbolicState(reader, first_state(config, policies, enforce=enforce))
    for e, (op, a, b) in enumerate(schedule.events):
        state.cells[COLUMNS["EVENT"]] = e
        reader.apply(state, policies, op, a, b, mask)
    assert len(state.cells) == SIZE
    return [int(cell) for cell in state.cells]
