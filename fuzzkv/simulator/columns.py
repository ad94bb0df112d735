"""The columns that an operation reads and writes, from its written-out source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from fuzzkv.semantics.layout import COLUMNS, SIZES
from fuzzkv.simulator.linker import write_out

EVERY = frozenset(COLUMNS)
"""All columns: the answer where a text computes which column it looks at."""


def columns_of(
    roots: Iterable[Callable[..., Any]], *, apart: Iterable[str] = ()
) -> tuple[frozenset[str], frozenset[str]]:
    """The columns that the functions and all that they call read, and those that they write.

    ``apart`` names functions, as they are written out, that aren't looked into.  Adding to a number is no reading: what
    it was has no influence but on itself.  Raises ``UsageError`` (FKV036) for a text that leaves the vocabulary.
    """
    return _columns(tuple(roots), frozenset(apart))


@lru_cache(maxsize=64)
def _columns(
    roots: tuple[Callable[..., Any], ...], apart: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    reads: set[str] = set()
    writes: set[str] = set()
    for node in ast.walk(tree_of(roots, apart)):
        if isinstance(node, ast.Subscript):
            found = column_of(node.slice)
            into = reads if isinstance(node.ctx, ast.Load) else writes
            into.update(EVERY if found is None else {found})
    return frozenset(reads), frozenset(writes)


@lru_cache(maxsize=64)
def tree_of(roots: tuple[Callable[..., Any], ...], apart: frozenset[str] = frozenset()) -> ast.Module:
    """The written-out functions and all that they call, without those in ``apart``; not to be changed."""
    return ast.parse(write_out(roots, trace=False, apart=apart))


def called_by(root: Callable[..., Any]) -> frozenset[str]:
    """The names of the functions that are written out for this one, itself included."""
    return frozenset(node.name for node in tree_of((root,)).body if isinstance(node, ast.FunctionDef))


def column_of(place: ast.expr) -> str | None:
    """The column of a place in the state: a number, or a column's base and something added to it; ``None``: not known."""
    base: ast.expr = place
    exact = False
    if isinstance(place, ast.BinOp) and isinstance(place.op, ast.Add):
        base, exact = place.left, True
    if not isinstance(base, ast.Constant) or not isinstance(base.value, int):
        return None
    for name, first in COLUMNS.items():
        if base.value == first or (not exact and first <= base.value < first + SIZES[name]):
            return name
    return None
