"""Ghost tags in KV bytes: what lies in a page, read from the page itself.

In the first layer a slot's value depends on the token alone and its key on the token and its position. So a page can
be read like text: which token at which position each slot holds. Foreign, stale, shifted, half-filled and overwritten
pages are *named*, not guessed. Deeper layers depend on everything before, so a full page is also compared there with
:class:`~fuzzkv.live.reference.Reference`; what fails only there was computed behind another prefix.

After every step :meth:`Canary.check` looks at every block that a request may read. A page that was found good is kept
as an image: as long as it equals its image, byte for byte, nothing is computed for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from fuzzkv.live.layout import Bytes, Floats, Layout
from fuzzkv.live.reference import Chain, Reference

TOLERANCE: Final[dict[str, tuple[float, float]]] = {
    "float32": (2e-3, 1e-3),
    "float16": (0.05, 0.02),
    "bfloat16": (0.1, 0.05),
    "fp8_e4m3": (0.07, 0.13),
    "fp8_e5m2": (0.07, 0.26),
}
"""How far a number may lie from the reference: absolute plus relative. float32 was measured at 1.1e-4 and below; the
8-bit formats agree byte for byte but for one number in a thousand, which is one step off."""

POSITIONS: Final = 2048

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
    """What a request may read: its tokens, how many of them are computed, its blocks, its adapter (0: none)."""

    request: int
    tokens: Sequence[int]
    computed: int
    blocks: Sequence[int]
    adapter: int = 0


@dataclass(frozen=True)
class Finding:
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


@dataclass
class _Known:
    """A page as it was last found good: for whom, the block's number in the sequence, and its tokens."""

    identity: tuple[int, ...]
    request: int
    start: int
    tokens: tuple[int, ...]


class _Tables:
    """Layer 0 of one model (or adapter): keys before rotation and values of every token."""

    def __init__(self, model: Reference) -> None:
        layer, every = model.layers[0], np.arange(model.vocabulary)
        scale = np.sqrt((model.embed**2).mean(-1, keepdims=True) + model.epsilon)
        x = model.embed / scale * layer.before
        self.keys = (x @ layer.k.T).reshape(len(every), model.kv, model.head).astype(np.float32)
        self.values = model.stored(
            (x @ layer.v.T).reshape(len(every), model.kv, model.head).astype(np.float32)
        )
        self.chain, self.model = Chain(model), model
        angles = np.arange(POSITIONS, dtype=np.float32)[:, None] * model.frequencies
        self.cos, self.sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]

    def position(self, token: int, key: Floats) -> int:
        """The position whose rotation brings the token's key nearest to this one."""
        (a, b), (x, y) = np.split(self.keys[token], 2, axis=-1), np.split(key, 2, axis=-1)
        # The cosines and sines of all positions against the part of the key that lies along and across it.
        score = self.cos * (a * x + b * y) + self.sin * (a * y - b * x)
        return int(score.sum((1, 2)).argmax())

    def rows(self, tokens: Any, positions: Any) -> tuple[Floats, Floats]:
        """Keys and values of (token, position) pairs."""
        a, b = np.split(self.keys[tokens], 2, axis=-1)
        cos, sin = self.cos[positions], self.sin[positions]
        keys = np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)
        return self.model.stored(keys), self.values[tokens]


class Canary:
    """Reads and checks pages of the model at ``model``, packed as ``layout`` says; ``adapters`` are PEFT folders,
    numbered from 1. ``layers`` are those that share one block table (a KV group; all, if there is one group only). A group without
    layer 0 is checked in full pages only, and what is wrong there is named by comparison. ``pages`` arguments are one array a
    layer of the group, (blocks, page bytes), of unsigned bytes.
    """

    def __init__(
        self, model: Path, layout: Layout, adapters: Sequence[Path] = (), *, layers: Sequence[int] = ()
    ) -> None:
        self.layout = layout
        self._tables = [
            _Tables(Reference(model, adapter=folder, stored=layout.rounding)) for folder in (None, *adapters)
        ]
        self.layers = tuple(layers) or tuple(range(len(self._tables[0].model.layers)))
        self._absolute, self._relative = TOLERANCE[layout.encoding]
        self._images: list[Bytes] = []
        self._known: dict[int, _Known] = {}
        self._numbers: dict[int, list[int]] = {}
        self.checked = 0

    def forget(self) -> None:
        """Begin anew: no page was ever looked at (after a reset of the engine)."""
        self._images, self._known, self._numbers, self.checked = [], {}, {}, 0
        for one in self._tables:
            if one.chain.full:
                one.chain = Chain(one.model)

    # -- reading -----------------------------------------------------------------------------------------

    def read(self, page: Bytes, adapter: int = 0) -> list[tuple[int, int] | None]:
        """(token, position) of every slot of a page of layer 0; (-1, -1) where nothing was written (all zeros or
        not a number), None where it is neither."""
        numbers = self.layout.numbers(page)
        keys, values = numbers[self.layout.keys], numbers[self.layout.values]
        tables, found = self._tables[adapter], list[tuple[int, int] | None]()
        for k, v in zip(keys, values, strict=True):
            if not np.isfinite(k).all() or not np.isfinite(v).all() or (not k.any() and not v.any()):
                found.append((-1, -1))
                continue
            token = int(((tables.values - v) ** 2).sum((1, 2)).argmin())
            position = tables.position(token, k)
            key, value = tables.rows([token], [position])
            good = self._near(k, key[0]).all() and self._near(v, value[0]).all()
            found.append((token, position) if good else None)
        return found

    def _near(self, got: Floats, want: Floats) -> Any:
        return np.abs(got - want) <= self._absolute + self._relative * np.abs(want)

    # -- checking ----------------------------------------------------------------------------------------

    def check(self, pages: Sequence[Bytes], held: Sequence[Held]) -> list[Finding]:
        """All pages that requests may read and that don't hold what they should. A page is told once: what it
        holds is taken as known from then on."""
        changed = self._changed(pages)
        todo: list[tuple[Held, int, int, int, _Known]] = []
        block = self.layout.block
        for one in held:
            numbers = self._prefix(one)
            for index in range(-(-one.computed // block)):
                page, filled = one.blocks[index], min(block, one.computed - index * block)
                if self.layers[0] and filled < block:
                    continue
                known = self._known.get(page)
                number = numbers[index] if index < len(numbers) else -1
                identity = (one.adapter, number) if number >= 0 else (one.adapter, -1, one.request, index)
                if page == 0 or (
                    known and known.identity == identity and filled <= len(known.tokens) and not changed[page]
                ):
                    continue
                start = index * block
                tokens = tuple(one.tokens[start : start + filled])
                todo.append((one, page, index, number, _Known(identity, one.request, start, tokens)))
        self.checked += len(todo)
        findings = self._verify(pages, todo, held) if todo else []
        for _, page, _, _, known in todo:
            self._known[page] = known
        moved = np.flatnonzero(changed)
        for image, layer in zip(self._images, pages, strict=True):
            image[moved] = layer[moved]
        return findings

    def check_page(self, pages: Sequence[Bytes], tokens: Sequence[int], adapter: int = 0) -> Finding | None:
        """Check one full page (``pages``: one row of bytes a layer), for example a host tier's copy, against the
        block that ends these tokens."""
        block = self.layout.block
        index = len(tokens) // block - 1
        numbers = self._chain(-1, tokens, index + 1, adapter)
        held = Held(-1, tokens, len(tokens), [0] * index + [1], adapter)
        known = _Known((adapter, numbers[-1]), -1, index * block, tuple(tokens[index * block :]))
        rows = [np.stack((row, row)) for row in pages]
        before = self._known.pop(1, None)
        found = self._verify(rows, [(held, 1, index, numbers[-1], known)], [held])
        if before is not None:
            self._known[1] = before
        return found[0] if found else None

    def _changed(self, pages: Sequence[Bytes]) -> Any:
        if not self._images:
            self._images = [np.array(layer) for layer in pages]
            return np.ones(pages[0].shape[0], bool)
        changed = np.zeros(pages[0].shape[0], bool)
        for image, layer in zip(self._images, pages, strict=True):
            changed |= (image.view(np.int64) != layer.view(np.int64)).any(1)
        return changed

    def _prefix(self, one: Held) -> list[int]:
        numbers = self._numbers.setdefault(one.request, [])
        full = one.computed // self.layout.block
        if len(numbers) < full:
            numbers += self._chain(
                numbers[-1] if numbers else -1, one.tokens, full, one.adapter, len(numbers)
            )
        return numbers[:full]

    def _chain(
        self, parent: int, tokens: Sequence[int], full: int, adapter: int, begin: int = 0
    ) -> list[int]:
        chain, block, numbers = self._tables[adapter].chain, self.layout.block, []
        for index in range(begin, full):
            parent = chain.block(parent, tuple(tokens[index * block : (index + 1) * block]))
            numbers.append(parent)
        return numbers

    def _verify(
        self,
        pages: Sequence[Bytes],
        todo: Sequence[tuple[Held, int, int, int, _Known]],
        held: Sequence[Held],
    ) -> list[Finding]:
        if self.layers[0]:
            good = np.ones((len(todo), self.layout.block), bool)
        else:
            numbers = self.layout.numbers(pages[0][[page for _, page, _, _, _ in todo]])
            good = self._first_layer(numbers, todo)
        findings = []
        for i, (one, page, _, number, known) in enumerate(todo):
            slots = good[i, : len(known.tokens)]
            if not slots.all():
                findings.append(self._name(pages[0][page], one, page, known, slots, held))
            elif number >= 0 and (layer := self._deeper(pages, one, page, number)) >= 0:
                findings.append(self._name_deep(pages, one, page, known, layer))
        return findings

    def _first_layer(self, numbers: Floats, todo: Sequence[tuple[Held, int, int, int, _Known]]) -> Any:
        """(pages, block tokens): whether the slot is as wanted; slots beyond the filled ones count as good."""
        good = np.ones((len(todo), self.layout.block), bool)
        for adapter, tables in enumerate(self._tables):
            mine = [i for i, item in enumerate(todo) if item[0].adapter == adapter]
            if not mine:
                continue
            lengths = [len(todo[i][4].tokens) for i in mine]
            tokens = np.fromiter((t for i in mine for t in todo[i][4].tokens), np.int64)
            slots = np.concatenate([np.arange(n) for n in lengths])
            rows = np.repeat(mine, lengths)
            positions = slots + np.repeat([todo[i][4].start for i in mine], lengths)
            keys, values = tables.rows(tokens, positions)
            here = numbers[rows[:, None, None], self.layout.keys[slots]]
            there = numbers[rows[:, None, None], self.layout.values[slots]]
            good[rows, slots] = (self._near(here, keys) & self._near(there, values)).all((1, 2))
        return good

    def _deeper(self, pages: Sequence[Bytes], one: Held, page: int, number: int) -> int:
        """The first deeper layer of a full page that isn't as wanted, or -1."""
        for layer, data in zip(self.layers, pages, strict=True):
            if layer and not self._is(data[page], layer, one.adapter, number):
                return layer
        return -1

    def _is(self, data: Bytes, layer: int, adapter: int, number: int) -> bool:
        got = self.layout.numbers(data)
        keys, values = self._tables[adapter].chain.layers(number)[layer]
        places = self.layout
        return bool(self._near(got[places.keys], keys).all() and self._near(got[places.values], values).all())

    # -- naming ------------------------------------------------------------------------------------------

    def _name(
        self, data: Bytes, one: Held, page: int, known: _Known, good: Any, held: Sequence[Held]
    ) -> Finding:
        bad = [int(i) for i in np.flatnonzero(~good)]
        read = self.read(data, one.adapter)
        lies = [read[i] for i in bad]
        before = self._known.get(page)
        where = f"block {known.start // self.layout.block} of request {one.request}, slots {_ranges(bad)}"
        if all(x == (-1, -1) for x in lies):
            what = "half-filled" if good.any() else "unfilled"
            return Finding(what, one.request, page, bad[0], f"{where}: nothing was written there")
        if before is not None and before.identity == known.identity and len(before.tokens) > bad[0]:
            text = f"{where}: good until now, then overwritten by {self._whose(lies, one, held)}"
            return Finding("overwritten", one.request, page, bad[0], text)
        if before is not None and _holds(lies, bad, before.tokens, before.start):
            text = f"{where}: still what request {before.request} left there"
            return Finding("stale", one.request, page, bad[0], text)
        for number in range(len(self._tables)):
            again = self.read(data, number) if number != one.adapter else []
            if again and _holds([again[i] for i in bad], bad, known.tokens, known.start):
                text = f"{where}: computed with adapter {number} instead of {one.adapter}"
                return Finding("adapter", one.request, page, bad[0], text)
        named = [x for x in lies if x is not None and x[0] >= 0]
        if not named:
            return Finding("garbled", one.request, page, bad[0], f"{where}: neither a token nor empty")
        if all(p < len(one.tokens) and one.tokens[p] == t for t, p in named):
            text = f"{where}: the request's own tokens of positions {_ranges(sorted(p for _, p in named))}"
            return Finding("shifted", one.request, page, bad[0], text)
        text = f"{where}: {self._whose(lies, one, held)}"
        return Finding("foreign", one.request, page, bad[0], text)

    def _name_deep(self, pages: Sequence[Bytes], one: Held, page: int, known: _Known, layer: int) -> Finding:
        where = f"block {known.start // self.layout.block} of request {one.request}, layer {layer}"
        if not self.layers[0]:
            text = f"{where}: the right tokens at the right positions, but computed behind another prefix"
            return Finding("context", one.request, page, -1, text)
        data = pages[self.layers.index(layer)][page]
        if not self.layout.numbers(data).any():
            return Finding("unfilled", one.request, page, 0, f"{where}: nothing was written there")
        before = self._known.get(page)
        for other_page, other in sorted(self._known.items()):
            adapter, number, *_ = other.identity
            if number >= 0 and other.identity != known.identity and self._is(data, layer, adapter, number):
                what = "stale" if other is before else "foreign"
                text = f"{where}: what request {other.request} had in page {other_page}"
                return Finding(what, one.request, page, 0, text)
        return Finding(
            "garbled", one.request, page, 0, f"{where}: other keys and values than its tokens give"
        )

    def _whose(self, lies: Sequence[tuple[int, int] | None], one: Held, held: Sequence[Held]) -> str:
        named = [x for x in lies if x is not None and x[0] >= 0]
        for other in held:
            if (
                named
                and other is not one
                and all(p < len(other.tokens) and other.tokens[p] == t for t, p in named)
            ):
                return f"request {other.request}'s positions {_ranges(sorted(p for _, p in named))}"
        for page, known in sorted(self._known.items()):
            at = {known.start + i: t for i, t in enumerate(known.tokens)}
            if named and all(at.get(p) == t for t, p in named):
                return f"what request {known.request} had in page {page}"
        return "tokens " + ", ".join(f"{t} at {p}" for t, p in named[:3]) if named else "no token's bytes"


def _holds(
    lies: Sequence[tuple[int, int] | None], slots: Sequence[int], tokens: Sequence[int], start: int
) -> bool:
    return all(
        slot < len(tokens) and lie == (tokens[slot], start + slot)
        for lie, slot in zip(lies, slots, strict=True)
    )


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 7`` for 0, 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
