"""The shortest way to say which of a few facts must hold: a disjunction of conjunctions with the fewest words."""

from __future__ import annotations

from collections.abc import Set
from itertools import combinations, product

Cube = tuple[bool, ...]
"""Facts that hold or don't."""
Way = tuple[bool | None, ...]
"""What is asked of each fact; ``None``: nothing."""


def within(cube: Cube, way: Way) -> bool:
    """Whether facts meet what a way asks."""
    return all(asked is None or asked == value for asked, value in zip(way, cube, strict=True))


def shortest(allowed: Set[Cube], free: Set[Cube]) -> tuple[Way, ...]:
    """The fewest ways, and of these the ones that ask least, that together allow all of ``allowed`` and nothing else but
    what is ``free``.
    """
    if not allowed:
        return ()
    size = len(next(iter(allowed)))
    every = list(product((True, False), repeat=size))
    ways = [
        way
        for way in product((None, True, False), repeat=size)
        if all(cube in allowed or cube in free for cube in every if within(cube, way))
    ]
    ways.sort(key=_asked)
    prime = [way for way in ways if not any(other != way and _wider(other, way) for other in ways)]
    for count in range(1, len(prime) + 1):
        covers = [
            chosen
            for chosen in combinations(prime, count)
            if all(any(within(cube, way) for way in chosen) for cube in allowed)
        ]
        if covers:
            return min(covers, key=lambda chosen: sum(map(_asked, chosen)))
    return ()


def _asked(way: Way) -> int:
    return sum(value is not None for value in way)


def _wider(one: Way, other: Way) -> bool:
    return all(a is None or a == b for a, b in zip(one, other, strict=True))
