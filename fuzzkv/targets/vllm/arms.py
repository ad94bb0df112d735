"""Arms: when a set of live policies fails, which part of it has to be there for that, and what that is called.

The set runs again on a fresh engine, then the control (no policy) and every proper subset run the same schedule.  A larger
set is first reduced to one that fails without a spare policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, Literal

from fuzzkv.targets.vllm.history import LiveHistory, LiveViolation
from fuzzkv.targets.vllm.policies import LivePolicy
from fuzzkv.targets.vllm.pool.engine_pool import Lives
from fuzzkv.targets.vllm.schedule import LiveSchedule

Word = Literal[
    "clean",
    "conflict",
    "single-policy",
    "control-fails",
    "numeric-tie",
    "not-repeated",
    "not-exercised",
]
Judge = Callable[[Sequence[LivePolicy], LiveSchedule, LiveHistory], tuple[LiveViolation, ...]]
"""What is wrong with a run of a set: its own violations, and tokens that its control doesn't have."""

TIE: Final = "numeric-tie"
"""``what`` of a difference at an exact tie of the logits: reported, but no failure."""
ALL_SUBSETS: Final = 3
"""Sets up to this size run every subset; larger ones are reduced first."""


@dataclass(frozen=True)
class LiveKind:
    """What makes two failures the same: the policies, the invariant, the word for it."""

    policies: tuple[str, ...]
    invariant: str
    what: str


@dataclass(frozen=True)
class Arm:
    """One subset under the schedule: what broke (ties left out), what was exercised."""

    policies: tuple[LivePolicy, ...]
    violations: tuple[LiveViolation, ...]
    history: LiveHistory = field(repr=False)
    ties: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its policies."""
        return tuple(policy.name for policy in self.policies)

    @property
    def failed(self) -> bool:
        """Whether anything broke."""
        return bool(self.violations)

    @property
    def idle(self) -> tuple[str, ...]:
        """Policies that nothing shows to have acted; a life that died without a word tells nothing of them."""
        if self.failed and not self.history.acts:
            return ()
        return tuple(p.name for p in self.policies if not p.acted(self.history.acts))

    def kind_of(self, violation: LiveViolation) -> LiveKind:
        """The kind of one of its violations."""
        return LiveKind(self.names, violation.invariant, violation.what)

    def kinds(self) -> tuple[LiveKind, ...]:
        """Kinds of its violations, in the order in which they came to be."""
        return tuple(dict.fromkeys(self.kind_of(violation) for violation in self.violations))


@dataclass(frozen=True)
class Verdict:
    """What a failing run came to.  ``arms`` are those of the smallest failing set, itself last; ``text`` says why."""

    word: Word
    arms: tuple[Arm, ...] = ()
    text: str = ""

    @property
    def whole(self) -> Arm:
        """The smallest failing set."""
        return self.arms[-1]


@dataclass
class Arms:
    """Runs and judges arms on ``lives``."""

    lives: Lives
    judge: Judge

    def run(self, policies: Sequence[LivePolicy], schedule: LiveSchedule, *, fresh: bool = False) -> Arm:
        """One arm."""
        history = self.lives.run(policies, schedule, fresh=fresh)
        found = self.judge(policies, schedule, history)
        broken = tuple(violation for violation in found if violation.what != TIE)
        return Arm(tuple(policies), broken, history, len(found) - len(broken))

    def look(self, arm: Arm, schedule: LiveSchedule) -> Verdict:
        """The verdict about an arm that ran under this schedule."""
        if not arm.failed:
            return Verdict("numeric-tie" if arm.ties else "clean", (arm,))
        again = self.run(arm.policies, schedule, fresh=True)
        if not set(again.kinds()) & set(arm.kinds()):
            return Verdict("not-repeated", (arm,), "a fresh engine doesn't show it under the same schedule")
        return self._smallest(again, schedule)

    def subsets(self, policies: Sequence[LivePolicy], schedule: LiveSchedule) -> Iterator[Arm]:
        """Arms of all proper subsets, the control first, until one fails, which is the last."""
        for size in range(len(policies)):
            for subset in combinations(policies, size):
                arm = self.run(subset, schedule)
                yield arm
                if arm.failed:
                    return

    def _smallest(self, arm: Arm, schedule: LiveSchedule) -> Verdict:
        if len(arm.policies) > ALL_SUBSETS:
            for left_out in arm.policies:
                smaller = self.run([p for p in arm.policies if p is not left_out], schedule)
                if smaller.failed:
                    return self._smallest(smaller, schedule)
        below = tuple(self.subsets(arm.policies, schedule))
        if below and below[-1].failed:
            *passing, failing = below
            # Subsets come by size, so what is below this one has passed.
            inside = [a for a in passing if set(a.names) < set(failing.names)]
            return self._named(failing, tuple(inside))
        return self._named(arm, below)

    def _named(self, arm: Arm, below: tuple[Arm, ...]) -> Verdict:
        arms = (*below, arm)
        if not arm.policies:
            return Verdict("control-fails", arms, "the plain engine fails under this schedule")
        if len(arm.policies) == 1:
            return Verdict("single-policy", arms, f"{arm.names[0]} fails alone")
        if arm.idle:
            text = f"{' and '.join(arm.idle)} did nothing that a counter shows"
            return Verdict("not-exercised", arms, text)
        return Verdict("conflict", arms)
