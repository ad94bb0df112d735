"""Writes a text of the vocabulary out as plain source, for the fast Python interpreter and for the compiled one.

Starting from some functions, everything that they call is collected; ``get``, ``ite``, the guarded writes and
so on are written out in place, names of columns and parameters become numbers, and what is left is one flat
module of plain loops and assignments.  A text that steps outside the vocabulary is refused here, with the
line and what to write instead.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import textwrap
from collections.abc import Callable, Container, Iterable
from functools import cache
from typing import Any

from fuzzkv.errors import UsageError
from fuzzkv.semantics import vocabulary
from fuzzkv.semantics.layout import COLUMNS, SIZES

_EXPRESSIONS = {"get", "ite", "and_", "or_", "not_", "div", "each"}
_STATEMENTS = {"put", "put_if", "add_if", "guard", "skip", "note"}
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
    for name in (_EXPRESSIONS | _STATEMENTS) - {"and_", "or_"}
}

Text = Callable[..., Any]

OWN_MEMORY = frozenset({"MARK", "DUE", "NOTE"})
"""Columns that a policy may write itself; everything else changes through primitives."""


@cache
def _source(function: Text) -> tuple[str, int]:
    """A function's source and its first line, read once: Python cuts it out of the file anew each time it is asked."""
    lines, first = inspect.getsourcelines(function)
    return textwrap.dedent("".join(lines)), first


def _plain(function: Text) -> ast.FunctionDef:
    tree = ast.parse(_source(function)[0]).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise _refusal(function, 0, "is not a plain function", "Write it with def.")
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:] or [ast.Pass()]
    return tree


def _refusal(function: Text, line: int, reason: str, cure: str) -> UsageError:
    where = f"{function.__module__}.{function.__qualname__}, line {line}"
    return UsageError(code="FKV036", value=where, reason=reason, cure=cure)


class _WriteOut(ast.NodeTransformer):
    """Rewrites one function's tree; ``calls`` collects the functions of the text that it calls."""

    def __init__(self, function: Text, returns: str, trace: bool, typed: bool) -> None:
        self.function, self.returns, self.trace, self.typed = function, returns, trace, typed
        self.calls: dict[str, Text] = {}

    def _value(self, name: str) -> Any:
        return self.function.__globals__.get(name)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._value(node.id)
        if (
            isinstance(node.ctx, ast.Load)
            and isinstance(value, int)
            and node.id not in self.function.__code__.co_varnames
        ):
            return ast.Constant(int(value))
        return node

    def _place(self, column: ast.expr, index: ast.expr) -> ast.Subscript:
        where: ast.expr = ast.BinOp(column, ast.Add(), index)
        if isinstance(column, ast.Constant) and isinstance(index, ast.Constant):
            where = ast.Constant(int(ast.literal_eval(column)) + int(ast.literal_eval(index)))
        return ast.Subscript(ast.Name("s", ast.Load()), where, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node = ast.Call(node.func, [self.visit(a) for a in node.args], [])
        assert isinstance(node.func, ast.Name)
        name, args = node.func.id, node.args
        if name == "get":
            return self._place(args[1], args[2])
        if name == "ite":
            return ast.IfExp(args[0], args[1], args[2])
        if name in ("and_", "or_"):
            return ast.BoolOp(ast.And() if name == "and_" else ast.Or(), args)
        if name == "not_":
            return ast.UnaryOp(ast.Not(), args[0])
        if name == "div":
            return ast.BinOp(args[0], ast.FloorDiv(), args[1])
        if name == "each":
            return ast.Call(ast.Name("range", ast.Load()), args, [])
        target = self._value(name)
        if not inspect.isfunction(target):
            raise _refusal(
                self.function,
                inspect.getsourcelines(self.function)[1] + node.func.lineno - 1,
                f"calls {name!r}, which is no function of the text",
                "Use the vocabulary's functions, or a plain function of your own module.",
            )
        written = self._in_place(target, args)
        if written is not None:
            return written
        self.calls[unique_name(target)] = target
        node.func = ast.Name(unique_name(target), ast.Load())
        if self.typed:
            node.args = [_typed(argument) for argument in args]
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        call = node.value
        if not (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _STATEMENTS
        ):
            return ast.Expr(self.visit(call))
        name = call.func.id
        args = [self.visit(a) for a in call.args]
        if name == "guard":
            truth = self.returns in ("Bool", "bool")
            stop = ast.Constant(False if truth else 0) if self.returns else None
            return ast.If(ast.UnaryOp(ast.Not(), args[0]), [ast.Return(stop)], [])
        if name == "skip":
            return ast.If(ast.UnaryOp(ast.Not(), args[0]), [ast.Continue()], [])
        if name == "note":
            if not self.trace:
                return None
            told = ast.Call(ast.Name("_tell", ast.Load()), args[2:], [])
            return ast.If(args[1], [ast.Expr(told)], [])
        if name == "put":
            return ast.Assign([self._store(args[1], args[2])], args[3])
        write: ast.stmt = ast.Assign([self._store(args[2], args[3])], args[4])
        if name == "add_if":
            write = ast.AugAssign(self._store(args[2], args[3]), ast.Add(), args[4])
        return ast.If(args[1], [write], [])

    def _in_place(self, target: Text, args: list[ast.expr]) -> ast.expr | None:
        """The call of a function that is one expression, written out where it stands; ``None`` for a longer
        one.
        """
        tree = _plain(target)
        only = tree.body[0]
        if len(tree.body) != 1 or not isinstance(only, ast.Return) or only.value is None:
            return None
        check_text(target)
        inner = _WriteOut(target, "", self.trace, self.typed)
        expression = inner.visit(only.value)
        self.calls.update(inner.calls)
        names = [argument.arg for argument in tree.args.args]
        substitute = _Substitute(dict(zip(names, args, strict=True)))
        return substitute.visit(expression)  # type: ignore[no-any-return]

    def _store(self, column: ast.expr, index: ast.expr) -> ast.Subscript:
        place = self._place(column, index)
        place.ctx = ast.Store()
        return place


class _Substitute(ast.NodeTransformer):
    """Puts the arguments of a call in the place of the parameters."""

    def __init__(self, arguments: dict[str, ast.expr]) -> None:
        self.arguments = arguments

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.arguments[node.id]) if node.id in self.arguments else node


def _typed(argument: ast.expr) -> ast.expr:
    """A number as one of its type: for a plain one Numba compiles the function that is called anew, number by number."""
    if not isinstance(argument, ast.Constant):
        return argument
    kind = "bool_" if isinstance(argument.value, bool) else "int64"
    return ast.Call(ast.Attribute(ast.Name("np", ast.Load()), kind, ast.Load()), [argument], [])


def unique_name(function: Text) -> str:
    """The name that a function of the text has in the written-out module."""
    return re.sub(r"\W", "_", f"{function.__module__}.{function.__qualname__}")


def check_text(function: Text) -> None:
    """Refuse a function that leaves the vocabulary (``UsageError`` FKV036 names the line and the cure)."""
    first = _source(function)[1]
    if function.__code__.co_freevars:
        names = ", ".join(function.__code__.co_freevars)
        raise _refusal(
            function,
            first,
            f"uses {names} of the function around it",
            "Define it in its module, and read numbers from PARAM.",
        )
    for statement in _plain(function).body:
        for node in ast.walk(statement):
            line = first + getattr(node, "lineno", statement.lineno) - 1
            if isinstance(node, ast.Call):
                if not isinstance(node.func, ast.Name) or node.keywords:
                    raise _refusal(
                        function,
                        line,
                        "calls something by attribute or keyword",
                        "Call a plain function by position.",
                    )
                takes = _ARITY.get(node.func.id, len(node.args))
                if len(node.args) != takes:
                    raise _refusal(
                        function,
                        line,
                        f"gives {node.func.id} {len(node.args)} arguments, and it takes {takes}",
                        "See fuzzkv/semantics/vocabulary.py.",
                    )
                column = _foreign_column(function, node)
                if column:
                    raise _refusal(
                        function,
                        line,
                        f"writes {column}, which belongs to the machine",
                        f"Use a primitive; a policy's own memory is {', '.join(sorted(OWN_MEMORY))}.",
                    )
            elif isinstance(node, ast.Compare) and len(node.ops) != 1:
                raise _refusal(function, line, "chains comparisons", "Join single comparisons with and_().")
            elif isinstance(node, ast.For) and not (
                isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "each"
            ):
                raise _refusal(
                    function,
                    line,
                    "loops over something else than each(n)",
                    "Loop over each(n) with a constant n.",
                )
            elif not isinstance(node, _ALLOWED):
                raise _refusal(
                    function,
                    line,
                    f"uses {type(node).__name__.lower()}, which the vocabulary doesn't have",
                    _CURES.get(type(node), "Branch with ite() or a guarded write."),
                )
            elif isinstance(node, ast.For) and not _constant_loop(function, node):
                raise _refusal(
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


def write_out(
    roots: Iterable[Text],
    *,
    trace: bool,
    prefix: str = "",
    apart: Container[str] = frozenset(),
    typed: bool = False,
) -> str:
    """Source of every function reachable from ``roots``, callees first.

    ``trace`` keeps the calls of ``note`` (as ``_tell(primitive, actor, page, detail)``); ``prefix`` is put
    before each definition, e.g. a decorator; functions whose names are in ``apart`` are written out elsewhere;
    ``typed`` gives numbers to other functions with their type (``np`` has to be there).
    Raises ``UsageError`` for a text that leaves the vocabulary.
    """
    out: dict[str, str] = {}
    owners: dict[str, Text] = {}

    def visit(function: Text) -> None:
        name = unique_name(function)
        if owners.setdefault(name, function) is not function:
            other = owners[name]
            raise _refusal(
                function,
                inspect.getsourcelines(function)[1],
                f"has the same written-out name as {other.__module__}.{other.__qualname__}",
                "Rename one of them.",
            )
        if name in out or name in apart:
            return
        check_text(function)
        tree = _plain(function)
        returns = getattr(tree.returns, "id", "") if tree.returns is not None else ""
        writer = _WriteOut(function, returns, trace, typed)
        body = [writer.visit(node) for node in tree.body]
        tree.body = [node for node in body if node is not None] or [ast.Pass()]
        tree.name, tree.returns = name, None
        for argument in tree.args.args:
            argument.annotation = None
        out[name] = ""
        for callee in writer.calls.values():
            visit(callee)
        del out[name]
        out[name] = prefix + ast.unparse(ast.fix_missing_locations(tree)) + "\n"

    for root in roots:
        visit(root)
    return "\n\n".join(out.values())


def span(roots: Iterable[Text]) -> int:
    """Where the last column ends that some function reachable from ``roots`` names, with those that every run
    has: what it is judged by comes first in the layout.
    """
    seen: set[Text] = set()
    open_ = list(roots)
    end = COLUMNS["GOAL"] + SIZES["GOAL"]
    while open_:
        function = open_.pop()
        if function in seen:
            continue
        seen.add(function)
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if name in COLUMNS and value == COLUMNS[name]:
                end = max(end, value + SIZES[name])
            elif inspect.isfunction(value) and value.__module__ != vocabulary.__name__:
                open_.append(value)
    return end
