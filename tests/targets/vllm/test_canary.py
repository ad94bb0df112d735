"""The canary on bytes, without an engine: each way a page can be wrong is named, and right pages are silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.vllm.content.canary import Canary
from fuzzkv.targets.vllm.content.layout import Layout, find_layout, rounder, table
from fuzzkv.targets.vllm.content.naming import INVARIANT, Held
from fuzzkv.targets.vllm.content.reference import Reference
from fuzzkv.targets.vllm.engine.models import adapter, build

BLOCK, HEAD = 32, 32
SIZE = 2 * BLOCK * HEAD


def encode(numbers: Any, encoding: str) -> Any:
    """Numbers that the format has, as bytes."""
    if encoding == "float32":
        return np.ascontiguousarray(numbers, np.float32).view(np.uint8)
    values = table(encoding)
    order = np.argsort(np.where(np.isfinite(values), values, np.inf), kind="stable")
    return order[np.searchsorted(values[order], numbers)].astype(np.uint8)


def packer(encoding: str, *, toward_zero: bool = False) -> Callable[[Any, Any], Any]:
    """A backend: keys transposed, then values, as the CPU's kernels like it."""

    def write(keys: Any, values: Any) -> Any:
        flat = np.concatenate((keys[:, 0].T.reshape(-1), values[:, 0].reshape(-1)))
        return encode(rounder(encoding, toward_zero=toward_zero)(flat), encoding)

    return write


def layout(encoding: str = "float32", *, toward_zero: bool = False) -> Layout:
    return find_layout(
        packer(encoding, toward_zero=toward_zero), encoding=encoding, block=BLOCK, heads=1, head=HEAD
    )


@pytest.fixture(scope="module")
def shared() -> Any:
    return Canary(build("tiny").path, layout(), [adapter(1).path, adapter(2).path])


class Pool:
    """Pages as an engine would have written them."""

    def __init__(self, shared: Canary, blocks: int = 8) -> None:
        self.canary, self.layout = shared, shared.layout
        shared.forget()
        self.models = [one.model for one in shared.reader.tables]
        self.pages = [np.zeros((blocks, SIZE * 4), np.uint8) for _ in range(2)]

    def fill(
        self, tokens: Any, blocks: Any, *, start: int = 0, upto: int | None = None, adapter: int = 0
    ) -> None:
        made = self.models[adapter].extend([], tokens[:upto], 0)
        for layer, (keys, values) in enumerate(made):
            numbers = self.pages[layer].view(np.float32)
            for position in range(start, len(keys)):
                page, slot = blocks[position // BLOCK], position % BLOCK
                numbers[page, self.layout.keys[slot]] = keys[position]
                numbers[page, self.layout.values[slot]] = values[position]

    def check(self, *held: Held) -> list[tuple[str, str, int, int]]:
        found = self.canary.check(self.pages, held)
        assert all(f.invariant == INVARIANT[f.what] and f.text for f in found)
        return [(f.what, f.invariant, f.request, f.page) for f in found]


@pytest.fixture
def pool(shared: Canary) -> Pool:
    return Pool(shared)


def words(seed: int, count: int = 80) -> tuple[int, ...]:
    return tuple(int(t) for t in np.random.default_rng(seed).integers(3, 500, count))


A, B = words(1), words(2)


def test_right_pages_are_silent(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3))
    pool.fill(B, (4, 5, 6))
    assert pool.check(Held(0, A, 80, (1, 2, 3)), Held(1, B, 80, (4, 5, 6))) == []
    assert pool.canary.checked == 6
    assert pool.check(Held(0, A, 80, (1, 2, 3)), Held(1, B, 80, (4, 5, 6))) == []
    assert pool.canary.checked == 6, "unchanged pages are not read again"


def test_a_page_grows_token_by_token(pool: Pool) -> None:
    for n in range(60, 70):
        pool.fill(A, (1, 2, 3), upto=n)
        assert pool.check(Held(0, A, n, (1, 2, 3))) == []


def test_shared_prefixes_and_reused_frames_are_silent(pool: Pool) -> None:
    other = (*A[:64], *B[:10])
    pool.fill(A, (1, 2, 3))
    pool.fill(other, (1, 2, 4), start=64)
    assert pool.check(Held(0, A, 80, (1, 2, 3)), Held(1, other, 74, (1, 2, 4))) == []
    pool.fill(B, (3, 1, 5))
    assert pool.check(Held(1, other, 64, (1, 2, 4)), Held(2, B, 80, (3, 1, 5))) != [], "page 1 was shared"


def test_what_was_not_computed_is_not_looked_at(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3), upto=40)
    assert pool.check(Held(0, A, 40, (1, 2, 3))) == []
    assert pool.check(Held(0, A, 0, (4, 5, 6))) == []


def test_the_null_block_is_no_page(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3))
    assert pool.check(Held(0, A, 80, (0, 2, 3))) == []


def test_unfilled(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3), upto=32)
    assert pool.check(Held(0, A, 64, (1, 2, 3))) == [("unfilled", "I3", 0, 2)]


def test_half_filled_by_zeros_and_by_poison(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3), upto=48)
    assert pool.check(Held(0, A, 64, (1, 2, 3))) == [("half-filled", "I3", 0, 2)]
    pool.fill(A, (1, 2, 3))
    pool.pages[0].view(np.float32)[1, pool.layout.values[20:]] = np.nan
    assert pool.check(Held(0, A, 80, (1, 2, 3))) == [("half-filled", "I3", 0, 1)]


def test_stale(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3))
    assert pool.check(Held(0, A, 80, (1, 2, 3))) == []
    pool.fill(B, (4, 5, 3), upto=64)
    assert pool.check(Held(1, B, 80, (4, 5, 3))) == [("stale", "I3", 1, 3)]


def test_foreign(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3))
    pool.fill(B, (4, 5, 6))
    for layer in pool.pages:
        layer[5] = layer[2]
    found = pool.canary.check(pool.pages, [Held(0, A, 80, (1, 2, 3)), Held(1, B, 80, (4, 5, 6))])
    assert [(f.what, f.request, f.page) for f in found] == [("foreign", 1, 5)]
    assert found[0].text == "block 1 of request 1, slots 0-31: request 0's positions 32-63"


def test_overwritten(pool: Pool) -> None:
    """A late copy of an earlier owner's bytes into a frame that was good before."""
    pool.fill(A, (1, 2, 3))
    pool.fill(B, (4, 5, 6))
    both = (Held(0, A, 80, (1, 2, 3)), Held(1, B, 80, (4, 5, 6)))
    assert pool.check(*both) == []
    for layer in pool.pages:
        layer[4] = layer[1]
    assert pool.check(*both) == [("overwritten", "I2", 1, 4)]
    assert pool.check(*both) == [], "told once"


def test_shifted(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3))
    assert pool.check(Held(0, A, 80, (2, 1, 3))) == [("shifted", "I5", 0, 2), ("shifted", "I5", 0, 1)]


def test_another_adapter(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3), adapter=2)
    assert pool.check(Held(0, A, 32, (1, 2, 3), 2)) == []
    assert pool.check(Held(1, A, 32, (1, 2, 3), 1)) == [("adapter", "I7", 1, 1)]


def test_right_tokens_behind_another_prefix(pool: Pool) -> None:
    """Only a deeper layer can tell."""
    pool.fill((*B[:32], *A[32:]), (1, 2, 3))
    pool.fill(A, (4, 5, 6))
    assert pool.check(Held(0, A, 64, (4, 2, 6))) == [("context", "I7", 0, 2)]


def test_garbled(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3))
    pool.pages[0][2] = np.random.default_rng(3).standard_normal(SIZE).astype(np.float32).view(np.uint8)
    assert pool.check(Held(0, A, 80, (1, 2, 3))) == [("garbled", "I5", 0, 2)]


def test_a_deeper_layer_that_stayed_behind(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3))
    pool.pages[1][1] = 0
    assert pool.check(Held(0, A, 80, (1, 2, 3))) == [("context", "I7", 0, 1)]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    ("slots", "by", "rounded"), [(1, 4e-3, True), (7, 4e-3, True), (8, 4e-3, False), (1, 0.5, False)]
)
def test_under_an_adapter_some_slots_may_be_rounded(
    pool: Pool, number: int, slots: int, by: float, rounded: bool
) -> None:
    pool.fill(A, (1, 2, 3), adapter=number)
    keys = pool.layout.keys[:slots].reshape(slots, -1)[:, 0]
    numbers = pool.pages[1].view(np.float32)
    numbers[2, keys] += by * (1 + np.abs(numbers[2, keys]))
    found = pool.check(Held(0, A, 80, (1, 2, 3), number))
    assert found == ([] if rounded and number else [("context", "I7", 0, 2)])


def test_pages_are_read(pool: Pool) -> None:
    pool.fill(A, (1, 2, 3), upto=40)
    assert pool.canary.read(pool.pages[0][1]) == list(zip(A, range(32), strict=False))
    page = pool.canary.read(pool.pages[0][2])
    assert page[:9] == [*zip(A[32:40], range(32, 40), strict=True), (-1, -1)]


@pytest.mark.parametrize("encoding", ["fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("toward_zero", [False, True])
def test_eight_bit_pages(encoding: str, toward_zero: bool) -> None:
    places = layout(encoding, toward_zero=toward_zero)
    assert places.toward_zero == toward_zero
    canary = Canary(build("tiny").path, places)
    made = Reference(build("tiny").path, stored=places.rounding).extend([], A[:64], 0)
    pages = [
        np.stack(
            [
                np.zeros(SIZE, np.uint8),
                *(encode(places.page(k[i : i + 32], v[i : i + 32]), encoding) for i in (0, 32)),
            ]
        )
        for k, v in made
    ]
    assert canary.read(pages[0][2]) == list(zip(A[32:64], range(32, 64), strict=True))
    assert canary.check(pages, [Held(0, A, 64, (1, 2))]) == []
    canary.forget()
    assert [f.what for f in canary.check(pages, [Held(1, A, 64, (2, 1))])] == ["shifted", "shifted"]
    assert [f.what for f in canary.check(pages, [Held(2, (*B[:32], *A[32:64]), 64, (1, 2))])][-1] == "context"


def test_a_layout_that_does_not_come_out_is_refused() -> None:
    def broken(keys: Any, values: Any) -> Any:
        return packer("float32")(keys, keys)

    with pytest.raises(EnvironmentFailure, match="FKV110"):
        find_layout(broken, encoding="float32", block=BLOCK, heads=1, head=HEAD)
    with pytest.raises(EnvironmentFailure, match="FKV110"):
        find_layout(packer("float32"), encoding="int8_per_token_head", block=BLOCK, heads=1, head=HEAD)


def test_a_group_of_deeper_layers_is_checked_by_its_full_pages(shared: Canary) -> None:
    """The hybrid model's full layers: no tokens to read there, but what request had the bytes is found."""
    canary = Canary(build("hybrid").path, shared.layout, layers=(1, 3))
    model, size = Reference(build("hybrid").path), (8, SIZE * 4)
    pages = [np.zeros(size, np.uint8) for _ in canary.layers]
    for tokens, blocks in ((A, (1, 2)), (B, (3, 4))):
        made = model.extend([], tokens[:64], 0)
        for page, layer in zip(pages, canary.layers, strict=True):
            for i, block in enumerate(blocks):
                part = [x[32 * i : 32 * i + 32] for x in made[layer]]
                page[block] = encode(shared.layout.page(*part), "float32")
    both = [Held(0, A, 70, (1, 2, 7)), Held(1, B, 64, (3, 4))]
    assert canary.check(pages, both) == []
    pages[1][4] = pages[1][2]
    (found,) = canary.check(pages, both)
    assert (found.what, found.request, found.page) == ("foreign", 1, 4)
    assert "what request 0 had in page 2" in found.text
    pages[0][1] = 0
    assert [f.what for f in canary.check(pages, both)] == ["unfilled"]
    pages[0][1] = encode(np.ones(SIZE), "float32")
    assert [f.what for f in canary.check(pages, both)] == ["garbled"]
