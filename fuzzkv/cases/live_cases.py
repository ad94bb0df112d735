"""Corpus cases of live schedules: the same file, id rule and canonical JSON as the model's, with ``target: "vllm"``.

``config`` holds the plain engine's configuration (the policies say what they change of it) and the schedule's pool and
chunk; ``schedule`` events [op, a, b, c]; ``engine`` the engine that it was found on, which is no part of the id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fuzzkv import __version__
from fuzzkv.cases.corpus import case_id, is_live
from fuzzkv.cases.live_history import history_of
from fuzzkv.errors import UsageError
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.targets.vllm.arms import Arm, LiveKind
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import LiveViolation
from fuzzkv.targets.vllm.policies import LivePolicy, resolve
from fuzzkv.targets.vllm.schedule import LiveSchedule, schedule_from_json

TARGET: Final = "vllm"
_SHORT: Final = 300


@dataclass(frozen=True)
class LiveRecipe:
    """What a case says to run: a schedule, the policies of its set, and the plain engine's configuration."""

    schedule: LiveSchedule
    policies: tuple[LivePolicy, ...]
    base: EngineConfig
    kind: LiveKind


def make_live_case(
    arms: Sequence[Arm],
    kind: LiveKind,
    schedule: LiveSchedule,
    base: EngineConfig,
    *,
    engine: str,
    seed: int,
    schedules: int,
    minimal: bool = True,
) -> dict[str, Any]:
    """The case of a shrunk schedule: ``arms`` are those of all subsets, the whole set last; ``engine`` is name and version."""
    whole = arms[-1]
    violation = next(v for v in whole.violations if whole.kind_of(v) == kind)
    acts = whole.history.acts
    given = schedule.as_json()
    passing = sum(not arm.failed for arm in arms[:-1])
    case: dict[str, Any] = {
        "schema_version": 1,
        "target": TARGET,
        "engine": engine,
        "status": "confirmed",
        "label": "",
        "title": _title(kind, violation),
        "class": {
            "policies": list(kind.policies),
            "invariant": kind.invariant,
            "action": kind.what,
            "actor": "",
        },
        "policies": [{"name": p.name, "version": p.version, "parameters": {}} for p in whole.policies],
        "config": {"engine": base.as_json(), "pool": given["pool"], "chunk": given["chunk"]},
        "schedule": given["events"],
        "violation": violation_entry(kind, violation),
        "arms": [
            {
                "policies": list(arm.names),
                "verdict": "fail" if arm.failed else "pass",
                "violations": [v.invariant for v in arm.violations][:20],
            }
            for arm in arms
        ],
        "exercised": {
            p.name: {name: acts[name] for name in p.exercised if acts.get(name)} for p in whole.policies
        },
        "minimality": "1-minimal" if minimal else "not-minimal",
        "found": {"seed": seed, "fuzzkv": __version__, "schedules": schedules},
        "confirmations": [
            {
                "target": TARGET,
                "engine": engine,
                "device": base.device,
                "kind": "exact",
                "verdict": "confirmed",
                "model": base.model,
                "reason": f"fails on a fresh engine; {passing} of {len(arms) - 1} subsets pass",
            }
        ],
    }
    if (kept := history_of(arms)) is not None:
        case["history"] = kept
    case["id"] = case_id(case)
    case["replay"] = f"fuzzkv replay {case['id']}"
    return case


def violation_entry(kind: LiveKind, violation: LiveViolation) -> dict[str, Any]:
    """A violation as a case says it."""
    return {
        "invariant": kind.invariant,
        "name": BY_ID[kind.invariant].name,
        "event": max(0, violation.event),
        "step": max(0, violation.step),
        "request": violation.request,
        "page": violation.page,
        "actor": "",
        "primitive": kind.what,
        "text": _line(violation.text),
    }


def read_live_case(case: Mapping[str, Any], *, allowed: Mapping[str, LivePolicy] | None = None) -> LiveRecipe:
    """The recipe of a live case; its policies are the engine's own or in ``allowed``: a case never imports code.

    Raises ``UsageError``: FKV101 for a case of the model, FKV001 for a policy that there isn't, FKV006 for another version
    of one, FKV030 to FKV034 for a configuration or event that isn't understood.
    """
    if not is_live(case):
        raise UsageError(
            code="FKV101",
            value=str(case["id"]),
            reason="it is a case of the model, and this reads cases of a live engine",
            cure="Use 'fuzzkv replay' for either.",
        )
    own = allowed or {}
    policies = tuple(
        own[entry["name"]] if entry["name"] in own else resolve([entry["name"]])[0]
        for entry in case["policies"]
    )
    for policy, entry in zip(policies, case["policies"], strict=True):
        if policy.version != entry["version"]:
            raise UsageError(
                code="FKV006",
                value=f"{case['id']}: {policy.name} {entry['version']}",
                reason=f"version {policy.version} is installed",
                cure="Hunt again, or install that release of fuzzkv.",
            )
    config = case["config"]
    schedule = schedule_from_json(
        {"pool": config["pool"], "chunk": config["chunk"], "events": case["schedule"]}
    )
    kind = LiveKind(
        tuple(case["class"]["policies"]), case["class"]["invariant"], str(case["class"]["action"])
    )
    return LiveRecipe(schedule, policies, EngineConfig.from_json(config["engine"]), kind)


def _title(kind: LiveKind, violation: LiveViolation) -> str:
    names = " and ".join(name.removeprefix("vllm:") for name in kind.policies)
    together = " together" if len(kind.policies) > 1 else " alone"
    text = _line(violation.text) or kind.what
    return _line(f"{names}{together} break {BY_ID[kind.invariant].name}: {text}")


def _line(text: str) -> str:
    """A text as one printable line of bounded length."""
    clean = " ".join("".join(ch if ch.isprintable() else " " for ch in text).split())
    return clean if len(clean) <= _SHORT else clean[: _SHORT - 4] + " ..."
