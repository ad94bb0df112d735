"""Default budgets of a hunt and a gate, in schedules."""

from __future__ import annotations

from typing import Final

BUDGET: Final = 2_000_000
"""Schedules of a search."""
ENFORCED: Final = 10
"""A hunt with the contract enforced looks this many times longer."""
ALONE: Final = 100_000
"""Schedules on which each policy is tried alone before it is tried beside others."""
CHUNK: Final = 50_000
"""Schedules of a round, after which progress is told and what is new is filed."""
FREE: Final = 20
"""A set with a free policy, which is called back in Python, is searched this many times shorter."""
GENERATED: Final = 10
"""Of the schedules for such a set, Hypothesis generates one in so many; the compiled generator draws the others."""
