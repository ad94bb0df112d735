"""Each live policy alone, first: what this build can't do, what fails alone and what never acts is said, and left out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fuzzkv.errors import EnvironmentFailure
from fuzzkv.live.arms import Arm, Arms, Verdict
from fuzzkv.live.policies import LivePolicy, compose
from fuzzkv.live.portfolio import Form, Portfolio
from fuzzkv.live.schedule import LiveSchedule
from fuzzkv.live.shrinking import LiveShrinker

ENOUGH: Final = 8
"""Schedules after which a policy that never acted is inert on this build."""
Standing = Literal["passes", "fails", "unsupported", "idle", "control-fails"]

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

    @property
    def name(self) -> str:
        """The policy's name, or that of the plain engine."""
        return self.policies[0].name if self.policies else "plain engine"

    @property
    def takes_part(self) -> bool:
        """Whether it goes on into sets; one that never acted does too, if it had few schedules to."""
        return self.standing == "passes" or (self.standing == "idle" and self.schedules < ENOUGH)

    def as_json(self) -> dict[str, Any]:
        """Plain data for a report."""
        told: dict[str, Any] = {
            "policy": self.name,
            "standing": self.standing,
            "schedules": self.schedules,
            "reason": self.reason,
            "exercised": dict(sorted(self.exercised.items())),
            "verdicts": dict(sorted(self.words.items())),
        }
        if self.witness is not None:
            told["witness"] = self.witness.as_json()
        return told


def form_of(policies: Sequence[LivePolicy]) -> Form:
    """Which events matter to a set."""
    config = compose(policies)
    return Form(tier=config.tier is not None, adapters=config.adapters)


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
) -> Entrant:
    """Run one policy (or none: the plain engine) over ``schedules`` of its own; past ``until`` (monotonic seconds) no more
    of them than one.  What fails alone is shrunk, with so many ``tries``.
    """
    entrant = Entrant(policies)
    try:
        arms.lives.open(policies)
        if reason := sound(policies):
            entrant.standing, entrant.reason = "fails", reason
            return entrant
    except EnvironmentFailure as error:
        entrant.standing, entrant.reason = "unsupported", error.reason
        return entrant
    portfolio = Portfolio(form_of(policies), f"{seed} alone {entrant.name}")
    acted = False
    while entrant.schedules < schedules and not (entrant.schedules and time.monotonic() > until):
        schedule = portfolio.draw()
        arm = arms.run(policies, schedule)
        entrant.schedules += 1
        note_acts(entrant.exercised, arm)
        acted = acted or not arm.idle
        verdict = arms.look(arm, schedule)
        entrant.words[verdict.word] += 1
        if _settled(entrant, verdict, schedule):
            _shrink(entrant, arms, tries)
            return entrant
    if not acted:
        entrant.standing, entrant.reason = "idle", "no counter shows that it acted"
    return entrant


def _settled(entrant: Entrant, verdict: Verdict, schedule: LiveSchedule) -> bool:
    if verdict.word not in ("single-policy", "control-fails"):
        return False
    violation = verdict.whole.violations[0]
    entrant.standing = "control-fails" if verdict.word == "control-fails" else "fails"
    entrant.verdict, entrant.witness = verdict, schedule
    entrant.reason = f"{violation.invariant} {violation.what}: {violation.text}".strip(": ")[:300]
    return True


def _shrink(entrant: Entrant, arms: Arms, tries: int) -> None:
    """The shortest schedule under which it fails alone."""
    if entrant.verdict is None or entrant.witness is None or not entrant.policies:
        return
    kind = entrant.verdict.whole.kinds()[0]
    done = LiveShrinker(arms, kind, entrant.policies, tries).shrink(entrant.witness)
    if done is not None:
        entrant.witness = done[0]
