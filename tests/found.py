"""What the default set is found to break, for tests: the design's kinds, each with a schedule that shows
it."""

from __future__ import annotations

from fuzzkv.cases.casebook import label_of
from fuzzkv.cases.shrink import Goal, Shrinker
from fuzzkv.oracles.conflict import Finding, Kind
from fuzzkv.policies.labels import LABELS
from fuzzkv.semantics.schedule import Event
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.bulk.tally import FoundClass

KINDS = ("S1", "S2", "S3", "S7")
assert set(LABELS.values()) == set(KINDS)


def label(engine: BulkEngine, found: FoundClass) -> str:
    """The design's name of a class that a search found, or an empty string."""
    names = tuple(name for k, name in enumerate(engine.names) if found.mask >> k & 1)
    kind = kind_of(found)
    probe = Finding(kind, violation=None, worse=False, consequence=False)  # type: ignore[arg-type]
    return label_of(names, probe)


def kind_of(found: FoundClass) -> Kind:
    """The kind of a class."""
    return Kind(found.mask, found.invariant, found.actor, found.primitive)


def search(engine: BulkEngine, budget: int) -> dict[str, FoundClass]:
    """The design's kinds that a search of so many schedules finds, none of them a mere consequence."""
    engine.search(budget)
    return {name: found for found in engine.classes if (name := label(engine, found))}


def schedule_of(engine: BulkEngine, found: FoundClass) -> tuple[Event, ...]:
    """The schedule that shows a class."""
    return found.events


def shrinker(engine: BulkEngine, found: FoundClass) -> Shrinker:
    """A shrinker for what the class's schedule shows."""
    first = Shrinker(engine, Goal(kind_of(found), False, True)).look(schedule_of(engine, found))
    assert first is not None
    return Shrinker(engine, Goal(kind_of(found), first.worse, first.consequence))
