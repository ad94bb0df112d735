"""The conflict rule: when the failure of a policy set under a schedule is a conflict, and of which class.

A conflict of a set S: some invariant is broken for S; for every proper subset, the empty one included, none
is; every policy of S acted.  (That its action mattered is what the passing subset without it shows;
acceptance is looked at by the hunt.)
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from fuzzkv.core.results import Failure, FailureClass, Outcome, names_of
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.semantics.contract.minimal import smallest, subsets, touches


@dataclass(frozen=True)
class Finding:
    """A conflict under one schedule, with what the shrinker must keep: its class, its failure, whether bytes got
    worse than in every subset, and whether it follows from another failure on the same page (then it is no
    class of its own).
    """

    failure_class: FailureClass
    failure: Failure
    worse: bool
    consequence: bool


def part_of_known(found: FailureClass, known: Container[FailureClass]) -> bool:
    """Whether a proper subset of the set fails in the same way: then the larger set is no class of its own."""
    sizes = range(len(found.policies))
    return any(found.of(part) in known for size in sizes for part in combinations(found.policies, size))


def smallest_failing(arms: Mapping[int, Outcome]) -> list[int]:
    """The masks that fail while all their proper subsets pass, each of their policies having acted."""
    failing = sum(1 << mask for mask, arm in arms.items() if arm.failed)
    return [mask for mask, arm in sorted(arms.items()) if smallest(failing, arm.acted, mask)]


def order(failure: Failure) -> tuple[int, int]:
    """Failures in the order in which they came to be; within one operation by number."""
    return failure.stamp, int(failure.invariant[1:])


def findings(arms: Mapping[int, Outcome], mask: int, policies: Sequence[str]) -> list[Finding]:
    """The conflicts of one smallest failing set, one for each class; ``policies`` names the bits of the masks."""
    arm = arms[mask]
    names = names_of(policies, mask)
    found = []
    for failure in arm.failures:
        causes = BY_ID[failure.invariant].implied_by
        consequence = any(
            other.invariant in causes
            and order(other) < order(failure)
            and touches(int(other.invariant[1:]), other.page, failure.page)
            for other in arm.failures
        )
        page = failure.page
        worse = bool(arm.damage) and (
            arm.damage[page] > 0 and all(arms[sub].damage[page] < arm.damage[page] for sub in subsets(mask))
        )
        kind = FailureClass(names, failure.invariant, failure.action, failure.actor)
        found.append(Finding(kind, failure, worse, consequence))
    return found
