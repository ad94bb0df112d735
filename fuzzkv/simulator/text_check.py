"""What a text of the vocabulary may hold; one that steps outside is refused, with the line and what to write instead."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from typing import Any

from fuzzkv.errors import UsageError
from fuzzkv.semantics import vocabulary

_EXPRESSIONS = {"get", "ite", "and_", "or_", "not_", "div", "each"}
STATEMENTS = {"put", "put_if", "add_if", "guard", "skip", "note"}
_ALLOWED = (
    ast.Assign,
    ast.Expr,
    ast.For,
    ast.Return,
    ast.Name,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Call,
    ast.Tuple,
    ast.Load,
    ast.Store,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.USub,
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
)

_CURES = {
    ast.BoolOp: "Join with and_() or or_().",
    ast.FloorDiv: "Divide by a constant with div().",
    ast.Subscript: "Read with get() and write with put().",
    ast.While: "Loop over each(n) with a constant n.",
    ast.AugAssign: "Assign anew, or write with add_if().",
}

_ARITY = {
    name: len(inspect.signature(getattr(vocabulary, name)).parameters)
    for name in (_EXPRESSIONS | STATEMENTS) - {"and_", "or_"}
}

Text = Callable[..., Any]

OWN_MEMORY = frozenset({"MARK", "DUE", "NOTE"})
"""Columns that a policy may write itself; everything else changes through primitives."""


@cache
def _source(function: Text) -> tuple[str, int]:
    """A function's source and its first line, read once: Python cuts it out of the file anew each time it is asked."""
    lines, first = inspect.getsourcelines(function)
    return textwrap.dedent("".join(lines)), first


def plain(function: Text) -> ast.FunctionDef:
    """A function's tree without its docstring, a new one each time: who asks for it rewrites it."""
    tree = ast.parse(_source(function)[0]).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise refusal(function, 0, "is not a plain function", "Write it with def.")
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:] or [ast.Pass()]
    return tree


def refusal(function: Text, line: int, reason: str, cure: str) -> UsageError:
    """The error of a text that leaves the vocabulary."""
    where = f"{function.__module__}.{function.__qualname__}, line {line}"
    return UsageError(code="FKV036", value=where, reason=reason, cure=cure)


def check_text(function: Text) -> None:
    """Refuse a function that leaves the vocabulary (``UsageError`` FKV036 names the line and the cure)."""
    first = _source(function)[1]
    if function.__code__.co_freevars:
        names = ", ".join(function.__code__.co_freevars)
        raise refusal(
            function,
            first,
            f"uses {names} of the function around it",
            "Define it in its module, and read numbers from PARAM.",
        )
    for statement in plain(function).body:
        for node in ast.walk(statement):
            line = first + getattr(node, "lineno", statement.lineno) - 1
            if isinstance(node, ast.Call):
                if not isinstance(node.func, ast.Name) or node.keywords:
                    raise refusal(
                        function,
                        line,
                        "calls something by attribute or keyword",
                        "Call a plain function by position.",
                    )
                takes = _ARITY.get(node.func.id, len(node.args))
                if len(node.args) != takes:
                    raise refusal(
                        function,
                        line,
                        f"gives {node.func.id} {len(node.args)} arguments, and it takes {takes}",
                        "See fuzzkv/semantics/vocabulary.py.",
                    )
                column = _foreign_column(function, node)
                if column:
                    raise refusal(
                        function,
                        line,
                        f"writes {column}, which belongs to the machine",
                        f"Use a primitive; a policy's own memory is {', '.join(sorted(OWN_MEMORY))}.",
                    )
            elif isinstance(node, ast.Compare) and len(node.ops) != 1:
                raise refusal(function, line, "chains comparisons", "Join single comparisons with and_().")
            elif isinstance(node, ast.For) and not (
                isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "each"
            ):
                raise refusal(
                    function,
                    line,
                    "loops over something else than each(n)",
                    "Loop over each(n) with a constant n.",
                )
            elif not isinstance(node, _ALLOWED):
                raise refusal(
                    function,
                    line,
                    f"uses {type(node).__name__.lower()}, which the vocabulary doesn't have",
                    _CURES.get(type(node), "Branch with ite() or a guarded write."),
                )
            elif isinstance(node, ast.For) and not _constant_loop(function, node):
                raise refusal(
                    function,
                    line,
                    "loops over a number that isn't constant",
                    "Loop over each(n) with a constant n.",
                )


def _foreign_column(function: Text, call: ast.Call) -> str:
    """The column that a policy's text writes to though it isn't its own memory, or an empty string."""
    name = getattr(call.func, "id", "")
    if name not in ("put", "put_if", "add_if") or function.__module__.startswith("fuzzkv.semantics."):
        return ""
    column = call.args[1 if name == "put" else 2]
    written = getattr(column, "id", ast.unparse(column))
    return "" if written in OWN_MEMORY else written


def _constant_loop(function: Text, node: ast.For) -> bool:
    assert isinstance(node.iter, ast.Call)
    if len(node.iter.args) != 1:
        return False
    bound = node.iter.args[0]
    if isinstance(bound, ast.Name):
        local = bound.id in function.__code__.co_varnames
        return not local and isinstance(function.__globals__.get(bound.id), int)
    return isinstance(bound, ast.Constant) and isinstance(bound.value, int)
