"""When the failure of a set is a conflict: pure rules over outcomes."""

from __future__ import annotations

import pytest

from fuzzkv.core.results import Failure, FailureClass, Outcome
from fuzzkv.oracles.conflict import findings, order, smallest_failing
from fuzzkv.semantics.layout import NP

NAMES = ("a", "b")


def broken(invariant: str, *, stamp: int = 5, page: int = 1, actor: str | None = "a") -> Failure:
    return Failure(invariant, "drop_host", actor, event=2, stamp=stamp, page=page)


def arm(*violations: Failure, acted: int = 0, damage: int = 0) -> Outcome:
    hurt = [0] * NP
    hurt[1] = damage
    return Outcome(violations, acted, tuple(hurt))


def pair(whole: Outcome, **others: Outcome) -> dict[int, Outcome]:
    arms = {0: arm(), 1: arm(acted=1), 2: arm(acted=2), 3: whole}
    arms.update({int(name[1:]): outcome for name, outcome in others.items()})
    return arms


def test_a_set_that_fails_where_all_its_parts_pass_is_one() -> None:
    assert smallest_failing(pair(arm(broken("I1"), acted=3))) == [3]


def test_nothing_fails() -> None:
    assert smallest_failing(pair(arm(acted=3))) == []


@pytest.mark.parametrize("mask", [0, 1, 2])
def test_a_part_that_fails_is_what_fails(mask: int) -> None:
    arms = pair(arm(broken("I1"), acted=3), **{f"m{mask}": arm(broken("I14"), acted=mask)})
    assert smallest_failing(arms) == [mask]


@pytest.mark.parametrize("acted", [0, 1, 2])
def test_every_policy_must_have_acted(acted: int) -> None:
    assert smallest_failing(pair(arm(broken("I1"), acted=acted))) == []


def test_a_triple_is_a_conflict_only_if_no_pair_is() -> None:
    arms = {mask: arm(acted=mask) for mask in range(7)} | {7: arm(broken("I1"), acted=7)}
    assert smallest_failing(arms) == [7]
    arms[5] = arm(broken("I1"), acted=5)
    assert smallest_failing(arms) == [5]
    arms[6] = arm(broken("I18"), acted=6)
    assert smallest_failing(arms) == [5, 6]


def test_a_finding_names_who_broke_what_how() -> None:
    found = findings(pair(arm(broken("I1"), acted=3, damage=3)), 3, NAMES)
    assert [f.failure_class for f in found] == [FailureClass(NAMES, "I1", "drop_host", "a")]
    assert found[0].worse and not found[0].consequence and found[0].failure.page == 1


def test_bytes_are_worse_only_if_worse_than_in_every_part() -> None:
    whole = arm(broken("I1"), acted=3, damage=2)
    assert findings(pair(whole, m1=arm(acted=1, damage=1)), 3, NAMES)[0].worse
    assert not findings(pair(whole, m1=arm(acted=1, damage=2)), 3, NAMES)[0].worse
    assert not findings(pair(arm(broken("I1"), acted=3)), 3, NAMES)[0].worse


def test_what_follows_from_an_earlier_violation_on_the_page_is_a_consequence() -> None:
    def consequence(first: Failure, second: Failure) -> list[bool]:
        return [f.consequence for f in findings(pair(arm(first, second, acted=3)), 3, NAMES)]

    # A stale quote read after the authority was lost.
    assert consequence(broken("I1", stamp=3), broken("I12", stamp=4)) == [False, True]
    # The other way round it is a kind of its own, and so it is on another page.
    assert consequence(broken("I12", stamp=3), broken("I18", stamp=4)) == [False, False]
    assert consequence(broken("I2", stamp=5), broken("I12", stamp=2)) == [False, False]
    assert consequence(broken("I4", stamp=3, page=2), broken("I12", stamp=4)) == [False, False]
    # A frame given away too early may hurt any page.
    assert consequence(broken("I2", stamp=3, page=2), broken("I3", stamp=4)) == [False, True]


def test_within_one_primitive_the_lower_number_comes_first() -> None:
    assert order(broken("I2")) < order(broken("I12")) < order(broken("I2", stamp=6))
