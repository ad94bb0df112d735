"""The verdict: when the failure of a policy set under a schedule is a conflict, and of which kind.

A conflict of a set S: some invariant is broken for S; for every proper subset, the empty one included, none
is; every policy of S acted.  (That its action mattered is what the passing subset without it shows;
acceptance is looked at by the hunt.)
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.simulator.outcome import ArmOutcome, Violation


@dataclass(frozen=True)
class Kind:
    """What makes two conflicts the same kind: the policy set, the invariant, who broke it with which
    primitive.
    """

    mask: int
    invariant: str
    actor: str | None
    primitive: str


@dataclass(frozen=True)
class Finding:
    """A conflict under one schedule, with what the shrinker must keep: its kind, its page, whether bytes got
    worse than in every subset, and whether it follows from another violation on the same page (then it is no
    kind of its own).
    """

    kind: Kind
    violation: Violation
    worse: bool
    consequence: bool


def subsets(mask: int) -> Iterator[int]:
    """All proper subsets of a mask, the empty one first."""
    for sub in range(mask):
        if sub & mask == sub:
            yield sub


def part_of_known(kind: Kind, known: Container[Kind]) -> bool:
    """Whether a proper subset of the set fails in the same way: then the larger set is no kind of its own."""
    return any(Kind(sub, kind.invariant, kind.actor, kind.primitive) in known for sub in subsets(kind.mask))


def smallest_failing(arms: Mapping[int, ArmOutcome]) -> list[int]:
    """The masks that fail while all their proper subsets pass, each of their policies having acted."""
    return [
        mask
        for mask, arm in sorted(arms.items())
        if arm.failed and arm.acted & mask == mask and not any(arms[sub].failed for sub in subsets(mask))
    ]


def order(violation: Violation) -> tuple[int, int]:
    """Violations in the order in which they came to be; within one primitive by number."""
    return violation.stamp, int(violation.invariant[1:])


def findings(arms: Mapping[int, ArmOutcome], mask: int) -> list[Finding]:
    """The conflicts of one smallest failing set, one for each invariant that it breaks."""
    arm = arms[mask]
    found = []
    for violation in arm.violations:
        causes = BY_ID[violation.invariant].implied_by
        consequence = any(
            other.invariant in causes
            and order(other) < order(violation)
            and (other.page == violation.page or other.invariant == "I2")
            for other in arm.violations
        )
        page = violation.page
        worse = arm.damage[page] > 0 and all(
            arms[sub].damage[page] < arm.damage[page] for sub in subsets(mask)
        )
        kind = Kind(mask, violation.invariant, violation.actor, violation.primitive)
        found.append(Finding(kind, violation, worse, consequence))
    return found
