"""Replays a case on its target: every subset of its policies under its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fuzzkv.cases.session_cases import violation_entry
from fuzzkv.targets.arms import below
from fuzzkv.targets.base import P, S, Session, SessionRecipe, Target

KEEP: Final = 3


@dataclass(frozen=True)
class Replayed:
    """What it came to: ``fails`` says whether the case still fails, ``None`` if a subset fails too; ``kept`` has the parts
    of a case that tell of this run, where it fails.
    """

    verdict: str
    detail: str
    fails: bool | None
    kept: Mapping[str, Any] = field(default_factory=dict)


def replay_on(
    target: Target[S, P], case: Mapping[str, Any], allowed: Mapping[str, P] | None = None
) -> Replayed:
    """Run a case on its target.  Raises as ``target.read`` does, and what its session raises."""
    recipe = target.read(case, allowed)
    configured = target.configured_as(case)
    session = configured.session(keep=KEEP)
    try:
        return _replayed(configured, session, recipe)
    finally:
        session.close()


def _replayed(target: Target[S, P], session: Session[P], recipe: SessionRecipe[S, P]) -> Replayed:
    kind = recipe.failure_class
    whole = session.run(recipe.policies, recipe.schedule, fresh=True)
    of = (1 << len(recipe.policies)) - 1
    shown = f"{kind.invariant} {kind.action}"
    same = [k for k in whole.classes() if k.invariant == kind.invariant]
    if not same:
        other = ", ".join(f"{k.invariant} {k.action}" for k in whole.classes())
        rest = f"; instead {other}" if other else ""
        return Replayed("passes", f"{shown} is not shown any more{rest}", False)
    ran = list(below(session, recipe.policies, recipe.schedule))
    if ran and ran[-1].failed:
        names = " + ".join(ran[-1].names) or "the plain engine"
        word = "single-policy" if len(ran[-1].names) == 1 else "fails with fewer"
        return Replayed(word, f"{names} fails under this schedule already", None)
    if kind not in same:
        # The invariant is what the case is about; what broke it may change with a release.
        kind = same[0]
        shown = f"{shown}, now at {kind.action}"
    failure = next(f for f in whole.outcome.failures if whole.class_of(f) == kind)
    text = f": {failure.text}" if failure.text else ""
    log = target.kept_history([*ran, whole])
    kept = {"history": dict(log), "violation": violation_entry(kind, failure)} if log is not None else {}
    return Replayed("fails", f"{shown}{text}; {len(ran)} of {of} subsets pass", True, kept)
