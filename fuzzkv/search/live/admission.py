"""Each live policy alone, first: what this build can't do, what fails alone and what never acts is said, and left out.

One that fails alone under a few schedules only takes part: sets are looked at under the others, and what it shows alone
isn't looked into again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hypothesis.database import ExampleDatabase

from fuzzkv.cases.live_shrink import LiveShrinker
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.events import Listener, PhaseStarted, ShrinkStep, WarningRaised
from fuzzkv.strategies.generation import failures
from fuzzkv.targets.vllm.arms import Arm, Arms, Verdict
from fuzzkv.targets.vllm.content.oracles import inert_tier
from fuzzkv.targets.vllm.generating import drawn, remembered, scores_of
from fuzzkv.targets.vllm.history import LiveHistory, Trace, trace
from fuzzkv.targets.vllm.policies import LivePolicy
from fuzzkv.targets.vllm.portfolio import Portfolio, form_of
from fuzzkv.targets.vllm.schedule import LiveSchedule

ENOUGH: Final = 8
"""Schedules after which a policy that never acted, or a tier that never served, is inert on this build."""
Standing = Literal["passes", "sometimes", "fails", "unsupported", "idle", "control-fails"]
OFTEN: Final = 4
"""A policy that fails alone under a fourth of its schedules, or more, is left out."""

Sound = Callable[[Sequence[LivePolicy]], str]
"""Why a policy is no use by itself, whatever the schedule; nothing if it is."""


@dataclass
class Entrant:
    """One policy alone: how it stands, over how many schedules, why, what showed that it acted, and the verdict about a
    run that failed with the schedule of it.
    """

    policies: tuple[LivePolicy, ...]
    standing: Standing = "passes"
    schedules: int = 0
    reason: str = ""
    exercised: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    verdict: Verdict | None = None
    witness: LiveSchedule | None = None
    failing: int = 0
    traces: set[Trace] = field(default_factory=set)

    def knows(self, arm: Arm) -> bool:
        """Whether what broke first in a run is what this policy shows alone."""
        return bool(arm.violations) and trace(arm.violations[0]) in self.traces

    def take(self, verdict: Verdict, schedule: LiveSchedule) -> None:
        """Note what it shows alone."""
        violation = verdict.whole.violations[0]
        self.traces.add(trace(violation))
        self.failing += 1
        if self.verdict is None:
            self.verdict, self.witness = verdict, schedule
            self.reason = f"{violation.invariant} {violation.what}: {violation.text}".strip(": ")[:300]

    @property
    def name(self) -> str:
        """The policy's name, or that of the plain engine."""
        return self.policies[0].name if self.policies else "plain engine"

    @property
    def takes_part(self) -> bool:
        """Whether it goes on into sets; one that never acted does too, if it had few schedules to."""
        some = self.standing == "idle" and self.schedules < ENOUGH
        return some or self.standing in ("passes", "sometimes")

    @property
    def told(self) -> str:
        """Its reason with how often it failed."""
        often = f"under {self.failing} of {self.schedules} it fails: " if self.failing else ""
        return often + self.reason

    def as_json(self) -> dict[str, Any]:
        """Plain data for a report."""
        told: dict[str, Any] = {
            "policy": self.name,
            "standing": self.standing,
            "schedules": self.schedules,
            "failing": self.failing,
            "reason": self.reason,
            "exercised": dict(sorted(self.exercised.items())),
            "verdicts": dict(sorted(self.words.items())),
        }
        if self.witness is not None:
            told["witness"] = self.witness.as_json()
        return told


def note_acts(seen: Counter[str], arm: Arm) -> None:
    """Add what a run shows of its policies' acts."""
    for policy in arm.policies:
        for name in policy.exercised:
            seen[f"{policy.name} {name}"] += arm.history.acts.get(name, 0)


def accept(
    arms: Arms,
    policies: tuple[LivePolicy, ...],
    *,
    seed: int,
    schedules: int,
    until: float,
    sound: Sound,
    tries: int,
    tell: Listener = lambda event: None,
    database: ExampleDatabase | None = None,
) -> Entrant:
    """Run one policy (or none: the plain engine) over ``schedules`` of its own; past ``until`` (monotonic seconds) no more
    of them than one.  What fails alone is shrunk, with so many ``tries``, and ``tell`` hears of that; a tier
    that stored and never served is told as inert (FKV104).  What failed in an earlier hunt comes first, out of ``database``.
    """
    entrant = Entrant(policies)
    try:
        arms.lives.open(policies)
        if reason := sound(policies):
            entrant.standing, entrant.reason = "fails", reason
            return entrant
    except EnvironmentFailure as error:
        entrant.standing, entrant.reason = "unsupported", " ".join(error.reason.split())[:300]
        return entrant
    portfolio = Portfolio(form_of(policies), f"{seed} alone {entrant.name}")
    look = _Alone(entrant, arms, until, portfolio)
    found = failures(
        look,
        drawn(portfolio),
        seed=portfolio.seed,
        most=schedules,
        memory=remembered(database, policies),
    )
    for failed in found:
        if failed.repeated and look.verdict.word in ("single-policy", "control-fails"):
            first = entrant.verdict is None
            entrant.take(look.verdict, failed.schedule)
            if look.verdict.word == "control-fails":
                entrant.standing = "control-fails"
                return entrant
            if first:
                _shrink(entrant, arms, tries, tell)
    if entrant.failing:
        entrant.standing = "fails" if OFTEN * entrant.failing >= entrant.schedules else "sometimes"
    elif not look.acted:
        entrant.standing, entrant.reason = "idle", "no counter shows that it acted"
    elif entrant.schedules >= ENOUGH and (inert := inert_tier(look.histories)) is not None:
        entrant.reason = f"{inert.invariant} {inert.what}: {inert.text}"
        about = "It takes part all the same: this is no failure, and what it should serve stays untried."
        tell(WarningRaised("FKV104", f"{entrant.name} stores and never serves: {inert.text}", about))
    return entrant


@dataclass
class _Alone:
    """The property of a policy alone: a schedule shows nothing new."""

    entrant: Entrant
    arms: Arms
    until: float
    portfolio: Portfolio
    acted: bool = False
    histories: list[LiveHistory] = field(default_factory=list)
    arm: Arm = field(init=False)
    verdict: Verdict = field(init=False)

    @property
    def name(self) -> str:
        """The policy."""
        return f"{self.entrant.name} alone"

    def fails(self, schedule: LiveSchedule) -> bool:
        """Run it."""
        entrant = self.entrant
        self.arm = arm = self.arms.run(entrant.policies, schedule)
        entrant.schedules += 1
        self.histories.append(arm.history)
        note_acts(entrant.exercised, arm)
        self.acted = self.acted or not arm.idle
        if entrant.knows(arm):
            entrant.failing += 1
            entrant.words["known"] += 1
        elif arm.failed:
            return True
        else:
            entrant.words["numeric-tie" if arm.ties else "clean"] += 1
        return False

    def repeats(self, schedule: LiveSchedule) -> bool:
        """Run it on a fresh engine, and the plain engine."""
        self.verdict = self.arms.look(self.arm, schedule)
        self.entrant.words[self.verdict.word] += 1
        return self.verdict.word != "not-repeated"

    def scores(self) -> Mapping[str, float]:
        """How much was going on in the last run."""
        return scores_of(self.arm)

    def over(self) -> bool:
        """Whether its time is over, or it fails so often that it is left out."""
        entrant = self.entrant
        often = entrant.failing >= OFTEN and 2 * entrant.failing > entrant.schedules
        return often or (entrant.schedules > 0 and time.monotonic() > self.until)


def _shrink(entrant: Entrant, arms: Arms, tries: int, tell: Listener) -> None:
    """The shortest schedule under which it fails alone."""
    if entrant.verdict is None or entrant.witness is None or not entrant.policies:
        return
    kind = entrant.verdict.whole.kinds()[0]
    tell(PhaseStarted("shrink", 0, f"{entrant.name}, which fails alone, to the shortest schedule"))
    before = len(entrant.witness.events)
    done = LiveShrinker(arms, kind, entrant.policies, tries).shrink(entrant.witness)
    if done is not None:
        entrant.witness = done[0]
        tell(ShrinkStep(kind.policies, kind.invariant, before, len(entrant.witness.events)))
