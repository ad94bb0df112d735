"""Schedules that Hypothesis generates for a set with a policy in ordinary Python, whose runs are slow.

It draws by its own ways and, half of the time, what the compiled generator draws of a number; every schedule runs for every set of two
policies and more.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from hypothesis.database import ExampleDatabase

from fuzzkv.core.results import FailureClass, Outcome
from fuzzkv.oracles.conflict import findings, smallest_failing
from fuzzkv.semantics.contract.minimal import subsets
from fuzzkv.semantics.schedule import Schedule
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.bulk.tally import FoundClass, Tally
from fuzzkv.simulator.outcome import ending
from fuzzkv.strategies.covering_arrays import masks_of
from fuzzkv.strategies.generation import failures
from fuzzkv.strategies.memory import failed_before
from fuzzkv.strategies.model import model_space
from fuzzkv.strategies.ways import generated


@dataclass
class Generated:
    """What Hypothesis has drawn for ``engine``'s set, and what that came to; ``known`` are kinds that others have met.

    ``over`` says whether no more schedules are wanted; ``flaky`` is told of a kind that a second run doesn't show.
    """

    engine: BulkEngine
    known: Container[FailureClass]
    over: Callable[[], bool]
    flaky: Callable[[FailureClass], None]
    database: ExampleDatabase | None = None
    drawn: int = 0
    failing: int = 0
    runs: int = 0
    classes: dict[FailureClass, FoundClass] = field(default_factory=dict)
    _rounds: int = 0
    _new: list[FailureClass] = field(default_factory=list)
    _dismissed: set[FailureClass] = field(default_factory=set)
    _acted: int = 0

    def __post_init__(self) -> None:
        engine = self.engine
        workload = sorted({name for policy in engine.policies for name in policy.workload})
        space = model_space(engine.names, workload)
        self.name = " + ".join(engine.names)
        self._strategy = generated(space, numbered=engine.schedule)
        self._masks = masks_of(len(engine.names), engine.only)
        self._memory = failed_before(self.database, space, engine.names)

    def draw(self, count: int) -> None:
        """Draw and judge so many more schedules; the first time those too that failed in an earlier hunt, before all others."""
        memory = self._memory
        self._rounds += 1
        seed = f"{self.engine.seed} {self.name} {self._rounds}"
        for failed in failures(
            self, self._strategy, seed=seed, most=count, memory=memory, replay=self._rounds == 1
        ):
            if not failed.repeated:
                for kind in self._new:
                    self._dismissed.add(kind)
                    self.classes.pop(kind)
                    self.flaky(kind)

    def keep(self, schedule: Schedule) -> None:
        """Remember a schedule that failed in the compiled search."""
        if self._memory is not None:
            self._memory.keep(schedule)

    def tally(self) -> Tally:
        """What it has come to so far; none of it counts as drawn freely, since Hypothesis learns from what it draws."""
        return Tally(
            drawn=self.drawn, runs=self.runs, failing=self.failing, classes=tuple(self.classes.values())
        )

    def fails(self, schedule: Schedule) -> bool:
        """Run every set of a schedule."""
        self.drawn += 1
        found = self._found(schedule)
        self.failing += bool(found)
        self._new = [
            kind
            for kind in found
            if kind not in self.classes and kind not in self.known and kind not in self._dismissed
        ]
        self.classes.update({kind: found[kind] for kind in self._new})
        return bool(self._new)

    def repeats(self, schedule: Schedule) -> bool:
        """Run it again."""
        found = self._found(schedule)
        return any(kind in found for kind in self._new)

    def scores(self) -> Mapping[str, float]:
        """How many policies did something in the last run."""
        return {"policies that acted": float(self._acted.bit_count())}

    def _found(self, schedule: Schedule) -> dict[FailureClass, FoundClass]:
        """What the sets show under a schedule.  The damage afterwards, and the smaller sets, are looked at where one fails."""
        arms: dict[int, Outcome] = {}
        found: dict[FailureClass, FoundClass] = {}
        self._acted = 0
        for mask in self._masks if schedule.events else ():
            state = self.engine.final_state(schedule.events, mask)
            self.runs += 1
            whole = ending(state.tolist(), self.engine.names)
            self._acted |= whole.acted
            if not whole.failed:
                continue
            for sub in (*subsets(mask), mask):
                if sub not in arms:
                    arms[sub] = self.engine.outcome(schedule.events, sub)
                    self.runs += 1
            below = {sub: arms[sub] for sub in (*subsets(mask), mask)}
            for top in smallest_failing(below):
                for one in findings(below, top, self.engine.names):
                    kind = one.failure_class
                    found[kind] = FoundClass(
                        kind,
                        1,
                        self.drawn - 1,
                        not one.consequence,
                        one.worse,
                        schedule.events,
                        0,
                        one.failure.event,
                    )
        return found
