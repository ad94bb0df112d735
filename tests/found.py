"""What the default set is found to break, for tests: the design's kinds, each with a schedule that shows
it."""

from __future__ import annotations

from fuzzkv.cases.casebook import label_of
from fuzzkv.cases.shrink import Goal, Shrinker
from fuzzkv.core.results import Failure
from fuzzkv.oracles.conflict import Finding
from fuzzkv.policies.labels import LABELS
from fuzzkv.semantics.schedule import Event
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.bulk.tally import FoundClass

KINDS = ("S1", "S2", "S3", "S7")
assert set(LABELS.values()) == set(KINDS)


def label(found: FoundClass) -> str:
    """The design's name of a class that a search found, or an empty string."""
    shown = found.failure_class
    failure = Failure(shown.invariant, shown.action, shown.actor)
    return label_of(shown.policies, Finding(shown, failure, worse=False, consequence=False))


def search(engine: BulkEngine, budget: int) -> dict[str, FoundClass]:
    """The design's kinds that a search of so many schedules finds, none of them a mere consequence."""
    engine.search(budget)
    return {name: found for found in engine.classes if (name := label(found))}


def schedule_of(engine: BulkEngine, found: FoundClass) -> tuple[Event, ...]:
    """The schedule that shows a class."""
    return found.events


def shrinker(engine: BulkEngine, found: FoundClass) -> Shrinker:
    """A shrinker for what the class's schedule shows."""
    first = Shrinker(engine, Goal(found.failure_class, False, True)).look(schedule_of(engine, found))
    assert first is not None
    return Shrinker(engine, Goal(found.failure_class, first.worse, first.consequence))
