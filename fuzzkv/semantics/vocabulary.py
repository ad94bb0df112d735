"""The small vocabulary in which the semantics, the contract and rule policies are written.

A text in this vocabulary is ordinary Python with three restrictions, which ``simulator.text_check`` checks: it
branches only through ``ite``, ``and_``, ``or_`` and the guarded writes; it loops only over ``each(n)`` with a
constant ``n``; it touches the state only through ``get`` and the writes.  Because of them one text has four
uses: imported as it is, it is the plain Python interpreter; with the calls written out, it is the fast Python
reader and, under numba, the compiled one; executed with the terms of ``simulator.symbolic.interpreter`` it is the solver's
relation.

``guard(g)`` says that nothing below it changes anything unless ``g`` holds, so that a reader may stop there;
``skip(g)`` says the same of one round of a loop.  They are hints for speed and never a part of the meaning:
the plain interpreter and the solver ignore them, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fuzzkv.semantics.layout import constants

Int = Any
Bool = Any
State = Any
# Numbers of things: plain integers that only the stub (``vocabulary.pyi``) tells apart, for type checkers.
SessionId = PageId = PolicyId = DeviceFrame = HostFrame = CopyId = EntryId = QueueId = Any
InvariantId = PrimitiveId = ClauseId = GoalId = AnyId = AnyNumber = PageColumn = Any

__all__ = [
    "AnyId",
    "AnyNumber",
    "Bool",
    "ClauseId",
    "CopyId",
    "DeviceFrame",
    "EntryId",
    "GoalId",
    "HostFrame",
    "Int",
    "InvariantId",
    "PageColumn",
    "PageId",
    "PolicyId",
    "PrimitiveId",
    "QueueId",
    "SessionId",
    "State",
    "add_if",
    "and_",
    "div",
    "each",
    "get",
    "guard",
    "ite",
    "not_",
    "note",
    "or_",
    "put",
    "put_if",
    "skip",
    *constants(),
]

globals().update(constants())

_listener: list[Callable[[int, int, int, int], None]] = []


def get(s: State, column: int, i: Int) -> Int:
    """The number at place ``i`` of a column."""
    return s[column + i]


def put(s: State, column: int, i: Int, value: Int) -> None:
    """Write a number."""
    s[column + i] = value


def put_if(s: State, g: Bool, column: int, i: Int, value: Int) -> None:
    """Write a number if ``g`` holds."""
    if g:
        s[column + i] = value


def add_if(s: State, g: Bool, column: int, i: Int, value: Int) -> None:
    """Add to a number if ``g`` holds."""
    if g:
        s[column + i] += value


def ite(g: Bool, yes: Int, no: Int) -> Int:
    """``yes`` if ``g`` holds, else ``no``."""
    return yes if g else no


def and_(*terms: Bool) -> Bool:
    """Whether all hold."""
    return all(terms)


def or_(*terms: Bool) -> Bool:
    """Whether one holds."""
    return any(terms)


def not_(term: Bool) -> Bool:
    """Whether it doesn't hold."""
    return not term


def div(a: Int, b: int) -> Int:
    """The whole part of ``a / b`` for a constant ``b`` and an ``a`` that isn't negative."""
    return a // b


def each(n: int) -> range:
    """The places 0 to n - 1 of a column."""
    return range(n)


def guard(g: Bool) -> None:
    """Below this line nothing changes unless ``g`` holds (a hint for speed)."""


def skip(g: Bool) -> None:
    """In the rest of this round of the loop nothing changes unless ``g`` holds (a hint for speed)."""


@contextmanager
def listening(listener: Callable[[int, int, int, int], None]) -> Iterator[None]:
    """While this is open, ``listener(primitive, actor, page, detail)`` hears every note."""
    _listener.append(listener)
    try:
        yield
    finally:
        _listener.pop()


def note(s: State, g: Bool, primitive: int, actor: Int, page: Int, detail: Int) -> None:
    """Tell the listener, if there is one, that a primitive ran; this is how histories are written."""
    if g and _listener:
        _listener[-1](primitive, actor, page, detail)
