"""Finds the layout of KV blocks: known numbers are written, and looked for in the bytes.

An attention backend packs keys and values as its kernels like them (transposed, interleaved, padded), and each
number format may have a packing of its own. So nothing is assumed: a callback writes keys and values with the
backend's own code, and the digits that come out tell which place belongs to which token, head and channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fuzzkv.errors import EnvironmentFailure

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_DIGITS: Final = 3
"""Values 1 to 3 are exact in every number format in use, and 0 is what was never written."""

_WIDTHS: Final = {"float32": 4, "float16": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}


@cache
def table(encoding: str) -> Floats:
    """The values of the 256 bytes of an 8-bit format: ``fp8_e4m3`` (no infinities) or ``fp8_e5m2``."""
    mantissa, bias = (3, 7) if encoding == "fp8_e4m3" else (2, 15)
    raw = np.arange(256)
    sign = np.where(raw & 128, -1.0, 1.0)
    exponent, fraction = (raw & 127) >> mantissa, raw & ((1 << mantissa) - 1)
    normal = np.exp2(exponent - float(bias)) * (1 + fraction / (1 << mantissa))
    value = sign * np.where(exponent == 0, np.exp2(1.0 - bias) * fraction / (1 << mantissa), normal)
    if encoding == "fp8_e4m3":
        value[(raw & 127) == 127] = np.nan
    else:
        value[exponent == 31] = np.nan
        value[(raw & 127) == 124] = np.inf * sign[(raw & 127) == 124]
    return np.asarray(value, np.float32)


def decode(data: Bytes, encoding: str) -> Floats:
    """Bytes (.., n) as numbers (.., n / width)."""
    data = np.ascontiguousarray(data)
    if encoding == "float32":
        return data.view(np.float32)
    if encoding == "float16":
        return data.view(np.float16).astype(np.float32)
    if encoding == "bfloat16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.asarray(table(encoding)[data])


def rounder(encoding: str, *, toward_zero: bool = False) -> Callable[[Floats], Floats]:
    """Rounds numbers to those that the format has, saturating: to the nearest (even mantissa on a tie), or toward
    zero."""
    if encoding == "float32":
        return lambda x: x
    if encoding == "float16":
        return lambda x: x.astype(np.float16).astype(np.float32)
    if encoding == "bfloat16":

        def to_bfloat16(x: Floats) -> Floats:
            raw = np.ascontiguousarray(x, np.float32).view(np.uint32)
            return ((raw + 0x7FFF + ((raw >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)

        return to_bfloat16
    grid = table(encoding)[:128]
    grid = grid[np.isfinite(grid)]

    def to_grid(x: Floats) -> Floats:
        size = np.abs(x)
        low = np.searchsorted(grid, size, side="right") - 1
        high = np.minimum(low + 1, len(grid) - 1)
        left, right = size - grid[low], grid[high] - size
        up = (right < left) | ((right == left) & (high % 2 == 0))
        chosen = grid[low] if toward_zero else np.where(up, grid[high], grid[low])
        return np.asarray(np.copysign(chosen, x), np.float32)

    return to_grid


@dataclass(frozen=True)
class Layout:
    """Places of a page, counted in numbers of ``encoding``: ``keys`` and ``values`` are (block tokens, kv heads,
    head size) arrays of places; ``toward_zero`` how the backend rounds to it."""

    encoding: str
    keys: NDArray[np.int64]
    values: NDArray[np.int64]
    size: int
    toward_zero: bool = False

    @property
    def block(self) -> int:
        """Tokens in a page."""
        return int(self.keys.shape[0])

    @property
    def rounding(self) -> Callable[[Floats], Floats]:
        """What storing does to numbers."""
        return rounder(self.encoding, toward_zero=self.toward_zero)

    def numbers(self, pages: Bytes) -> Floats:
        """The numbers of pages (.., page bytes), in the page's own order."""
        return decode(pages[..., : self.size * _WIDTHS[self.encoding]], self.encoding)

    def page(self, keys: Floats, values: Floats) -> Floats:
        """The numbers of a page whose first slots hold these keys and values; the rest is NaN."""
        page = np.full(self.size, np.nan, np.float32)
        n = keys.shape[0]
        page[self.keys[:n].reshape(-1)] = keys.reshape(-1)
        page[self.values[:n].reshape(-1)] = values.reshape(-1)
        return page


def find_layout(
    write: Callable[[Floats, Floats], Bytes], *, encoding: str, block: int, heads: int, head: int
) -> Layout:
    """Find the layout through ``write(keys, values)``, which zeroes a page, has the backend write (block, heads,
    head) arrays into its slots, and gives the page's bytes. Raises FKV110 where the digits don't come out.
    """
    if encoding not in _WIDTHS:
        raise _unknown(encoding, "no number format that fuzzkv can decode")
    count = 2 * block * heads * head
    codes = np.arange(count).reshape(2, block, heads, head)
    found: Any = None
    for power in range(int(np.ceil(np.log(count) / np.log(_DIGITS)))):
        digits = (codes // _DIGITS**power % _DIGITS + 1).astype(np.float32)
        numbers = decode(write(digits[0], digits[1]), encoding)
        if found is None:
            found, written = np.zeros(numbers.shape, np.int64), numbers != 0
        good = np.isin(numbers[written], (1.0, 2.0, 3.0))
        if not good.all() or (numbers[~written] != 0).any():
            raise _unknown(encoding, "what was written doesn't come out of the page as it went in")
        found[written] += (numbers[written].astype(np.int64) - 1) * _DIGITS**power
    places = np.flatnonzero(written)
    if len(places) != count or not np.array_equal(np.sort(found[places]), np.arange(count)):
        raise _unknown(encoding, f"{len(places)} places were written for {count} numbers, or some twice")
    at = np.empty(count, np.int64)
    at[found[places]] = places
    keys, values = at.reshape(2, block, heads, head)
    sample = np.random.default_rng(1).standard_normal((2, block, heads, head)).astype(np.float32)
    stored = decode(write(sample[0], sample[1]), encoding)[np.stack((keys, values))]
    for toward_zero in (False, True):
        if np.array_equal(stored, rounder(encoding, toward_zero=toward_zero)(sample)):
            return Layout(encoding, keys, values, int(found.shape[0]), toward_zero)
    raise _unknown(encoding, "it rounds neither to the nearest number nor toward zero")


def _unknown(encoding: str, reason: str) -> EnvironmentFailure:
    return EnvironmentFailure(
        code="FKV110",
        value=encoding,
        reason=f"the layout of this build's KV pages was not found: {reason}",
        cure="Pages of this format can't be read, so only tokens are compared.",
    )
