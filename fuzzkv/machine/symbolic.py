"""The third reader: the same text over Z3 terms, so that a schedule may have numbers that aren't known yet.

Every cell of the state is a Python int or an integer term; what is known stays an int, so a concrete run is
a concrete run.  The functions of the text are the imported ones, with the vocabulary's names bound to the
meanings below; nothing is said a second time.

May be symbolic: the code of an event, its ``a`` and ``b``, the mask, every cell.  Must be known: the
configuration's number of slots, loop lengths, columns, invariants and primitives.  Codes, policy slots and
sessions are told apart by running each choice on its own; pages and ticks go through the text as terms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import z3

import fuzzkv.contract.apply as table
from fuzzkv.contract import vocabulary
from fuzzkv.contract.layout import COLUMNS, NR, SIZE, SIZES
from fuzzkv.contract.policy import Policy
from fuzzkv.contract.schedule import (
    ABORT,
    ACT,
    ARRIVE,
    BOUNDS,
    FADE,
    FINISH,
    GROW,
    OPS,
    PAUSE,
    QUEUE,
    STEP,
    TEXT,
    VERIFY,
    Config,
    Schedule,
)
from fuzzkv.machine.start import first_state

Number = Any
"""A Python int or an integer term."""
Truth = Any
"""A Python bool or a Boolean term."""

_SIZE_AT = {base: SIZES[name] for name, base in COLUMNS.items()}
_simple: dict[int, tuple[Any, Any]] = {}
_MOST = 200_000
_OF_SESSION = (ARRIVE, STEP, FADE, FINISH, QUEUE, TEXT, GROW, VERIFY, ABORT, PAUSE)


def _term(value: Any) -> bool:
    return isinstance(value, z3.ExprRef)


def known(value: Any) -> Any:
    """The value as an int or bool if it is a constant, else as a simplified term."""
    if not isinstance(value, z3.ExprRef):
        return value
    # The term is kept beside its result, so that its id stays its own.
    seen = _simple.get(value.get_id())
    if seen is not None:
        return seen[1]
    if len(_simple) >= _MOST:
        _simple.clear()
    term = z3.simplify(value)
    result: Any = term
    if z3.is_int_value(term):
        result = term.as_long()
    elif z3.is_true(term) or z3.is_false(term):
        result = z3.is_true(term)
    else:
        _simple[term.get_id()] = (term, term)
    _simple[value.get_id()] = (value, result)
    return result


def _same(one: Any, other: Any) -> bool:
    if _term(one) or _term(other):
        return _term(one) and _term(other) and bool(one.eq(other))
    return bool(one == other)


def ite(g: Truth, yes: Any, no: Any) -> Any:
    """``yes`` if ``g`` holds, else ``no``."""
    g = known(g)
    if not _term(g):
        return yes if g else no
    yes, no = known(yes), known(no)
    if _same(yes, no):
        return yes
    if isinstance(yes, bool) or isinstance(no, bool) or z3.is_bool(yes):
        return known(z3.If(g, _boolean(yes), _boolean(no)))
    return known(z3.If(g, yes, no))


def _boolean(value: Any) -> Any:
    return value if _term(value) else z3.BoolVal(bool(value))


def and_(*terms: Truth) -> Truth:
    """Whether all hold."""
    kept = []
    for term in map(known, terms):
        if _term(term):
            kept.append(term)
        elif not term:
            return False
    return known(z3.And(kept)) if len(kept) > 1 else kept[0] if kept else True


def or_(*terms: Truth) -> Truth:
    """Whether one holds."""
    kept = []
    for term in map(known, terms):
        if _term(term):
            kept.append(term)
        elif term:
            return True
    return known(z3.Or(kept)) if len(kept) > 1 else kept[0] if kept else False


def not_(term: Truth) -> Truth:
    """Whether it doesn't hold."""
    term = known(term)
    return z3.Not(term) if _term(term) else not term


def div(a: Number, b: int) -> Number:
    """The whole part of ``a / b``; for an ``a`` that isn't negative Z3's division is Python's."""
    a = known(a)
    return a / b if _term(a) else a // b


class SymbolicState:
    """A state whose cells are ints or terms, and what is assumed of the numbers that aren't known."""

    def __init__(self, cells: Sequence[Number]) -> None:
        self.cells: list[Number] = list(cells)
        self.assumed: list[Any] = []

    def unknown(self, name: str, low: int, high: int) -> Any:
        """A number that isn't known yet, from ``low`` to ``high``."""
        term = z3.Int(name)
        self.assumed += [term >= low, term <= high]
        return term

    def broken(self, invariant: str) -> Truth:
        """Whether an invariant (``"I1"``) is broken in this state."""
        return known(self.cells[COLUMNS["V_COUNT"] + int(invariant[1:])] > 0)

    def solve(self, goal: Truth) -> dict[str, int] | None:
        """Numbers for what isn't known that reach a goal, by name; ``None`` if there are none."""
        solver = z3.Solver()
        solver.add(*self.assumed, _boolean(goal))
        if solver.check() != z3.sat:
            return None
        model = solver.model()
        return {str(name): model[name].as_long() for name in model.decls()}

    @contextmanager
    def under(self, condition: Truth) -> Iterator[None]:
        """What is done inside happens only if the condition holds."""
        before = list(self.cells)
        yield
        self.cells = [
            old if old is new else ite(condition, new, old)
            for old, new in zip(before, self.cells, strict=True)
        ]

    def choose(self, value: Number, choices: Mapping[int, Callable[[], None]]) -> None:
        """Do what belongs to a value; if it isn't known, each choice starts from this state, and the
        results are merged."""
        value = known(value)
        if not _term(value):
            choices.get(value, lambda: None)()
            return
        before, ends = list(self.cells), []
        for choice, act in choices.items():
            self.cells = list(before)
            act()
            ends.append((value == choice, self.cells))
        self.cells = before
        for i, old in enumerate(before):
            for condition, end in ends:
                if end[i] is not old:
                    self.cells[i] = ite(condition, end[i], self.cells[i])


def _at(column: int, i: Number) -> list[tuple[Truth, int]]:
    """The cells that an index may mean, each with when it does."""
    i, size = known(i), _SIZE_AT[column]
    if not _term(i):
        if not 0 <= i < size:
            raise IndexError(f"place {i} of a column of {size}")
        return [(True, column + i)]
    places = ((known(i == place), column + place) for place in range(size))
    return [(here, cell) for here, cell in places if here is not False]


def get(s: SymbolicState, column: int, i: Number) -> Number:
    """The number at place ``i`` of a column; for an ``i`` that isn't known, a chain over the column."""
    places = _at(column, i)
    value = s.cells[places[-1][1]] if places else 0
    for here, cell in reversed(places[:-1]):
        value = ite(here, s.cells[cell], value)
    return value


def put(s: SymbolicState, column: int, i: Number, value: Number) -> None:
    """Write a number."""
    put_if(s, True, column, i, value)


def put_if(s: SymbolicState, g: Truth, column: int, i: Number, value: Number) -> None:
    """Write a number if ``g`` holds."""
    g = known(g)
    if g is False:
        return
    for here, cell in _at(column, i):
        s.cells[cell] = ite(and_(g, here), known(value), s.cells[cell])


def add_if(s: SymbolicState, g: Truth, column: int, i: Number, value: Number) -> None:
    """Add to a number if ``g`` holds."""
    g = known(g)
    if g is False:
        return
    for here, cell in _at(column, i):
        s.cells[cell] = ite(and_(g, here), known(s.cells[cell] + value), s.cells[cell])


def ignore(*_: Any) -> None:
    """``guard`` and ``skip`` are hints for speed, and nobody listens to notes here."""


_MEANING: dict[str, Any] = {
    "get": get,
    "put": put,
    "put_if": put_if,
    "add_if": add_if,
    "ite": ite,
    "and_": and_,
    "or_": or_,
    "not_": not_,
    "div": div,
    "each": range,
    "guard": ignore,
    "skip": ignore,
    "note": ignore,
}
_bound: dict[FunctionType, Callable[..., Any]] = {}


def symbolic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the text with the meanings of this reader, and so for everything that it calls."""
    assert isinstance(function, FunctionType)
    if function in _bound:
        return _bound[function]
    space = dict(function.__globals__)
    found = FunctionType(
        function.__code__, space, function.__name__, function.__defaults__, function.__closure__
    )
    _bound[function] = found
    for name in function.__code__.co_names:
        value = space.get(name)
        if name in _MEANING and value is getattr(vocabulary, name):
            space[name] = _MEANING[name]
        elif inspect.isfunction(value):
            space[name] = symbolic(value)
    return found


def apply_event(
    s: SymbolicState, policies: Sequence[Policy], op: Number, a: Number, b: Number, mask: Number
) -> None:
    """One event.  ``op``, ``a``, ``b`` and ``mask`` are ints or terms within the bounds of
    ``contract.schedule``."""

    def of_session(text: Callable[..., None]) -> None:
        s.choose(a, {r: (lambda r=r: text(s, r, b)) for r in range(NR)})  # type: ignore[misc]

    def of_policy(k: int) -> None:
        acts = known(mask >> k & 1 == 1) if isinstance(mask, int) else known(div(mask, 1 << k) % 2 == 1)
        if acts is not False:
            with s.under(acts):
                symbolic(policies[k].rule)(s, k)

    def happen(code: int) -> None:
        if code == ACT:
            s.choose(a, {k: (lambda k=k: of_policy(k)) for k in range(len(policies))})  # type: ignore[misc]
            return
        text = symbolic(getattr(table, f"apply_{OPS[code]}"))
        if code in _OF_SESSION:
            of_session(text)
        else:
            text(s, a, b)

    s.choose(op, {code: (lambda code=code: happen(code)) for code in range(len(BOUNDS))})  # type: ignore[misc]


def run_symbolic(
    schedule: Schedule, policies: Sequence[Policy], mask: int, config: Config, *, enforce: bool = False
) -> list[int]:
    """The last state of a schedule whose numbers are all known."""
    state = SymbolicState(first_state(config, policies, enforce=enforce))
    for e, (op, a, b) in enumerate(schedule.events):
        state.cells[COLUMNS["EVENT"]] = e
        apply_event(state, policies, op, a, b, mask)
    assert len(state.cells) == SIZE
    return [int(cell) for cell in state.cells]
