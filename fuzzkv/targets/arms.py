"""Arms: when a policy set fails, which part of it has to be there for that, and what that is called.

The set runs again where nothing ran before, then the control (no policy) and every proper subset run the same schedule.  A
larger set is first reduced to one that fails without a spare policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Generic, Literal

from fuzzkv.targets.base import Arm, P, Session

Word = Literal[
    "clean",
    "conflict",
    "single-policy",
    "control-fails",
    "numeric-tie",
    "not-repeated",
    "not-exercised",
]

ALL_SUBSETS: Final = 3
"""Sets up to this size run every subset; larger ones are reduced first."""


@dataclass(frozen=True)
class Verdict(Generic[P]):
    """What a failing run came to.  ``arms`` are those of the smallest failing set, itself last; ``text`` says why."""

    word: Word
    arms: tuple[Arm[P], ...] = ()
    text: str = ""

    @property
    def whole(self) -> Arm[P]:
        """The smallest failing set."""
        return self.arms[-1]


def judged(session: Session[P], arm: Arm[P], schedule: Any) -> Verdict[P]:
    """The verdict about an arm that ran under this schedule."""
    if not arm.failed:
        return Verdict("numeric-tie" if arm.outcome.ties else "clean", (arm,))
    again = session.run(arm.policies, schedule, fresh=True)
    if not set(again.classes()) & set(arm.classes()):
        return Verdict("not-repeated", (arm,), "a fresh engine doesn't show it under the same schedule")
    return _smallest(session, again, schedule)


def below(session: Session[P], policies: Sequence[P], schedule: Any) -> Iterator[Arm[P]]:
    """Arms of all proper subsets, the control first, until one fails, which is the last."""
    for size in range(len(policies)):
        for subset in combinations(policies, size):
            arm = session.run(subset, schedule)
            yield arm
            if arm.failed:
                return


def _smallest(session: Session[P], arm: Arm[P], schedule: Any) -> Verdict[P]:
    if len(arm.policies) > ALL_SUBSETS:
        for left_out in arm.policies:
            smaller = session.run([p for p in arm.policies if p is not left_out], schedule)
            if smaller.failed:
                return _smallest(session, smaller, schedule)
    ran = tuple(below(session, arm.policies, schedule))
    if ran and ran[-1].failed:
        *passing, failing = ran
        # Subsets come by size, so what is below this one has passed.
        inside = [a for a in passing if set(a.names) < set(failing.names)]
        return _named(failing, tuple(inside))
    return _named(arm, ran)


def _named(arm: Arm[P], ran: tuple[Arm[P], ...]) -> Verdict[P]:
    arms = (*ran, arm)
    if not arm.policies:
        return Verdict("control-fails", arms, "the plain engine fails under this schedule")
    if len(arm.policies) == 1:
        return Verdict("single-policy", arms, f"{arm.names[0]} fails alone")
    if arm.idle:
        text = f"{' and '.join(arm.idle)} did nothing that a counter shows"
        return Verdict("not-exercised", arms, text)
    return Verdict("conflict", arms)
