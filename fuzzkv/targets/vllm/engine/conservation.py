"""Invariants of the block pool that hold after every engine step (I11, I8), and progress (I13). No touch of vLLM: everything is read
through :class:`~fuzzkv.targets.vllm.engine.internals.LiveEngine`'s views.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

Breach = tuple[str, str, int, str]
"""Invariant, word, page, sentence."""


class PoolView(Protocol):
    """The view of an engine that the checks read (or of a toy, in tests). Block 0 is never used."""

    def total(self) -> int:
        """Blocks that may be used."""
        ...

    def free_list(self) -> Sequence[int]:
        """The free queue, walked."""
        ...

    def free_count(self) -> int:
        """The number of blocks that the pool says are free."""
        ...

    def references(self) -> Sequence[int]:
        """Reference count of every block."""
        ...

    def tables(self) -> Mapping[str, Sequence[int]]:
        """Blocks of every holder."""
        ...

    def hashes(self) -> Mapping[int, Sequence[bytes]]:
        """Keys of every block that has some."""
        ...

    def index(self) -> Mapping[bytes, Sequence[int]]:
        """Blocks of every key."""
        ...


def broken(view: PoolView) -> list[Breach]:
    """Violations of: every block is either free, once, or held, as often as its reference count says; the prefix cache's
    index and the blocks' own keys agree."""
    found: list[Breach] = []
    free, references = view.free_list(), view.references()
    for page, times in Counter(free).items():
        if times > 1:
            found.append(("I11", "double-free", page, f"block {page} is in the free queue more than once"))
        if references[page]:
            found.append(
                ("I11", "double-free", page, f"block {page} is free and has {references[page]} references")
            )
    if len(free) != view.free_count():
        found.append(
            (
                "I11",
                "miscount",
                -1,
                f"{len(free)} blocks are queued as free, the pool counts {view.free_count()}",
            )
        )
    held = Counter(page for table in view.tables().values() for page in table)
    waiting = set(free)
    for page in range(1, view.total() + 1):
        owners = held.get(page, 0)
        if references[page] > owners:
            found.append(
                ("I11", "leak", page, f"block {page} has {references[page]} references and {owners} holders")
            )
        elif references[page] < owners:
            found.append(
                (
                    "I11",
                    "unpinned",
                    page,
                    f"block {page} has {owners} holders and {references[page]} references",
                )
            )
        elif not owners and page not in waiting:
            found.append(("I11", "leak", page, f"block {page} is neither free nor held"))
    found += _index(view)
    return found


def _index(view: PoolView) -> list[Breach]:
    said = {(key, page) for page, keys in view.hashes().items() for key in keys}
    listed = {(key, page) for key, pages in view.index().items() for page in pages}
    found = [
        ("I8", "stale-index", page, f"the index leads to block {page}, which has another key")
        for _, page in listed - said
    ]
    return found + [
        ("I8", "lost-index", page, f"block {page} has a key that the index lacks")
        for _, page in said - listed
    ]
