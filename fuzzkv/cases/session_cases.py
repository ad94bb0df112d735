"""Corpus cases of sessions: the same file, id rule and canonical JSON as the model's, with ``target``.

``config`` holds what a schedule's events don't say (the target's own business); ``schedule`` events [op, numbers ...];
``engine`` what it was found on, which is no part of the id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fuzzkv import __version__
from fuzzkv.cases.corpus import case_id
from fuzzkv.core.results import Failure, FailureClass
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.targets.base import Arm, P, S, Target

_SHORT: Final = 300


def make_session_case(
    target: Target[S, P],
    arms: Sequence[Arm[P]],
    kind: FailureClass,
    schedule: S,
    *,
    seed: int,
    schedules: int,
    minimal: bool = True,
) -> dict[str, Any]:
    """The case of a shrunk schedule: ``arms`` are those of all subsets, the whole set last."""
    whole = arms[-1]
    failure = next(f for f in whole.outcome.failures if whole.class_of(f) == kind)
    passing = sum(not arm.failed for arm in arms[:-1])
    case: dict[str, Any] = {
        "schema_version": 1,
        "target": target.name,
        "engine": target.engine,
        "status": "confirmed",
        "label": "",
        "title": _title(kind, failure),
        "class": {
            "policies": list(kind.policies),
            "invariant": kind.invariant,
            "action": kind.action,
            "actor": kind.actor or "",
        },
        "policies": [{"name": p.name, "version": p.version, "parameters": {}} for p in whole.policies],
        "config": dict(target.config_of(schedule)),
        "schedule": [list(event) for event in target.language.events(schedule)],
        "violation": violation_entry(kind, failure),
        "arms": [
            {
                "policies": list(arm.names),
                "verdict": "fail" if arm.failed else "pass",
                "violations": [f.invariant for f in arm.outcome.failures][:20],
            }
            for arm in arms
        ],
        "exercised": {
            name: {word: count for word, count in counts.items() if count}
            for name, counts in whole.exercised.items()
        },
        "minimality": "1-minimal" if minimal else "not-minimal",
        "found": {"seed": seed, "fuzzkv": __version__, "schedules": schedules},
        "confirmations": [
            {
                "target": target.name,
                "engine": target.engine,
                "device": target.device,
                "kind": "exact",
                "verdict": "confirmed",
                "model": target.model,
                "reason": f"fails on a fresh engine; {passing} of {len(arms) - 1} subsets pass",
            }
        ],
    }
    if (kept := target.kept_history(arms)) is not None:
        case["history"] = dict(kept)
    case["id"] = case_id(case)
    case["replay"] = f"fuzzkv replay {case['id']}"
    return case


def violation_entry(kind: FailureClass, failure: Failure) -> dict[str, Any]:
    """A failure as a case says it."""
    return {
        "invariant": kind.invariant,
        "name": BY_ID[kind.invariant].name,
        "event": max(0, failure.event),
        "step": max(0, failure.stamp),
        "request": failure.request,
        "page": failure.page,
        "actor": kind.actor or "",
        "primitive": kind.action,
        "text": _line(failure.text),
    }


def _title(kind: FailureClass, failure: Failure) -> str:
    names = " and ".join(name.removeprefix("vllm:") for name in kind.policies)
    together = " together" if len(kind.policies) > 1 else " alone"
    text = _line(failure.text) or kind.action
    return _line(f"{names}{together} break {BY_ID[kind.invariant].name}: {text}")


def _line(text: str) -> str:
    """A text as one printable line of bounded length."""
    clean = " ".join("".join(ch if ch.isprintable() else " " for ch in text).split())
    return clean if len(clean) <= _SHORT else clean[: _SHORT - 4] + " ..."
