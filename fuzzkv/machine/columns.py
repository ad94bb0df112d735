"""Which columns a text reads and which it writes, from its written-out source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable
from typing import Any

from fuzzkv.contract.layout import COLUMNS, SIZES
from fuzzkv.machine.linker import write_out

EVERY = frozenset(COLUMNS)
"""All columns: the answer where a text computes which column it looks at."""


def columns_of(
    roots: Iterable[Callable[..., Any]], *, apart: Container[str] = frozenset()
) -> tuple[frozenset[str], frozenset[str]]:
    """The columns that the functions and all that they call read, and those that they write.

    ``apart`` names functions, as they are written out, that aren't looked into.  Adding to a number is no reading: what
    it was has no influence but on itself.  Raises ``UsageError`` (FKV036) for a text that leaves the vocabulary.
    """
    reads: set[str] = set()
    writes: set[str] = set()
    tree = ast.parse(write_out(roots, trace=False, apart=apart))
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            found = column_of(node.slice)
            into = reads if isinstance(node.ctx, ast.Load) else writes
            into.update(EVERY if found is None else {found})
    return frozenset(reads), frozenset(writes)


def called_by(roots: Iterable[Callable[..., Any]]) -> frozenset[str]:
    """The names of the functions that are written out for these, themselves included."""
    tree = ast.parse(write_out(roots, trace=False))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


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
