"""Names what lies in a block that doesn't hold what it should: foreign, stale, shifted, half-filled or overwritten bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fuzzkv.targets.vllm.content.layout import Bytes
from fuzzkv.targets.vllm.content.reading import EMPTY, PageReader, Slot

INVARIANT: Final[dict[str, str]] = {
    "unfilled": "I3",
    "half-filled": "I3",
    "stale": "I3",
    "overwritten": "I2",
    "foreign": "I2",
    "shifted": "I5",
    "garbled": "I5",
    "adapter": "I7",
    "context": "I7",
}
"""What was found in a page, and the invariant that it breaks."""


@dataclass(frozen=True)
class Held:
    """A request's readable blocks: its tokens, how many of them are computed, its blocks, its adapter (0: none)."""

    request: int
    tokens: Sequence[int]
    computed: int
    blocks: Sequence[int]
    adapter: int = 0


@dataclass(frozen=True)
class PageMismatch:
    """A page that doesn't hold what it should; ``what`` is a key of :data:`INVARIANT`."""

    what: str
    request: int
    page: int
    slot: int
    text: str

    @property
    def invariant(self) -> str:
        """The broken invariant."""
        return INVARIANT[self.what]


@dataclass(frozen=True)
class Known:
    """A page as it was last looked at: for whom, where in the sequence, and its tokens. ``identity`` of a full block is
    (adapter, number in the chain), of the last one (adapter, -1, request, index)."""

    identity: tuple[int, ...]
    request: int
    start: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Scene:
    """The state of the run when a page is found wrong."""

    reader: PageReader
    known: Mapping[int, Known]
    held: Sequence[Held]

    def name(self, data: Bytes, one: Held, page: int, wanted: Known, good: Any) -> PageMismatch:
        """Name what is wrong in a page of layer 0: ``good`` says which slots are as wanted."""
        bad = [int(i) for i in np.flatnonzero(~good)]
        read = self.reader.read(data, one.adapter)
        lies = [read[i] for i in bad]
        before = self.known.get(page)
        where = (
            f"block {wanted.start // self.reader.layout.block} of request {one.request}, slots {_ranges(bad)}"
        )

        def finding(what: str, text: str) -> PageMismatch:
            return PageMismatch(what, one.request, page, bad[0], f"{where}: {text}")

        if all(lie == EMPTY for lie in lies):
            return finding("half-filled" if good.any() else "unfilled", "nothing was written there")
        if before is not None and before.identity == wanted.identity and len(before.tokens) > bad[0]:
            return finding("overwritten", f"good until now, then overwritten by {self._whose(lies, one)}")
        if before is not None and _holds(lies, bad, before):
            return finding("stale", f"still what request {before.request} left there")
        for number in range(len(self.reader.tables)):
            again = self.reader.read(data, number) if number != one.adapter else []
            if again and _holds([again[i] for i in bad], bad, wanted):
                return finding("adapter", f"computed with adapter {number} instead of {one.adapter}")
        named = _named(lies)
        if not named:
            return finding("garbled", "neither a token nor empty")
        if _within(named, one.tokens):
            return finding("shifted", f"the request's own tokens of positions {_positions(named)}")
        return finding("foreign", self._whose(lies, one))

    def name_deep(
        self, data: Bytes, one: Held, page: int, wanted: Known, layer: int, first: bool
    ) -> PageMismatch:
        """Name what is wrong in a full page of a deeper layer; ``first``: layer 0 of the same page was right."""
        where = f"block {wanted.start // self.reader.layout.block} of request {one.request}, layer {layer}"

        def finding(what: str, text: str) -> PageMismatch:
            return PageMismatch(what, one.request, page, 0, f"{where}: {text}")

        if first:
            return finding(
                "context", "the right tokens at the right positions, but computed behind another prefix"
            )
        if not self.reader.layout.numbers(data).any():
            return finding("unfilled", "nothing was written there")
        before = self.known.get(page)
        for other_page, other in sorted(self.known.items()):
            adapter, number, *_ = other.identity
            if other.identity == wanted.identity or number < 0:
                continue
            if self.reader.same_block(data, layer, adapter, number):
                what = "stale" if other is before else "foreign"
                return finding(what, f"what request {other.request} had in page {other_page}")
        return finding("garbled", "other keys and values than its tokens give")

    def _whose(self, lies: Sequence[Slot], one: Held) -> str:
        named = _named(lies)
        if not named:
            return "no token's bytes"
        for other in self.held:
            if other is not one and _within(named, other.tokens):
                return f"request {other.request}'s positions {_positions(named)}"
        for page, known in sorted(self.known.items()):
            at = {known.start + i: t for i, t in enumerate(known.tokens)}
            if all(at.get(p) == t for t, p in named):
                return f"what request {known.request} had in page {page}"
        return "tokens " + ", ".join(f"{t} at {p}" for t, p in named[:3])


def _named(lies: Sequence[Slot]) -> list[tuple[int, int]]:
    return [lie for lie in lies if lie is not None and lie != EMPTY]


def _within(named: Sequence[tuple[int, int]], tokens: Sequence[int]) -> bool:
    return all(p < len(tokens) and tokens[p] == t for t, p in named)


def _holds(lies: Sequence[Slot], slots: Sequence[int], known: Known) -> bool:
    return all(
        slot < len(known.tokens) and lie == (known.tokens[slot], known.start + slot)
        for lie, slot in zip(lies, slots, strict=True)
    )


def _positions(named: Sequence[tuple[int, int]]) -> str:
    return _ranges(sorted(p for _, p in named))


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 7`` for 0, 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
