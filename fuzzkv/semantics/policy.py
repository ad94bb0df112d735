"""A policy as data: a name, parameters, a manifest and the rule that runs when it may act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fuzzkv.semantics.contract.evidence import Manifest
from fuzzkv.semantics.layout import NPARAM

Rule = Callable[[Any, Any], None]
"""A rule in the vocabulary: ``rule(state, slot)``."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy as data and one rule.

    ``parameters`` are integers in the order in which the rule reads them (``PARAM`` column, at most
    ``NPARAM``); ``edges`` names more aggressive values of some of them, which an acceptance tries as well.
    ``rule`` is written in the vocabulary: all interpreters have it.  ``free`` marks a rule in
    ordinary Python instead: it has the same arguments and uses the same primitives, but the solver can't read
    it and it is slower.  A free rule that keeps state of its own in Python gives ``fresh``, which is called before
    every run of an arm; ``owner`` is the class whose ``act`` a free rule runs, if it runs one.  ``workload`` names
    events beyond the usual eight that the policy lives on (``schedule.EXTRA``): they are drawn for a set only if
    one of its policies asks for them.
    """

    name: str
    version: str
    manifest: Manifest
    parameters: Mapping[str, int] = field(default_factory=dict)
    edges: tuple[tuple[str, int], ...] = ()
    rule: Rule
    free: bool = False
    fresh: Callable[[], None] | None = None
    owner: type | None = None
    workload: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.parameters) > NPARAM:
            raise ValueError(
                f"policy {self.name!r} has {len(self.parameters)} parameters, the machine holds {NPARAM}"
            )

    def tuned(self, **parameters: int) -> Policy:
        """The same policy with some parameters changed.  Raises ``KeyError`` for one it doesn't have."""
        for name in parameters:
            if name not in self.parameters:
                raise KeyError(name)
        return replace(self, parameters={**self.parameters, **parameters})
