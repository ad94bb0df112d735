"""Invariants of the pool: each has a mutant that it kills; the clean pool is silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from fuzzkv.targets.vllm.engine.conservation import broken


@dataclass
class Pool:
    """Four blocks: 1 and 2 are request r0's (2 is shared with r1), 3 and 4 are free, 3 can be found under key k."""

    free: list[int] = field(default_factory=lambda: [4, 3])
    count: int = 2
    refs: list[int] = field(default_factory=lambda: [1, 1, 2, 0, 0])
    held: dict[str, list[int]] = field(default_factory=lambda: {"r0/0": [1, 2], "r1/0": [2]})
    keys: dict[int, tuple[bytes, ...]] = field(default_factory=lambda: {3: (b"k",)})
    found: dict[bytes, tuple[int, ...]] = field(default_factory=lambda: {b"k": (3,)})

    def total(self) -> int:
        return 4

    def free_list(self) -> list[int]:
        return self.free

    def free_count(self) -> int:
        return self.count

    def references(self) -> list[int]:
        return self.refs

    def tables(self) -> dict[str, list[int]]:
        return self.held

    def hashes(self) -> dict[int, tuple[bytes, ...]]:
        return self.keys

    def index(self) -> dict[bytes, tuple[int, ...]]:
        return self.found


def words(pool: Pool) -> set[tuple[str, str]]:
    return {(invariant, what) for invariant, what, _, _ in broken(pool)}


def test_a_sound_pool_is_silent() -> None:
    assert broken(Pool()) == []


MUTANTS: list[tuple[str, str, Callable[[Pool], object]]] = [
    ("I11", "double-free", lambda p: (p.free.append(3), setattr(p, "count", 3))),
    ("I11", "double-free", lambda p: (p.free.append(1), setattr(p, "count", 3))),
    ("I11", "leak", lambda p: (p.free.remove(4), setattr(p, "count", 1))),
    ("I11", "leak", lambda p: p.held.pop("r1/0")),
    ("I11", "unpinned", lambda p: p.refs.__setitem__(2, 1)),
    ("I11", "miscount", lambda p: setattr(p, "count", 3)),
    ("I8", "stale-index", lambda p: p.keys.clear()),
    ("I8", "lost-index", lambda p: p.found.clear()),
]


@pytest.mark.parametrize(("invariant", "what", "mutate"), MUTANTS)
def test_each_rule_kills_its_mutant(invariant: str, what: str, mutate: Callable[[Pool], object]) -> None:
    pool = Pool()
    mutate(pool)
    assert (invariant, what) in words(pool)
