"""What a policy is to the machine: a name, parameters, a manifest and what it does when it may act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fuzzkv.contract.evidence import Manifest
from fuzzkv.contract.layout import NPARAM

Rule = Callable[[Any, Any], None]
"""A rule in the vocabulary: ``rule(state, slot)``."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy as data and one rule.

    ``parameters`` are integers in the order in which the rule reads them (``PARAM`` column, at most
    ``NPARAM``).  ``rule`` is written in the vocabulary: all readers have it.  ``free`` marks a rule in
    ordinary Python instead, which is called back from the search and the solver can't read; it has the same
    arguments and uses the same primitives.  If it keeps state of its own in Python, its attribute ``fresh`` (a
    function without arguments) has to clear that: it is called before every run.  ``workload`` names the events
    beyond the first eight that the policy wants drawn; they are drawn only if a policy of the set names them.
    """

    name: str
    version: str
    manifest: Manifest
    parameters: Mapping[str, int] = field(default_factory=dict)
    rule: Rule
    free: bool = False
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
