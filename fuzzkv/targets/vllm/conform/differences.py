"""A difference between a model and an engine, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NO_WORD, REFUSED, STATE, INVARIANT = "no word", "refused", "state", "invariant"
CLASSES: Final = (NO_WORD, REFUSED, STATE, INVARIANT)
"""The engine does what the model has no primitive for; the model says that it can't happen here; both go on and disagree about a
page; an invariant of the model objects."""


@dataclass(frozen=True)
class Difference:
    """``what`` is a machine word for what differs, ``row`` the number of the log's entry at which it shows, ``step`` the engine step;
    ``facts`` is all that a known gap may look at; ``gap`` names the gap that explains it, empty if none does."""

    kind: str
    what: str
    text: str
    row: int = -1
    step: int = -1
    facts: Mapping[str, int] = field(default_factory=dict)
    gap: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain data for a report."""
        return {
            "class": self.kind,
            "what": self.what,
            "text": self.text,
            "row": self.row,
            "step": self.step,
            "facts": dict(self.facts),
            "gap": self.gap,
        }
