"""What a live case keeps of the runs that showed it: the page-event log of the whole set, and what each arm came to.

It is no part of the id, so it can be written anew: the log of the same schedule on another engine is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fuzzkv.targets.base import Arm
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.policies import LivePolicy

SCHEMA_VERSION: Final = 1
MOST_ROWS: Final = 4000
"""Rows of a kept log, at most; a longer one isn't kept, since half a log would tell a wrong story."""
MOST_NUMBERS: Final = 2048
"""Numbers of one row, at most."""
COUNTED: Final = ("hits", "loads", "preemptions", "stores", "window_frees")
"""What an arm is asked for besides what shows that its policies acted."""


def history_of(arms: Sequence[Arm[LivePolicy]]) -> dict[str, Any] | None:
    """The kept history of arms of all subsets, the whole set last; ``None`` where the log is too long or there is none."""
    log = arms[-1].history.log
    if not log or len(log) > MOST_ROWS or any(len(row) > MOST_NUMBERS for row in log):
        return None
    return {
        "schema_version": SCHEMA_VERSION,
        "log": [list(row) for row in log],
        "arms": [_arm(arm) for arm in arms],
    }


def _arm(arm: Arm[LivePolicy]) -> dict[str, Any]:
    history: LiveHistory = arm.history
    wanted = {name for policy in arm.policies for name in policy.exercised} | set(COUNTED)
    return {
        "policies": list(arm.names),
        "steps": history.steps,
        "requests": len(history.tokens),
        "tokens": sum(token >= 0 for made in history.tokens for token in made),
        "counters": {name: history.acts[name] for name in sorted(wanted) if history.acts.get(name)},
    }
