"""A target: where schedules run.  What a hunt, a shrink, a replay or a gate asks of one, and what it answers with.

A new target is a schedule space (:mod:`fuzzkv.strategies.space`), its policies, and a session that runs a schedule with some
of the policies on and says what came of it, in the one language for results (:mod:`fuzzkv.core.results`).  Everything
else has a usual form in :class:`Language`, which a target may do better: ways of drawing, of shrinking, of seeing what is new.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, Generic, Protocol, TypeVar

from fuzzkv.core.results import Failure, FailureClass, Outcome
from fuzzkv.errors import UsageError
from fuzzkv.strategies.passes import Pass, usual_passes
from fuzzkv.strategies.portfolio import Portfolio
from fuzzkv.strategies.space import S, ScheduleSpace

COMMANDS: Final = ("hunt", "replay", "explain", "shrink", "gate", "certify", "confirm")
"""What can be asked of a case or of a target."""
WHY_NOT: Final[Mapping[str, str]] = {
    "certify": "a certificate speaks of every schedule of the model, and an engine has no text that a solver could read",
    "confirm": "it was found on an engine, so there is nothing left to confirm",
}
"""Why some targets can't do what others can, in a sentence."""


class TargetPolicy(Protocol):
    """A policy of a target."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def version(self) -> str:
        """Its version, which cases carry."""
        ...


P = TypeVar("P", bound=TargetPolicy)


@dataclass(frozen=True)
class Arm(Generic[P]):
    """One subset of a policy set under a schedule: what it came to, what was counted of each policy's acts, and the target's own
    record of the run.
    """

    policies: tuple[P, ...]
    outcome: Outcome
    exercised: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    history: Any = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its policies."""
        return tuple(policy.name for policy in self.policies)

    @property
    def failed(self) -> bool:
        """Whether anything broke."""
        return self.outcome.failed

    @property
    def idle(self) -> tuple[str, ...]:
        """Policies that nothing shows to have acted."""
        return tuple(name for k, name in enumerate(self.names) if not self.outcome.acted >> k & 1)

    def class_of(self, failure: Failure) -> FailureClass:
        """The class of one of its failures."""
        return FailureClass(self.names, failure.invariant, failure.action, failure.actor)

    def classes(self) -> tuple[FailureClass, ...]:
        """Classes of its failures, in the order in which they came to be."""
        return tuple(dict.fromkeys(self.class_of(failure) for failure in self.outcome.failures))


class Session(Protocol[P]):
    """Runs schedules with policies of a target on.  ``started`` counts engines, ``runs`` schedules, ``steps`` and ``events`` what
    they took: engine steps, and page events or whatever the target logs.
    """

    started: int
    runs: int
    steps: int
    events: int

    def run(self, policies: Sequence[P], schedule: Any, *, fresh: bool = False) -> Arm[P]:
        """Run a schedule and judge the run; ``fresh``: where nothing ran before."""
        ...

    def open(self, policies: Sequence[P]) -> None:
        """Get ready for a set.  Raises ``EnvironmentFailure`` if it can't be had together."""
        ...

    def ahead(self, policies: Sequence[P]) -> None:
        """Begin to get ready for a set that will be wanted next."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Language(Generic[S]):
    """The schedules of a target: how they are drawn, compared and made simpler.  ``space`` describes them."""

    def __init__(self, space: ScheduleSpace[S]) -> None:
        self.space = space

    def space_of(self, policies: Sequence[Any]) -> ScheduleSpace[S]:
        """The schedules that mean something to a set."""
        return self.space

    def portfolio(self, policies: Sequence[Any], seed: str) -> Portfolio[S]:
        """What draws for a set beside Hypothesis' own ways."""
        return Portfolio(self.space_of(policies), seed)

    def states(self, arm: Arm[Any]) -> frozenset[Hashable]:
        """Abstract states that a run went through: what is new among them is worth drawing near."""
        return frozenset((name, min(count, 3)) for name, count in arm.outcome.counts.items())

    def events(self, schedule: S) -> Sequence[tuple[Any, ...]]:
        """The events of a schedule as a case writes them: name and numbers."""
        return [(name, *numbers) for name, numbers in self.space.take(schedule)[1]]

    def as_json(self, schedule: S) -> dict[str, Any]:
        """A schedule as plain data: the machine's sizes by name, and its events."""
        machine, _ = self.space.take(schedule)
        sizes = dict(zip(self.space.machine, machine, strict=True))
        return {**sizes, "events": [list(event) for event in self.events(schedule)]}

    def cost(self, schedule: S) -> Any:
        """What shrinking lowers: number of events, their kinds (the simplest first), how simple the machine is, numbers."""
        machine, rows = self.space.take(schedule)
        sizes = [
            list(values).index(size) if size in values else len(values)
            for size, values in zip(machine, self.space.machine.values(), strict=True)
        ]
        kinds = sum(self.space.names.index(name) for name, _ in rows)
        return len(rows), kinds, sum(sizes), sum(sum(numbers) for _, numbers in rows), tuple(rows)

    def passes(self) -> Sequence[Pass[S]]:
        """Ways to make a schedule simpler, in order."""
        return usual_passes(self.space)

    def leaps(
        self, sources: Sequence[S], best: S, policies: Sequence[Any], rng: random.Random
    ) -> Iterator[S]:
        """Simpler schedules that are made at random of parts of others, where the passes get stuck; none by default."""
        return iter(())

    def leaps_first(self, schedule: S) -> bool:
        """Whether a leap costs less than a cut of so long a schedule."""
        return False

    def near(self, schedule: S) -> Iterator[S]:
        """Schedules that differ from this one in time alone; none by default."""
        return iter(())

    def groups(self, policies: Sequence[P], size: int) -> list[tuple[P, ...]]:
        """All sets of so many of these policies that can be had together."""
        return [group for group in combinations(policies, size) if self.possible(group)]

    def possible(self, policies: Sequence[Any]) -> bool:
        """Whether these policies can be had together, and none of them is what the others are without it."""
        return True


@dataclass(frozen=True)
class SessionRecipe(Generic[S, P]):
    """What a case says to run on a session: a schedule, the policies of its set, and the class that it shows."""

    schedule: S
    policies: tuple[P, ...]
    failure_class: FailureClass


class Confirmer(Protocol):
    """Runs cases of one target on another, where their damage can be measured: tokens, bytes, seconds."""

    def confirm(self, case: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The entries for a case's ``confirmations``; none if it wasn't tried or couldn't be."""
        ...


def require(can: frozenset[str], command: str, case_id: str) -> None:
    """Raise ``UsageError`` (FKV107) with a plain sentence if the target of a case can't do this."""
    if command not in can:
        raise UsageError(
            code="FKV107",
            value=f"{case_id}: {command}",
            reason=WHY_NOT[command],
            cure="Leave that out; 'fuzzkv replay', 'explain', 'shrink' and 'gate' take every case.",
        )


class Target(Protocol[S, P]):
    """Where schedules run."""

    @property
    def name(self) -> str:
        """ "model", "vllm" ..."""
        ...

    @property
    def engine(self) -> str:
        """Name and version of what runs schedules."""
        ...

    @property
    def device(self) -> str:
        """Where it runs them."""
        ...

    @property
    def model(self) -> str:
        """The model that is served; nothing where there is none."""
        ...

    @property
    def can(self) -> frozenset[str]:
        """Which of :data:`COMMANDS` it can do."""
        ...

    @property
    def language(self) -> Language[S]:
        """Its schedules."""
        ...

    def session(self, *, keep: int) -> Session[P]:
        """A session with at most ``keep`` engines open at once."""
        ...

    def unsound(self, policies: Sequence[P]) -> str:
        """Why these policies are no use by themselves, whatever the schedule; nothing if they are."""
        ...

    def remarks(self, arms: Sequence[Arm[P]]) -> Failure | None:
        """What runs of one policy alone show together, which no single run does."""
        ...

    def as_json(self) -> Mapping[str, Any]:
        """Its configuration, for reports."""
        ...

    def config_of(self, schedule: S) -> Mapping[str, Any]:
        """What a case keeps of the configuration: everything that a schedule's events don't say."""
        ...

    def kept_history(self, arms: Sequence[Arm[P]]) -> Mapping[str, Any] | None:
        """What a case keeps of the runs of all subsets, the whole set last, so that it can be explained."""
        ...

    def configured_as(self, case: Mapping[str, Any]) -> Target[S, P]:
        """The same target, configured as it was when a case was found."""
        ...

    def read(self, case: Mapping[str, Any], allowed: Mapping[str, P] | None = None) -> SessionRecipe[S, P]:
        """The recipe of a case.  Raises ``UsageError`` for a case of another target, a policy or an event that there isn't."""
        ...
