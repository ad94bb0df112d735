"""Counts and classes of a search as plain data that travels between processes and can be merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuzzkv.core.results import FailureClass
from fuzzkv.semantics.schedule import Event


@dataclass(frozen=True)
class FoundClass:
    """A class of failures that a search met, in its smallest failing set.

    ``events`` is its best schedule, the one with that ``number``, which breaks the invariant at event ``breaks``;
    there, ``own`` says that the violation doesn't follow from another one, ``worse`` that the page's bytes ended up
    worse than in every proper subset; ``freely`` counts only schedules that don't come out of the pool of new ones.
    """

    failure_class: FailureClass
    seen: int
    number: int
    own: bool
    worse: bool
    events: tuple[Event, ...]
    freely: int
    breaks: int

    @property
    def rank(self) -> tuple[bool, bool, int, int, tuple[Event, ...]]:
        """Orders the witnesses of one class, the best first."""
        return not self.own, not self.worse, self.breaks, len(self.events), self.events


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Sums of one search or several.

    ``drawn`` schedules, ``freely`` of them drawn without the pool; ``runs`` with control arms; ``primitives`` as
    well; ``failing`` schedules; ``freed`` capacity in quarter frames x ``ticks``; ``refused`` by clause and
    ``goals`` reached, for the drawn sets; ``reached`` abstract states; ``longest`` the most schedules that one
    worker has drawn.
    """

    drawn: int = 0
    longest: int = 0
    freely: int = 0
    runs: int = 0
    primitives: int = 0
    failing: int = 0
    freed: int = 0
    ticks: int = 0
    reached: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    goals: dict[str, int] = field(default_factory=dict)
    classes: tuple[FoundClass, ...] = ()

    @property
    def singletons(self) -> int:
        """Classes that one freely drawn schedule has shown, and no other."""
        return sum(found.freely == 1 for found in self.classes)


def _added(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def merged(tallies: Sequence[Tally]) -> Tally:
    """The sum of several searches: a union of classes, each with its best witness, in the order of their keys'
    first appearance.
    """
    classes: dict[FailureClass, FoundClass] = {}
    for tally in tallies:
        for found in tally.classes:
            old = classes.get(found.failure_class)
            if old is None:
                classes[found.failure_class] = found
                continue
            best = min(old, found, key=lambda one: one.rank)
            classes[found.failure_class] = FoundClass(
                found.failure_class,
                old.seen + found.seen,
                best.number,
                best.own,
                best.worse,
                best.events,
                old.freely + found.freely,
                best.breaks,
            )
    numbers = {
        name: sum(getattr(tally, name) for tally in tallies)
        for name in ("drawn", "freely", "runs", "primitives", "failing", "freed", "ticks")
    }
    return Tally(
        **numbers,
        longest=max((tally.longest for tally in tallies), default=0),
        reached=max((tally.reached for tally in tallies), default=0),
        refused=_added([tally.refused for tally in tallies]),
        goals=_added([tally.goals for tally in tallies]),
        classes=tuple(classes.values()),
    )
