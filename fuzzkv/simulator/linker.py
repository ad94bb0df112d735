"""Writes a text of the vocabulary out as plain source, for the fast Python interpreter and for the compiled one.

Starting from some functions, everything that they call is collected; ``get``, ``ite``, the guarded writes and
so on are written out in place, names of columns and parameters become numbers, and what is left is one flat
module of plain loops and assignments.  A text that steps outside the vocabulary is refused (``simulator.text_check``).
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

from fuzzkv.semantics import vocabulary
from fuzzkv.semantics.layout import COLUMNS, SIZES
from fuzzkv.simulator.text_check import STATEMENTS, Text, check_text, plain, refusal


class _WriteOut(ast.NodeTransformer):
    """Rewrites one function's tree; ``calls`` collects the functions of the text that it calls, ``looked`` every global name
    that was looked up, with its module's names and what it stood for.
    """

    def __init__(self, function: Text, returns: str, trace: bool, typed: bool) -> None:
        self.function, self.returns, self.trace, self.typed = function, returns, trace, typed
        self.calls: dict[str, Text] = {}
        self.looked: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = {}

    def _value(self, name: str) -> Any:
        names = self.function.__globals__
        value = names.get(name)
        self.looked[id(names), name] = (names, name, value)
        return value

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
            raise refusal(
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
            isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in STATEMENTS
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
        tree = plain(target)
        only = tree.body[0]
        if len(tree.body) != 1 or not isinstance(only, ast.Return) or only.value is None:
            return None
        check_text(target)
        inner = _WriteOut(target, "", self.trace, self.typed)
        expression = inner.visit(only.value)
        self.calls.update(inner.calls)
        self.looked.update(inner.looked)
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


@dataclass(frozen=True)
class _Written:
    """One function written out: its source, the functions that it calls, and the global names that this depends on."""

    source: str
    calls: tuple[Text, ...]
    looked: tuple[tuple[dict[str, Any], str, Any], ...]

    def stands(self) -> bool:
        """Whether every name still stands for what it stood for: a clause or a number may have been replaced since."""
        return all(names.get(name) is value for names, name, value in self.looked)


_WRITTEN: dict[tuple[Text, bool, bool], _Written] = {}
"""Every set of policies comes with the whole semantics, which takes a third of a second to write out: once a process."""


def _written(function: Text, trace: bool, typed: bool) -> _Written:
    key = (function, trace, typed)
    known = _WRITTEN.get(key)
    if known is None or not known.stands():
        known = _WRITTEN[key] = _write_one(function, trace, typed)
    return known


def _write_one(function: Text, trace: bool, typed: bool) -> _Written:
    check_text(function)
    tree = plain(function)
    returns = getattr(tree.returns, "id", "") if tree.returns is not None else ""
    writer = _WriteOut(function, returns, trace, typed)
    body = [writer.visit(node) for node in tree.body]
    tree.body = [node for node in body if node is not None] or [ast.Pass()]
    tree.name, tree.returns = unique_name(function), None
    for argument in tree.args.args:
        argument.annotation = None
    source = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return _Written(source, tuple(writer.calls.values()), tuple(writer.looked.values()))


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
            raise refusal(
                function,
                inspect.getsourcelines(function)[1],
                f"has the same written-out name as {other.__module__}.{other.__qualname__}",
                "Rename one of them.",
            )
        if name in out or name in apart:
            return
        written = _written(function, trace, typed)
        out[name] = ""
        for callee in written.calls:
            visit(callee)
        del out[name]
        out[name] = prefix + written.source

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
