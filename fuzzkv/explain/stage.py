"""Where pages are while a run goes on: what a figure draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

DEVICE: Final = "device"
HOST: Final = "host"
STORE: Final = "external store"

Look = Literal["exact", "8 bits", "4 bits", "other", "unfilled"]


@dataclass(frozen=True)
class Stay:
    """A page is on a tier from one node on until another (-1: the end); ``look``: how good it is there; ``label`` is what is
    written on it.
    """

    lane: str
    name: str
    begin: int
    end: int
    look: Look
    label: str = ""


@dataclass(frozen=True)
class Move:
    """A copy of a page is in flight between two nodes."""

    name: str
    source: str
    target: str
    begin: int
    end: int
    actor: str


@dataclass(frozen=True)
class Stage:
    """Stays and moves of the pages of an explanation; ``tiers`` in the order in which they are drawn."""

    stays: tuple[Stay, ...]
    moves: tuple[Move, ...]
    tiers: tuple[str, ...]
