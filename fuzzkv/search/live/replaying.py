"""Replays a live case: every subset of its policies under its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fuzzkv.cases.live_cases import LiveRecipe, read_live_case, violation_entry
from fuzzkv.cases.live_history import history_of
from fuzzkv.targets.vllm.arms import Arms, Judge
from fuzzkv.targets.vllm.policies import LivePolicy
from fuzzkv.targets.vllm.pool.engine_pool import Lives, Start

KEEP = 3


@dataclass(frozen=True)
class LiveReplayed:
    """What it came to: ``fails`` says whether the case still fails, ``None`` if a subset fails too; ``kept`` has the parts
    of a case that tell of this run, where it fails.
    """

    verdict: str
    detail: str
    fails: bool | None
    kept: Mapping[str, Any] = field(default_factory=dict)


def replay_live(
    case: Mapping[str, Any],
    start: Start,
    judge: Judge,
    allowed: Mapping[str, LivePolicy] | None = None,
) -> LiveReplayed:
    """Run a live case.  Raises as ``read_live_case`` does, and what ``start`` raises."""
    recipe = read_live_case(case, allowed=allowed)
    lives = Lives(start, recipe.base, keep=KEEP)
    try:
        return _replayed(recipe, Arms(lives, judge))
    finally:
        lives.close()


def _replayed(recipe: LiveRecipe, arms: Arms) -> LiveReplayed:
    kind = recipe.kind
    whole = arms.run(recipe.policies, recipe.schedule, fresh=True)
    of = (1 << len(recipe.policies)) - 1
    shown = f"{kind.invariant} {kind.what}"
    if kind not in whole.kinds():
        other = ", ".join(f"{k.invariant} {k.what}" for k in whole.kinds())
        rest = f"; instead {other}" if other else ""
        return LiveReplayed("passes", f"{shown} is not shown any more{rest}", False)
    below = list(arms.subsets(recipe.policies, recipe.schedule))
    if below and below[-1].failed:
        names = " + ".join(below[-1].names) or "the plain engine"
        word = "single-policy" if len(below[-1].names) == 1 else "fails with fewer"
        return LiveReplayed(word, f"{names} fails under this schedule already", None)
    violation = next(v for v in whole.violations if whole.kind_of(v) == kind)
    log = history_of([*below, whole])
    kept = {"history": log, "violation": violation_entry(kind, violation)} if log is not None else {}
    return LiveReplayed("fails", f"{shown}: {violation.text}; {len(below)} of {of} subsets pass", True, kept)
