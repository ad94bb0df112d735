"""Reads a block of KV back as tokens and positions, by tables of layer 0 with a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from fuzzkv.targets.vllm.content.layout import Bytes, Floats, Layout
from fuzzkv.targets.vllm.content.reference import Chain, Reference

TOLERANCE: Final[dict[str, tuple[float, float]]] = {
    "float32": (2e-3, 1e-3),
    "float16": (0.05, 0.02),
    "bfloat16": (0.1, 0.05),
    "fp8_e4m3": (0.07, 0.13),
    "fp8_e5m2": (0.07, 0.26),
}
"""How far a number may lie from the reference: absolute plus relative. float32 was measured at 1.1e-4 and below; the
8-bit formats agree byte for byte but for one number in a thousand, which is one step off."""
FEW, ROUNDED = 0.25, 10.0
"""Under an adapter a smaller share of a block's slots than this may lie up to so many times as far off in the deeper layers:
2.6e-3 was measured in one slot.  Of blocks behind another prefix that the strict rule sees, this one sees 96 in 100."""

POSITIONS: Final = 2048

EMPTY: Final = (-1, -1)
"""What a slot reads as that nothing was written to."""

Slot = tuple[int, int] | None
"""A token and its position; :data:`EMPTY`; None for neither."""


class Tables:
    """Layer 0 of one model (or adapter): keys before rotation and values of every token; and the chain of its blocks."""

    def __init__(self, model: Reference) -> None:
        layer, every = model.layers[0], np.arange(model.vocabulary)
        scale = np.sqrt((model.embed**2).mean(-1, keepdims=True) + model.epsilon)
        x = model.embed / scale * layer.before
        shape = (len(every), model.kv, model.head)
        self.keys = np.asarray((x @ layer.k.T).reshape(shape), np.float32)
        self.values = model.stored(np.asarray((x @ layer.v.T).reshape(shape), np.float32))
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


class PageReader:
    """Reads pages of the model at ``model``, packed as ``layout`` says; ``adapters`` are PEFT folders, numbered from 1."""

    def __init__(self, model: Path, layout: Layout, adapters: Sequence[Path] = ()) -> None:
        self.layout = layout
        self.tables = [
            Tables(Reference(model, adapter=folder, stored=layout.rounding)) for folder in (None, *adapters)
        ]
        self._absolute, self._relative = TOLERANCE[layout.encoding]

    def near(self, got: Floats, want: Floats, times: float = 1.0) -> Any:
        """Whether numbers count as the same, one by one, within so many times the tolerance."""
        return np.abs(got - want) <= times * (self._absolute + self._relative * np.abs(want))

    def read(self, page: Bytes, adapter: int = 0) -> list[Slot]:
        """The content of every slot of a page of layer 0. Empty: all zeros, or not a number."""
        numbers = self.layout.numbers(page)
        keys, values = numbers[self.layout.keys], numbers[self.layout.values]
        tables, found = self.tables[adapter], list[Slot]()
        for k, v in zip(keys, values, strict=True):
            if not np.isfinite(k).all() or not np.isfinite(v).all() or (not k.any() and not v.any()):
                found.append(EMPTY)
                continue
            token = int(((tables.values - v) ** 2).sum((1, 2)).argmin())
            position = tables.position(token, k)
            key, value = tables.rows([token], [position])
            good = self.near(k, key[0]).all() and self.near(v, value[0]).all()
            found.append((token, position) if good else None)
        return found

    def slots(self, numbers: Floats, wanted: Sequence[tuple[int, int, Sequence[int]]]) -> Any:
        """(pages, block tokens): whether slots of pages of layer 0 (their numbers) are as wanted, an (adapter, first position,
        tokens) each; slots beyond those tokens count as good."""
        good = np.ones((len(wanted), self.layout.block), bool)
        for adapter, tables in enumerate(self.tables):
            mine = [i for i, item in enumerate(wanted) if item[0] == adapter]
            if not mine:
                continue
            lengths = [len(wanted[i][2]) for i in mine]
            tokens = np.fromiter((t for i in mine for t in wanted[i][2]), np.int64)
            slots = np.concatenate([np.arange(n) for n in lengths])
            rows = np.repeat(mine, lengths)
            positions = slots + np.repeat([wanted[i][1] for i in mine], lengths)
            keys, values = tables.rows(tokens, positions)
            here = numbers[rows[:, None, None], self.layout.keys[slots]]
            there = numbers[rows[:, None, None], self.layout.values[slots]]
            good[rows, slots] = (self.near(here, keys) & self.near(there, values)).all((1, 2))
        return good

    def same_block(self, page: Bytes, layer: int, adapter: int, number: int) -> bool:
        """Whether a page of a layer holds a whole block of the adapter's chain."""
        numbers, places = self.layout.numbers(page), self.layout
        got = numbers[places.keys], numbers[places.values]
        want = self.tables[adapter].chain.layers(number)[layer]

        def slots_off(times: float = 1.0) -> int:
            near = [self.near(one, other, times).all((1, 2)) for one, other in zip(got, want, strict=True)]
            return int((~np.logical_and(*near)).sum())

        off = slots_off()
        # An adapter's weights make more of what is rounded, in a slot here and there; another prefix changes nearly all.
        return off == 0 or (adapter > 0 and off < len(got[0]) * FEW and slots_off(ROUNDED) == 0)

    def forget(self) -> None:
        """Begin new chains where too much is remembered."""
        for one in self.tables:
            if one.chain.full:
                one.chain = Chain(one.model)
