"""A live schedule: what happens to an engine, as bounded data. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

BLOCK = 32
"""Tokens in a page."""


@dataclass(frozen=True)
class LiveSchedule:
    """``pool``: device blocks that may be used; ``chunk``: token budget of a step; ``events``: ``(op, a, b, c)``, small integers."""

    pool: int
    chunk: int
    events: tuple[tuple[str, int, int, int], ...]
