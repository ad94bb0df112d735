"""Between runs and files: a shrunk schedule becomes a case, and a case becomes a schedule, policies and a
configuration again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuzzkv import __version__
from fuzzkv.cases.corpus import case_id
from fuzzkv.core.glossary import title
from fuzzkv.oracles.conflict import Finding, findings, smallest_failing
from fuzzkv.policies.labels import ACTORS, LABELS
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.semantics.layout import PAGES
from fuzzkv.targets.model.recipe import Recipe, outcomes


def label_of(names: Sequence[str], finding: Finding) -> str:
    """The design's name of a kind, or an empty string."""
    label = LABELS.get((tuple(names), finding.failure_class.invariant, finding.failure_class.action), "")
    return label if ACTORS.get(label, finding.failure_class.actor) == finding.failure_class.actor else ""


def title_of(names: Sequence[str], finding: Finding) -> str:
    """One line that says what happened."""
    kind = finding.failure_class
    if len(names) == 1:
        return f"{names[0]} alone breaks {BY_ID[kind.invariant].name}"
    return title(tuple(names), kind.invariant, kind.actor, kind.action)


def make_case(recipe: Recipe, invariant: str, *, seed: int, schedules: int) -> dict[str, Any] | None:
    """The case of a shrunk schedule, or ``None`` if the Python interpreter doesn't see this conflict in it."""
    histories = recipe.histories()
    arms = outcomes(histories)
    full = (1 << len(recipe.policies)) - 1
    if full not in smallest_failing(arms):
        return None
    found = next(
        (f for f in findings(arms, full, recipe.schedule.policies) if f.failure_class.invariant == invariant),
        None,
    )
    if found is None:
        return None
    names = recipe.schedule.policies
    violation = found.failure
    case: dict[str, Any] = {
        "schema_version": 1,
        "status": "candidate",
        "label": label_of(names, found),
        "title": title_of(names, found),
        "class": {
            "policies": list(names),
            "invariant": invariant,
            "action": violation.action,
            "actor": violation.actor or "",
        },
        "policies": [
            {"name": p.name, "version": p.version, "parameters": dict(p.parameters)} for p in recipe.policies
        ],
        "config": recipe.config.as_json(),
        "schedule": recipe.schedule.as_json(),
        "violation": {
            "invariant": invariant,
            "name": BY_ID[invariant].name,
            "event": violation.event,
            "request": violation.page // PAGES,
            "page": violation.page % PAGES,
            "actor": violation.actor or "",
            "primitive": violation.action,
        },
        "arms": [
            {
                "policies": list(recipe.schedule.masked(mask)),
                "verdict": "fail" if arm.failed else "pass",
                "violations": [v.invariant for v in arm.failures],
            }
            for mask, arm in sorted(arms.items())
        ],
        "exercised": histories[full].exercised,
        "minimality": "1-minimal",
        "found": {"seed": seed, "fuzzkv": __version__, "schedules": schedules},
        "confirmations": [],
    }
    case["id"] = case_id(case)
    case["replay"] = f"fuzzkv replay {case['id']}"
    return case
