"""Results of a live hunt: one row a policy set, and the outcome of the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT, EXIT_INTERRUPTED
from fuzzkv.events import Outcome
from fuzzkv.search.live.admission import Entrant
from fuzzkv.search.live.plans import Set


@dataclass
class SetRow:
    """What the search of one set came to: ``touched`` counts schedules in which all its policies acted, ``words`` verdicts."""

    policies: Set
    schedules: int = 0
    steps: int = 0
    states: int = 0
    failing: int = 0
    touched: int = 0
    note: str = ""
    words: Counter[str] = field(default_factory=Counter)
    exercised: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """Plain data for a report."""
        return {
            "policies": [p.name for p in self.policies],
            "schedules": self.schedules,
            "steps": self.steps,
            "new_states": self.states,
            "failing": self.failing,
            "all_acted": self.touched,
            "verdicts": dict(sorted(self.words.items())),
            "exercised": dict(sorted(self.exercised.items())),
            "note": self.note,
        }


def judged(
    entrants: Sequence[Entrant], rows: Sequence[SetRow], *, conflict: bool, interrupted: bool
) -> tuple[Outcome, int, str]:
    """Outcome, exit code and words.  ``entrants``: the plain engine, then the policies; ``conflict``: there are cases."""
    if interrupted:
        return "interrupted", EXIT_INTERRUPTED, "What was found so far is filed."
    left_out = [f"{e.name} ({e.standing})" for e in entrants if not e.takes_part]
    sometimes = [e.name for e in entrants if e.standing == "sometimes"]
    text = f"Left out: {', '.join(left_out)}." if left_out else ""
    if sometimes:
        text = (
            f"{text} Alone under some schedules, which is no conflict, fails: {', '.join(sometimes)}.".strip()
        )
    if conflict:
        return "conflict", EXIT_CONFLICT, text
    left = sum(e.takes_part for e in entrants[1:])
    if left < min(2, len(entrants) - 1) or not (entrants and entrants[0].takes_part):
        return "failed", EXIT_ENVIRONMENT, f"Too few are left to look at together. {text}".strip()
    if left > 1 and not any(row.touched for row in rows):
        return "vacuous", EXIT_ENVIRONMENT, f"In no run did all policies of a set act. {text}".strip()
    return "clean", EXIT_CLEAN, text
