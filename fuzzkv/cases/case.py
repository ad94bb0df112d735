"""A case as Python sees it: what ``fuzzkv/schemas/case-1.json`` says, as types.  A test compares the two."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class CaseClass(TypedDict):
    """The class of a case's failure; ``actor`` is empty where nobody's action broke it."""

    policies: list[str]
    invariant: str
    action: str
    actor: str


class CasePolicy(TypedDict):
    """A policy of the set: its parameters are whole numbers."""

    name: str
    version: str
    parameters: dict[str, int]


class CaseArm(TypedDict):
    """What one subset of the policies came to: the invariants that it broke."""

    policies: list[str]
    verdict: Literal["pass", "fail"]
    violations: list[Any]


class CaseFound(TypedDict):
    """Where a case was found: after how many schedules of which seed, by which release."""

    seed: int
    fuzzkv: str
    schedules: int


Status = Literal["candidate", "confirmed", "reported", "fixed", "invalid", "dup"]
Case = TypedDict(
    "Case",
    {
        "schema_version": int,
        "id": str,
        "status": Status,
        "class": CaseClass,
        "label": str,
        "title": str,
        "policies": list[CasePolicy],
        "config": dict[str, Any],
        "schedule": list[list[Any]],
        "violation": dict[str, Any],
        "arms": list[CaseArm],
        "exercised": dict[str, dict[str, int]],
        "minimality": Literal["1-minimal", "certified", "not-minimal"],
        "found": CaseFound,
        "confirmations": list[dict[str, Any]],
        "replay": str,
        "target": NotRequired[str],
        "engine": NotRequired[str],
        "history": NotRequired[dict[str, Any]],
        "certificate": NotRequired[dict[str, Any]],
        "acceptance": NotRequired[Any],
        "notes": NotRequired[Any],
        "profile": NotRequired[Any],
        "references": NotRequired[Any],
        "solver": NotRequired[Any],
        "twin": NotRequired[Any],
    },
)
"""One case.  ``config``, ``schedule`` and ``violation`` are as its target says; ``target`` is absent for the model."""
