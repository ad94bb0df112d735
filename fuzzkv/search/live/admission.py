"""Each live policy alone, first: what this build can't do, what fails alone and what never acts is said, and left out.

One that fails alone under a few schedules only takes part: sets are looked at under the others, and what it shows alone
isn't looked into again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hypothesis.database import ExampleDatabase

from fuzzkv.cases.session_shrink import SessionShrinker
from fuzzkv.core.results import Signature, signature
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.events import Listener, PhaseStarted, ShrinkStep, WarningRaised
from fuzzkv.search.live.generating import drawn, remembered, scores_of
from fuzzkv.strategies.generation import failures
from fuzzkv.strategies.portfolio import Portfolio
from fuzzkv.targets.arms import Verdict, judged
from fuzzkv.targets.base import Arm, Language, Session, Target

ENOUGH: Final = 8
"""Schedules after which a policy that never acted, or a tier that never served, is inert on this build."""
Standing = Literal["passes", "sometimes", "fails", "unsupported", "idle", "control-fails"]
OFTEN: Final = 4
"""A policy that fails alone under a fourth of its schedules, or more, is left out."""


@dataclass
class Entrant:
    """One policy alone: how it stands, over how many schedules, why, what showed that it acted, and the verdict about a
    run that failed with the schedule of it.
    """

    policies: tuple[Any, ...]
    standing: Standing = "passes"
    schedules: int = 0
    reason: str = ""
    exercised: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    verdict: Verdict[Any] | None = None
    witness: Any = None
    failing: int = 0
    traces: set[Signature] = field(default_factory=set)

    def knows(self, arm: Arm[Any]) -> bool:
        """Whether what broke first in a run is what this policy shows alone."""
        return arm.failed and signature(arm.outcome.failures[0]) in self.traces

    def take(self, verdict: Verdict[Any], schedule: Any) -> None:
        """Note what it shows alone."""
        violation = verdict.whole.outcome.failures[0]
        self.traces.add(signature(violation))
        self.failing += 1
        if self.verdict is None:
            self.verdict, self.witness = verdict, schedule
            self.reason = f"{violation.invariant} {violation.action}: {violation.text}".strip(": ")[:300]

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

    def as_json(self, language: Language[Any]) -> dict[str, Any]:
        """Plain data for a report; ``language`` is that of its witness."""
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
            told["witness"] = language.as_json(self.witness)
        return told


def note_acts(seen: Counter[str], arm: Arm[Any]) -> None:
    """Add what a run shows of its policies' acts."""
    for policy, counts in arm.exercised.items():
        for name, count in counts.items():
            seen[f"{policy} {name}"] += count


def accept(
    target: Target[Any, Any],
    session: Session[Any],
    policies: tuple[Any, ...],
    *,
    seed: int,
    schedules: int,
    until: float,
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
        session.open(policies)
        if reason := target.unsound(policies):
            entrant.standing, entrant.reason = "fails", reason
            return entrant
    except EnvironmentFailure as error:
        entrant.standing, entrant.reason = "unsupported", " ".join(error.reason.split())[:300]
        return entrant
    portfolio = target.language.portfolio(policies, f"{seed} alone {entrant.name}")
    look = _Alone(entrant, target, session, until, portfolio)
    found = failures(
        look,
        drawn(portfolio),
        seed=portfolio.seed,
        most=schedules,
        memory=remembered(database, target.language, policies),
    )
    for failed in found:
        if failed.repeated and look.verdict.word in ("single-policy", "control-fails"):
            first = entrant.verdict is None
            entrant.take(look.verdict, failed.schedule)
            if look.verdict.word == "control-fails":
                entrant.standing = "control-fails"
                return entrant
            if first:
                _shrink(entrant, target, session, tries, tell)
    if entrant.failing:
        entrant.standing = "fails" if OFTEN * entrant.failing >= entrant.schedules else "sometimes"
    elif not look.acted:
        entrant.standing, entrant.reason = "idle", "no counter shows that it acted"
    elif entrant.schedules >= ENOUGH and (inert := target.remarks(look.arms)) is not None:
        entrant.reason = f"{inert.invariant} {inert.action}: {inert.text}"
        about = "It takes part all the same: this is no failure, and what it should serve stays untried."
        tell(WarningRaised("FKV104", f"{entrant.name} stores and never serves: {inert.text}", about))
    return entrant


@dataclass
class _Alone:
    """The property of a policy alone: a schedule shows nothing new."""

    entrant: Entrant
    target: Target[Any, Any]
    session: Session[Any]
    until: float
    portfolio: Portfolio[Any]
    acted: bool = False
    arms: list[Arm[Any]] = field(default_factory=list)
    arm: Arm[Any] = field(init=False)
    verdict: Verdict[Any] = field(init=False)

    @property
    def name(self) -> str:
        """The policy."""
        return f"{self.entrant.name} alone"

    def fails(self, schedule: Any) -> bool:
        """Run it."""
        entrant = self.entrant
        self.arm = arm = self.session.run(entrant.policies, schedule)
        entrant.schedules += 1
        self.arms.append(arm)
        note_acts(entrant.exercised, arm)
        self.acted = self.acted or not arm.idle
        if entrant.knows(arm):
            entrant.failing += 1
            entrant.words["known"] += 1
        elif arm.failed:
            return True
        else:
            entrant.words["numeric-tie" if arm.outcome.ties else "clean"] += 1
        return False

    def repeats(self, schedule: Any) -> bool:
        """Run it on a fresh engine, and the plain engine."""
        self.verdict = judged(self.session, self.arm, schedule)
        self.entrant.words[self.verdict.word] += 1
        return self.verdict.word != "not-repeated"

    def scores(self) -> Mapping[str, float]:
        """How much was going on in the last run."""
        return scores_of(self.arm, self.target.language.states(self.arm))

    def over(self) -> bool:
        """Whether its time is over, or it fails so often that it is left out."""
        entrant = self.entrant
        often = entrant.failing >= OFTEN and 2 * entrant.failing > entrant.schedules
        return often or (entrant.schedules > 0 and time.monotonic() > self.until)


def _shrink(
    entrant: Entrant, target: Target[Any, Any], session: Session[Any], tries: int, tell: Listener
) -> None:
    """The shortest schedule under which it fails alone."""
    if entrant.verdict is None or entrant.witness is None or not entrant.policies:
        return
    kind = entrant.verdict.whole.classes()[0]
    tell(PhaseStarted("shrink", 0, f"{entrant.name}, which fails alone, to the shortest schedule"))
    before = len(target.language.events(entrant.witness))
    done = SessionShrinker(session, target.language, kind, entrant.policies, tries).shrink(entrant.witness)
    if done is not None:
        entrant.witness = done[0]
        tell(ShrinkStep(kind.policies, kind.invariant, before, len(target.language.events(entrant.witness))))
