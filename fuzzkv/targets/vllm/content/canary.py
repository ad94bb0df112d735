"""Ghost tags in KV bytes: which token and position each slot of a block holds, read from the block itself.

In the first layer a slot's value depends on the token alone and its key on the token and its position. So a page can
be read like text: which token at which position each slot holds. Foreign, stale, shifted, half-filled and overwritten
pages are *named*, not guessed. Deeper layers depend on everything before, so a full page is also compared there with
:class:`~fuzzkv.targets.vllm.content.reference.Reference`; what fails only there was computed behind another prefix.

After every step :meth:`Canary.check` looks at every block that a request may read. A page that was found good is kept
as an image: as long as it equals its image, byte for byte, nothing is computed for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fuzzkv.targets.vllm.content.layout import Bytes, Layout
from fuzzkv.targets.vllm.content.naming import Held, Known, PageMismatch, Scene
from fuzzkv.targets.vllm.content.reading import PageReader, Slot


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
        self.reader = PageReader(model, layout, adapters)
        self.layers = tuple(layers) or tuple(range(len(self.reader.tables[0].model.layers)))
        self._images: list[Bytes] = []
        self._known: dict[int, Known] = {}
        self._numbers: dict[int, list[int]] = {}
        self._moved: set[int] = set()
        self.unseen: set[int] = set()
        """Pages that changed since the look before the last one and that nobody held at the last."""
        self.checked = 0

    def known(self, page: int) -> Known | None:
        """The content that a page was last found to have; None if it wasn't looked at since it changed."""
        return None if page in self._moved else self._known.get(page)

    def forget(self) -> None:
        """Begin anew: no page was ever looked at (after a reset of the engine)."""
        self._images, self._known, self._numbers, self.checked = [], {}, {}, 0
        self._moved, self.unseen = set(), set()
        self.reader.forget()

    def read(self, page: Bytes, adapter: int = 0) -> list[Slot]:
        """The content of every slot of a page of layer 0 (:meth:`PageReader.read`)."""
        return self.reader.read(page, adapter)

    def check(self, pages: Sequence[Bytes], held: Sequence[Held]) -> list[PageMismatch]:
        """All pages that requests may read and that don't hold what they should. A page is told once: what it
        holds is taken as known from then on."""
        changed = self._changed(pages)
        todo: list[tuple[Held, int, int, int, Known]] = []
        block = self.layout.block
        for one in held:
            numbers = self._prefix(one)
            for index in range(min(-(-one.computed // block), len(one.blocks))):
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
                todo.append((one, page, index, number, Known(identity, one.request, start, tokens)))
        self.checked += len(todo)
        findings = self._verify(pages, todo, held) if todo else []
        for _, page, _, _, known in todo:
            self._known[page] = known
        moved = np.flatnonzero(changed)
        self.unseen = {int(page) for page in moved} - {page for _, page, _, _, _ in todo}
        self._moved = (self._moved | self.unseen) - {page for _, page, _, _, _ in todo}
        for image, layer in zip(self._images, pages, strict=True):
            image[moved] = layer[moved]
        return findings

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
        chain, block, numbers = self.reader.tables[adapter].chain, self.layout.block, []
        for index in range(begin, full):
            parent = chain.block(parent, tuple(tokens[index * block : (index + 1) * block]))
            numbers.append(parent)
        return numbers

    def _verify(
        self,
        pages: Sequence[Bytes],
        todo: Sequence[tuple[Held, int, int, int, Known]],
        held: Sequence[Held],
    ) -> list[PageMismatch]:
        if self.layers[0]:
            good = np.ones((len(todo), self.layout.block), bool)
        else:
            numbers = self.layout.numbers(pages[0][[page for _, page, _, _, _ in todo]])
            wanted = [(one.adapter, known.start, known.tokens) for one, _, _, _, known in todo]
            good = self.reader.slots(numbers, wanted)
        findings, scene = list[PageMismatch](), Scene(self.reader, self._known, held)
        for i, (one, page, _, number, known) in enumerate(todo):
            slots = good[i, : len(known.tokens)]
            if not slots.all():
                findings.append(scene.name(pages[0][page], one, page, known, slots))
            elif number >= 0 and (layer := self._deeper(pages, one, page, number)) >= 0:
                data = pages[self.layers.index(layer)][page]
                findings.append(scene.name_deep(data, one, page, known, layer, not self.layers[0]))
        return findings

    def _deeper(self, pages: Sequence[Bytes], one: Held, page: int, number: int) -> int:
        """The first deeper layer of a full page that isn't as wanted, or -1."""
        for layer, data in zip(self.layers, pages, strict=True):
            if layer and not self.reader.same_block(data[page], layer, one.adapter, number):
                return layer
        return -1
