"""Which sets of policies a hunt looks at: pairs, then triples; or larger sets that cover them, where there are too many.

An engine takes seconds to start, so every set costs an engine.  A large set that fails is reduced to its smallest failing
part (:mod:`fuzzkv.targets.arms`), so one engine of six policies looks at fifteen pairs at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fuzzkv.targets.base import Language

Set = tuple[Any, ...]
"""Policies of a target."""
Names = frozenset[str]
SIZE: Final = 6
"""Most policies of a covering set: more of them hide each other's work."""


def plan(
    language: Language[Any],
    policies: Sequence[Any],
    *,
    strength: int,
    most: int,
    done: Sequence[Set] = (),
    refused: Sequence[Set] = (),
) -> list[Set]:
    """The sets to look at: all pairs (and triples with ``strength`` 3) if they are at most ``most``, else covering sets.

    What is within one of the sets ``done`` is left out, and what the engine ``refused``.
    """
    looked, bad = [_names(s) for s in done], [_names(s) for s in refused]
    wanted = [
        group
        for size in range(2, strength + 1)
        for group in language.groups(policies, size)
        if not any(_names(group) <= s for s in looked) and not any(b <= _names(group) for b in bad)
    ]
    return wanted if len(wanted) <= most else list(_covering(language, policies, wanted, bad))


def covered(
    language: Language[Any],
    sets: Iterable[Set],
    policies: Sequence[Any],
    size: int,
    refused: Sequence[Set] = (),
) -> tuple[int, int]:
    """How many of the groups of a size are within some of these sets, and how many there are that the engine takes."""
    looked, bad = [_names(s) for s in sets], [_names(s) for s in refused]
    wanted = [g for g in map(_names, language.groups(policies, size)) if not any(b <= g for b in bad)]
    return sum(any(group <= s for s in looked) for group in wanted), len(wanted)


def _covering(
    language: Language[Any], policies: Sequence[Any], wanted: list[Set], bad: list[Names]
) -> Iterator[Set]:
    left = [_names(group) for group in wanted]
    by_name = {policy.name: policy for policy in policies}
    while left:
        # Each begins with a group that isn't covered yet, and grows by what covers most of the others.
        chosen = [by_name[name] for name in sorted(left[0])]
        while len(chosen) < SIZE:
            best, most = None, 0
            for policy in policies:
                names = _names([*chosen, policy])
                gain = sum(policy.name in group and group <= names for group in left)
                if gain > most and policy not in chosen and _possible(language, [*chosen, policy], bad):
                    best, most = policy, gain
            if best is None:
                break
            chosen.append(best)
        names = _names(chosen)
        left = [group for group in left if not group <= names]
        yield tuple(sorted(chosen, key=lambda p: p.name))


def _possible(language: Language[Any], chosen: Sequence[Any], bad: list[Names]) -> bool:
    return language.possible(chosen) and not any(b <= _names(chosen) for b in bad)


def _names(policies: Iterable[Any]) -> Names:
    return frozenset(policy.name for policy in policies)
