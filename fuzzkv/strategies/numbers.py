"""Small numbers out of bytes that Hypothesis draws, and operations out of those."""

from __future__ import annotations

from collections.abc import Sequence

from fuzzkv.strategies.space import Operation, Row


class Numbers:
    """Small numbers out of drawn bytes, one a byte; zeros when they are used up."""

    def __init__(self, drawn: bytes) -> None:
        self._drawn, self._at = drawn, 0

    def below(self, count: int) -> int:
        """A number below ``count`` (at most 256)."""
        self._at += 1
        return self._drawn[self._at - 1] % count if self._at <= len(self._drawn) else 0

    def wide(self) -> int:
        """A number below 2^24."""
        return self.below(256) << 16 | self.below(256) << 8 | self.below(256)

    def between(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``."""
        return low + self.below(high - low + 1)

    def rows(self, operations: Sequence[Operation], count: int) -> list[Row]:
        """At most so many of these operations: a row of zeros is none, since bytes become zero more easily than fewer."""
        found = []
        for _ in range(count):
            began = self._at
            operation = operations[self.below(len(operations))]
            numbers = tuple(self.between(low, high) for low, high in operation.bounds)
            if any(self._drawn[began : self._at]):
                found.append((operation.name, numbers))
        return found
