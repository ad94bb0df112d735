"""What each module of this folder says about one report or one row of the design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fuzzkv.api import Policy
from fuzzkv.semantics.schedule import Config, Event, Schedule


@dataclass(frozen=True, kw_only=True)
class Report:
    """A conflict that the field or the design knows.

    ``name`` of the report (``vllm#48412``) or the row (``S4``), ``url`` of the public report or an empty text;
    the ``invariant`` that is expected to break, and the names of others that may be reported for the same
    fault (``also``); the failing set of ``policies`` (slots in this order, names sorted), and ``repaired``: by
    the name of one policy, the twin that takes its place and with which nothing breaks.  ``trace`` is the
    shortest schedule known, ``config`` the machine.
    """

    name: str
    title: str
    url: str
    invariant: str
    policies: tuple[Policy, ...]
    repaired: Mapping[str, Policy]
    trace: tuple[Event, ...]
    also: tuple[str, ...] = ()
    config: Config = field(default_factory=Config)

    @property
    def schedule(self) -> Schedule:
        """The trace as a schedule."""
        return Schedule(tuple(policy.name for policy in self.policies), self.trace)

    @property
    def twins(self) -> tuple[Policy, ...]:
        """The repaired set."""
        return tuple(self.repaired.get(policy.name, policy) for policy in self.policies)

    @property
    def depth(self) -> int:
        """Events of the trace."""
        return len(self.trace)
