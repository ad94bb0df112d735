"""The base of a watch: methods of one object are replaced in place, so that every call goes through it.

So it keeps its class, its attributes and whoever already holds it; a call of the object to itself isn't checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuzzkv.errors import UsageError
from fuzzkv.targets.vllm.plugin.record import Report


class Watch:
    """Checks the calls of one object.  ``stop`` gives the object its own methods back.

    A subclass calls ``around`` for each method that it checks.  Raises FKV120 for an object whose methods can't be
    replaced.
    """

    returns = ""
    """The rule that a legal call returns."""

    def __init__(self, thing: Any, report: Report) -> None:
        self.thing, self.report = thing, report
        self._inside = False
        self._legal = True
        self._originals: dict[str, Any] = {}
        self._before: dict[str, Any] = {}

    def around(self, name: str, checked: Callable[..., Any]) -> None:
        """Call ``checked(call, *args)`` in the place of method ``name``; ``call`` is the object's own method."""
        original = getattr(self.thing, name, None)
        if original is None:
            return

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except Exception as error:
                # After an illegal call of the engine a failure is no fault of the object.
                if self._legal:
                    why = f"{type(error).__name__}: {error}"
                    self.report.check(self._returns(name), False, "{} raised {}", name, why[:200])
                raise

        def through(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return original(*args, **kwargs)
            self._inside, self._legal = True, True
            try:
                return checked(call, *args, **kwargs)
            finally:
                self._inside = False

        before = getattr(self.thing, "__dict__", {}).get(name)
        try:
            setattr(self.thing, name, through)
        except AttributeError as error:
            raise UsageError(
                code="FKV120",
                value=type(self.thing).__name__,
                reason=f"its method {name} can't be watched ({error})",
                cure="Let instances have a __dict__ (no __slots__ without it).",
            ) from error
        self._originals[name] = original
        self._before[name] = before

    def stop(self) -> None:
        """Watch no longer."""
        for name, before in self._before.items():
            if before is None:
                delattr(self.thing, name)
            else:
                setattr(self.thing, name, before)
        self._originals.clear()
        self._before.clear()

    def forget(self) -> None:
        """Begin anew with an object that is as new."""

    def settled(self) -> None:
        """Say that the engine is idle: nothing may be under way any more."""

    def own(self, name: str) -> Any:
        """The object's own, unwatched method."""
        return self._originals.get(name) or getattr(self.thing, name)

    def _returns(self, name: str) -> str:
        return self.returns
