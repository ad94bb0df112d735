"""The conflict rule on integers: over all masks of three policies against a definition by sets of names, and every edge of it
with a mutant of the text that this tells apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from itertools import chain, combinations, product
from typing import Any

import pytest

from fuzzkv.semantics.contract import minimal

POLICIES = ("a", "b", "c")
ARMS = range(1 << len(POLICIES))
Rule = dict[str, Any]
"""The module's names and what they are."""
Arm = frozenset[str]


@cache
def members(mask: int) -> Arm:
    """The policies of a mask."""
    return frozenset(name for name, bit in zip(POLICIES, (1, 2, 4), strict=True) if mask // bit % 2)


@cache
def parts(whole: Arm) -> tuple[Arm, ...]:
    """The proper subsets of a set, smaller ones first."""
    return tuple(map(frozenset, chain(*(combinations(sorted(whole), size) for size in range(len(whole))))))


def subset_differs(rule: Rule) -> bool:
    """Whether it takes some set for a subset that is none, or the other way round."""
    return any(bool(rule["is_subset"](x, y)) != (members(x) <= members(y)) for x, y in product(ARMS, ARMS))


def subsets_differ(rule: Rule) -> bool:
    """Whether the subsets of some set are others, one comes twice, or they come in another order than by number."""
    for mask in ARMS:
        listed = list(rule["subsets"](mask))
        wanted = set(parts(members(mask)))
        if listed != sorted(listed) or len(listed) != len(wanted) or set(map(members, listed)) != wanted:
            return True
    return False


@cache
def conflicts() -> frozenset[tuple[int, int, int]]:
    """Which failing arms, policies that acted and sets are a conflict, by sets of names."""
    found = set()
    for bits in range(1 << len(ARMS)):
        failing = {members(arm) for arm in ARMS if bits // 2**arm % 2}
        for mask in ARMS:
            whole = members(mask)
            if whole in failing and failing.isdisjoint(parts(whole)):
                found.update((bits, acted, mask) for acted in ARMS if whole <= members(acted))
    return frozenset(found)


def smallest_differs(rule: Rule) -> bool:
    """Whether it takes something for a conflict that is none, or the other way round."""
    smallest, wanted = rule["smallest"], conflicts()
    return any(
        bool(smallest(bits, acted, mask)) != ((bits, acted, mask) in wanted)
        for bits, acted, mask in product(range(1 << len(ARMS)), ARMS, ARMS)
    )


def touches_differs(rule: Rule) -> bool:
    """Whether a cause reaches a page that it can't, or misses one: I2 reaches all, any other its own (-1: no page)."""
    pages = range(-1, 4)
    return any(
        bool(rule["touches"](int(cause[1:]), there, here)) != (cause == "I2" or there == here)
        for cause, there, here in product([f"I{i}" for i in range(1, 19)], pages, pages)
    )


CHECKS = (subset_differs, subsets_differ, smallest_differs, touches_differs)


@pytest.mark.parametrize("differs", CHECKS)
def test_the_rule_is_what_sets_say(differs: Callable[[Rule], bool]) -> None:
    assert not differs(vars(minimal))


MUTANTS = {
    "sets that only meet": ("is_subset", "sub & mask == sub", "sub & mask != 0", subset_differs),
    "the larger in the smaller": ("is_subset", "sub & mask == sub", "sub & mask == mask", subset_differs),
    "proper subsets only": ("is_subset", "sub & mask == sub", "sub & mask == sub != mask", subset_differs),
    "the set among its subsets": ("subsets", "range(mask)", "range(mask + 1)", subsets_differ),
    "the empty set left out": ("subsets", "range(mask)", "range(1, mask)", subsets_differ),
    "the last one left out": ("subsets", "range(mask)", "range(mask - 1)", subsets_differ),
    "the empty set comes last": ("subsets", "range(mask)", "reversed(range(mask))", subsets_differ),
    "every smaller number": ("subsets", "is_subset(sub, mask)", "True", subsets_differ),
    "the set needn't fail": ("smallest", "not failing >> mask & 1 or ", "", smallest_differs),
    "nobody need act": ("smallest", " or acted & mask != mask", "", smallest_differs),
    "one that acts is enough": ("smallest", "acted & mask != mask", "acted & mask == 0", smallest_differs),
    "nobody else may act": ("smallest", "acted & mask != mask", "acted != mask", smallest_differs),
    "the empty arm may fail": ("smallest", "range(mask)", "range(1, mask)", smallest_differs),
    "the last part may fail": ("smallest", "range(mask)", "range(mask - 1)", smallest_differs),
    "it counts as its own part": ("smallest", "range(mask)", "range(mask + 1)", smallest_differs),
    "no arm before it may fail": ("smallest", "is_subset(sub, mask) and ", "", smallest_differs),
    "parts may fail": ("smallest", "failing >> sub & 1", "False", smallest_differs),
    "I2 on its page only": ("touches", " or cause == 2", "", touches_differs),
    "I3 on any page": ("touches", "cause == 2", "cause in (2, 3)", touches_differs),
    "I1 on any page": ("touches", "cause == 2", "cause <= 2", touches_differs),
    "I2 alone": ("touches", "cause_page == page or ", "", touches_differs),
    "I2 on other pages only": (
        "touches",
        "page or cause",
        "page and cause != 2 or cause_page != page and cause",
        touches_differs,
    ),
}
"""The function, what stands there, what the mutant has in its place, and the check that tells them apart."""


@pytest.mark.parametrize("name", MUTANTS)
def test_every_edge_has_a_mutant_that_is_told_apart(name: str) -> None:
    function, written, instead, differs = MUTANTS[name]
    text = inspect.getsource(getattr(minimal, function))
    assert text.count(written) == 1
    rule = dict(vars(minimal))
    exec(text.replace(written, instead), rule)
    assert differs(rule)


def test_the_empty_set_has_no_parts_and_comes_first() -> None:
    assert list(minimal.subsets(5)) == [0, 1, 4] and list(minimal.subsets(0)) == []
    assert list(minimal.subsets(1)) == [0] and len(list(minimal.subsets(7))) == 7
