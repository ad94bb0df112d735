"""Whether rules tell device or host frames apart by their numbers, from their written-out source."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from fuzzkv.semantics.facts import (
    free_device_frame,
    free_host_frame,
    in_flight_on_device,
    in_flight_on_host,
)
from fuzzkv.semantics.ops.accounting import dequeue, enqueue, unpin
from fuzzkv.simulator.columns import column_of, tree_of
from fuzzkv.simulator.linker import unique_name

_POINTERS = frozenset({"DEV", "HOST", "X_FRAME"})
"""Columns whose numbers are frames."""
_TAKE_FRAMES = {unique_name(f) for f in (dequeue, enqueue, unpin, in_flight_on_device, in_flight_on_host)}
_GIVE_FRAMES = {unique_name(f) for f in (free_device_frame, free_host_frame)}


def frames_by_name(rule: Callable[..., Any], apart: frozenset[str]) -> bool:
    """Whether a rule may tell two frames apart otherwise than by the pages that they hold.

    It can't if it looks at a frame only through a page's ``DEV`` or ``HOST`` and neither keeps, counts nor orders what
    it finds there; frame 0 may be told from the others.  ``apart`` names the functions of the contract.
    """
    body = tree_of((rule,), apart).body
    return any(_Names(node).by_name for node in body if isinstance(node, ast.FunctionDef))


class _Names(ast.NodeVisitor):
    """Looks through one function; ``by_name`` is set by the first use of a frame that isn't by its page."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.by_name = False
        self.values: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for name, value in _pairs(node.targets[0], node.value):
                    self.values.setdefault(name, []).append(value)
        self.visit(function)

    def carries(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a value is, or is computed from, the number of a frame."""
        if isinstance(node, ast.Subscript):
            return column_of(node.slice) in _POINTERS
        if isinstance(node, ast.IfExp):
            return self.carries(node.body, seen) or self.carries(node.orelse, seen)
        if isinstance(node, ast.BinOp):
            return self.carries(node.left, seen) or self.carries(node.right, seen)
        if isinstance(node, ast.UnaryOp):
            return self.carries(node.operand, seen)
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id in _GIVE_FRAMES
        if isinstance(node, ast.Name) and node.id not in seen:
            return any(self.carries(value, seen | {node.id}) for value in self.values.get(node.id, ()))
        return False

    def of_page(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether an index is a page's frame, or frame 0 in its place."""
        if isinstance(node, ast.Subscript):
            return column_of(node.slice) in _POINTERS
        if isinstance(node, ast.IfExp):
            return self.of_page(node.body, seen) and self.of_page(node.orelse, seen)
        if isinstance(node, ast.Name):
            values = self.values.get(node.id, [])
            return node.id in seen or (
                values != [] and all(self.of_page(value, seen | {node.id}) for value in values)
            )
        return _is_no_frame(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        column = column_of(node.slice) or "J_SRC"
        if column in ("J_SRC", "J_DST"):
            self.by_name = True
        if column.startswith(("D_", "H_")):
            index = node.slice.right if isinstance(node.slice, ast.BinOp) else ast.Constant(0)
            self.by_name |= not self.of_page(index)
            self.visit(index)
            return
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Subscript):
            self.by_name |= self.carries(node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.by_name |= self.carries(node.value)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        one, other = node.left, node.comparators[0]
        equal = isinstance(node.ops[0], (ast.Eq, ast.NotEq))
        for this, that in ((one, other), (other, one)):
            if self.carries(this) and not _is_no_frame(that):
                self.by_name |= not (equal and self.carries(that))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.by_name |= self.carries(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.by_name |= isinstance(node.func, ast.Name) and node.func.id in _TAKE_FRAMES
        self.generic_visit(node)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    """The names that an assignment binds, each with its value."""
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [pair for t, v in zip(target.elts, value.elts, strict=True) for pair in _pairs(t, v)]
    return []


def _is_no_frame(node: ast.expr) -> bool:
    """Whether this is -1 or 0, which no renaming changes."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant) and node.operand.value == 1
    return isinstance(node, ast.Constant) and node.value == 0
