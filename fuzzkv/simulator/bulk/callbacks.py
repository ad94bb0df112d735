"""Callbacks from the compiled search into rules in ordinary Python, through the C interface of Python.

The compiled core has only the address of a state; the rule gets the same memory as an indexable view.  What a
rule raises can't pass through compiled code: it is kept, the search is told to stop, and it is raised afterwards.
"""

from __future__ import annotations

import ctypes
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from fuzzkv.errors import UsageError
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.policy import Policy, Rule
from fuzzkv.simulator.bulk import search
from fuzzkv.simulator.bulk.core import core_texts, rule_address
from fuzzkv.simulator.linker import write_out

_Rule = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class RuleFault(UsageError):
    """A policy's rule raised while it ran; ``policy`` is its name."""

    policy = ""


def fault(policy: str, error: BaseException) -> RuleFault:
    """The error of a rule that raised (FKV037)."""
    found = RuleFault(
        code="FKV037",
        value=policy,
        reason=f"its rule fails: {type(error).__name__}: {error}",
        cure="Mend the rule; 'fuzzkv accept' tries it alone.",
    )
    found.policy = policy
    return found


def _without_arguments(fresh: Callable[[], None]) -> Rule:
    def rule(s: Any, k: int) -> None:
        fresh()

    return rule


@lru_cache(maxsize=1)
def _written() -> dict[Any, Callable[..., Any]]:
    """The functions of the contract, and each as written-out Python: a few times faster to call."""
    texts = core_texts()
    space: dict[str, Any] = {}
    exec(compile(write_out(texts.values(), trace=False), "<fuzzkv written out>", "exec"), space)
    return {function: space[name] for name, function in texts.items()}


def _bindings(policies: Sequence[Policy]) -> list[tuple[dict[str, Any], str, Any, Any]]:
    """Where free rules may find a function of the contract: (names, name, plain, written out)."""
    free = [policy for policy in policies if policy.free]
    if not free:
        return []
    rules = [policy.rule for policy in free]
    calls = [rule if inspect.isroutine(rule) else type(rule).__call__ for rule in rules]
    spaces = [getattr(call, "__globals__", {}) for call in calls]
    spaces += [vars(sys.modules[policy.owner.__module__]) for policy in free if policy.owner is not None]
    spaces += [vars(sys.modules[name]) for name in {text.__module__ for text in _written()}]
    spaces.append(OPERATIONS)
    unique = {id(space): space for space in spaces}
    return [
        (space, name, value, _written()[value])
        for space in unique.values()
        for name, value in list(space.items())
        if isinstance(value, FunctionType) and value in _written()
    ]


class Rules:
    """The rules of a policy set as a row of addresses (see ``simulator.bulk.search``).

    Keep it as long as the row is used: the callbacks live here.
    """

    def __init__(self, policies: Sequence[Policy], states: Sequence[Any], *, compiled: bool = True) -> None:
        """``states`` are all the arrays of states, row by row, that a rule may be called for; without ``compiled`` the
        row stays empty, for functions that call the rules themselves.
        """
        self.policies = tuple(policies)
        self.row: Any = np.zeros(search.RULES, dtype=np.int64)
        self._raised: tuple[str, BaseException] | None = None
        self._stopped = False
        self._kept: list[Any] = []
        self._views = {row.ctypes.data: memoryview(row) for array in states for row in array}
        self._bound = _bindings(self.policies)
        for k, policy in enumerate(self.policies if compiled else ()):
            if not policy.free:
                self.row[k] = rule_address(policy.rule)
                continue
            self.row[k] = self._callback(policy.name, policy.rule)
            if policy.fresh is not None:
                self.row[search.FRESH + k] = self._callback(policy.name, _without_arguments(policy.fresh))
                self.row[search.STATEFUL] = 1

    @contextmanager
    def running(self) -> Iterator[Any]:
        """The row, for one call of the compiled core; afterwards what a rule raised is raised.

        Meanwhile free rules find the contract's functions written out, and signals wait.
        """
        if not self._kept:
            yield self.row
            return
        with self._signals_wait():
            for space, name, _, written in self._bound:
                space[name] = written
            try:
                yield self.row
            finally:
                for space, name, plain, _ in self._bound:
                    space[name] = plain
                self._stopped = False
                self.row[search.HALT] = 0
        if self._raised is not None:
            name, error = self._raised
            self._raised = None
            if not isinstance(error, Exception):
                raise error
            raise fault(name, error) from error

    @contextmanager
    def _signals_wait(self) -> Iterator[None]:
        """A handler that raises between two calls of a rule would raise in the C interface, which drops it: so
        the search is told to stop, and the handler is called afterwards.
        """
        came: list[int] = []
        handlers: dict[int, Any] = {}

        def remember(number: int, frame: object) -> None:
            came.append(number)
            self._stop()

        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
            handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
        for number in handlers:
            signal.signal(number, remember)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if came:
            handlers[came[0]](came[0], None)
            # The call wasn't finished, whatever the handler thinks of it.
            raise KeyboardInterrupt

    def _stop(self) -> None:
        self._stopped = True
        self.row[search.HALT] = 1

    def _callback(self, name: str, rule: Callable[[Any, int], None]) -> int:
        views = self._views

        def called(address: int, k: int) -> None:
            if not self._stopped:
                try:
                    rule(views[address], k)
                except BaseException as error:  # nothing may pass through compiled code
                    self._raised = name, error
                    self._stop()

        kept = _Rule(called)
        self._kept.append(kept)
        return int(ctypes.cast(kept, ctypes.c_void_p).value or 0)
