"""Hypothesis runs a property over drawn schedules: replay of what failed before, generation, climbing for targets.

One run of Hypothesis ends at the first failure that it can repeat or can't; a hunt goes on after that, so :func:`failures`
makes run after run until the budget is over, and tells each failure in turn.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase
from hypothesis.errors import Flaky

from fuzzkv.strategies.memory import Failures
from fuzzkv.strategies.space import S

S_contra = TypeVar("S_contra", contravariant=True)
ROUND: Final = 50
"""Schedules of one run of Hypothesis; a failure ends it earlier."""
CLIMBING: Final = 4
"""Every fourth run also climbs for targets, from its middle on."""


_ALL: Final = 1_000_000_000


class Property(Protocol[S_contra]):
    """What is asked of each schedule."""

    @property
    def name(self) -> str:
        """What observations call it."""
        ...

    def fails(self, schedule: S_contra) -> bool:
        """Run a schedule; whether it fails in a way that isn't known yet."""
        ...

    def repeats(self, schedule: S_contra) -> bool:
        """Run a schedule that failed again, from a fresh start; whether it fails in the same way."""
        ...

    def scores(self) -> Mapping[str, float]:
        """What Hypothesis should make large, of the schedule that :meth:`fails` ran last."""
        ...

    def over(self) -> bool:
        """Whether no more schedules are wanted."""
        ...


@dataclass(frozen=True)
class Failed(Generic[S]):
    """A schedule that fails in a new way.  ``repeated``: it did again; else it is what Hypothesis calls flaky."""

    schedule: S
    repeated: bool


class NewFailure(Exception):
    """What a failing schedule raises in Hypothesis' test."""


class _Ended(KeyboardInterrupt):
    """Ends a run of Hypothesis at once, as an interrupt does: time is over, or something else than the schedule failed."""


@dataclass
class _Round(Generic[S]):
    """One run of Hypothesis over a property."""

    property: Property[S]
    most: int
    ran: int = 0
    failed: S | None = None
    raised: Exception | None = None
    failures: Failures[S] | None = None

    def test(self, schedule: S) -> None:
        """Hypothesis' test function."""
        try:
            broken = self._broken(schedule)
        except Exception as error:
            # An engine that can't start is no failing example.
            self.raised = error
            raise _Ended from error
        if broken:
            raise NewFailure(self.property.name)
        if self.failed is None and (self.ran >= self.most or self.property.over()):
            raise _Ended

    def _broken(self, schedule: S) -> bool:
        if self.failed is not None:
            # Only its last word is asked for, which is about this one.
            return schedule == self.failed and self.property.repeats(schedule)
        self.ran += 1
        if not self.property.fails(schedule):
            for label, score in self.property.scores().items():
                hypothesis.target(score, label=label)
            return False
        self.failed = schedule
        if self.failures is not None:
            self.failures.failing = schedule
        return True


def failures(
    property: Property[S],
    strategy: st.SearchStrategy[S],
    *,
    seed: str,
    most: int | None = None,
    memory: Failures[S] | None = None,
    replay: bool = True,
) -> Iterator[Failed[S]]:
    """The failures of a property over at most ``most`` schedules of a strategy, as they come; with ``replay`` first those
    of ``memory``, where they are saved.

    Same seed, same memory, same schedules, as far as the property says the same of each.  Raises what the property does.
    """
    left = most if most is not None else _ALL
    if memory is not None and replay:
        for choices in memory.saved():
            if property.over():
                return
            memory.offered = choices
            run = _Round(property, _ALL, failures=memory)
            yield from _made(run, memory.strategy, seed, (Phase.reuse,), memory)
            memory.offered = None
            left -= run.ran
    number = 0
    while left > 0 and not property.over():
        number += 1
        run = _Round(property, min(ROUND, left), failures=memory)
        phases = (Phase.generate,) if number % CLIMBING else (Phase.generate, Phase.target)
        yield from _made(run, strategy, f"{seed} {number}", phases, memory)
        left -= run.ran


def _made(
    run: _Round[S],
    strategy: st.SearchStrategy[S],
    seed: str,
    phases: tuple[Phase, ...],
    database: ExampleDatabase | None,
) -> Iterator[Failed[S]]:
    """Make a run; the failure that it ended with, if it did."""
    if run.failures is not None:
        run.failures.failing = None

    def test(schedule: Any) -> None:
        run.test(schedule)

    # Hypothesis makes a function of this name.
    test.__name__ = test.__qualname__ = re.sub(r"\W+", "_", run.property.name)
    made = given(strategy)(test)
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8])
    # The settings come after the seed, which would take the database away.
    made = settings(
        database=database,
        phases=phases,
        max_examples=max(1, run.most),
        deadline=None,
        derandomize=False,
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )(hypothesis.seed(number)(made))
    repeated = False
    try:
        made()
    except NewFailure:
        repeated = True
    except Flaky:
        pass
    except _Ended:
        if run.raised is not None:
            raise run.raised from None
    except AssertionError as error:
        # Hypothesis trips over an interrupt that comes while it makes ready.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    if run.failed is not None:
        yield Failed(run.failed, repeated)
