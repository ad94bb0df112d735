"""Shrinks a filed case of a session again: a shorter schedule of its class on the engine of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fuzzkv.cases.session_cases import make_session_case
from fuzzkv.cases.session_shrink import TRIES, SessionShrinker
from fuzzkv.errors import UsageError
from fuzzkv.targets.base import P, S, Target

KEEP: Final = 4
"""Engines at once: a pair's subsets."""


def shrink_on(
    target: Target[S, P],
    case: Mapping[str, Any],
    allowed: Mapping[str, P] | None = None,
    *,
    tries: int = TRIES,
) -> dict[str, Any]:
    """A case shrunk on its target; the same one if nothing makes it shorter.

    Raises as ``target.read`` does, and FKV024 for a case that doesn't fail any more or fails with fewer policies.
    """
    recipe = target.read(case, allowed)
    configured = target.configured_as(case)
    session = configured.session(keep=KEEP)
    try:
        shrinker = SessionShrinker(session, configured.language, recipe.failure_class, recipe.policies, tries)
        done = shrinker.shrink(recipe.schedule) if shrinker.interesting(recipe.schedule) else None
    finally:
        session.close()
    if done is None:
        raise UsageError(
            code="FKV024",
            value=str(case["id"]),
            reason=f"on {configured.engine} it doesn't fail, or fewer policies fail too, so there is nothing to shrink",
            cure="Replay it: it may be fixed on this version.",
        )
    schedule, arms = done
    found = case["found"]
    made = make_session_case(
        configured,
        arms,
        recipe.failure_class,
        schedule,
        seed=found["seed"],
        schedules=found["schedules"],
        minimal=shrinker.tried < tries,
    )
    # What makes nothing shorter changes nothing of the case.
    return dict(case) if made["id"] == case["id"] else made
