"""Where Hypothesis begins: an example database that holds one example, so that its shrinker goes on from there."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis.database import ExampleDatabase


class StartFrom(ExampleDatabase):
    """A database that offers ``choices`` (an example as bytes), whatever test asks, and keeps nothing."""

    def __init__(self, choices: bytes) -> None:
        super().__init__()
        self.choices = choices

    def fetch(self, key: bytes) -> Iterable[bytes]:
        """The start."""
        return (self.choices,)

    def save(self, key: bytes, value: bytes) -> None:
        """Nothing is kept."""

    def delete(self, key: bytes, value: bytes) -> None:
        """Nothing is kept."""
