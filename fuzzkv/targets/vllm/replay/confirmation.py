"""The result of a confirmation: raw counts, intervals and a verdict word, as canonical JSON without floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fuzzkv.core.canonical import canonical_bytes

Verdict = Literal["confirmed", "not-reproduced", "underpowered", "numeric-tie", "worker-failed"]
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True)
class ReplayProgress:
    """Raw counts of one arm while a replay runs: ``done`` of ``total`` replicas of this look; ``right``
    answers so far (-1: does not apply); ``look`` of ``looks`` planned. The fields are those of
    :class:`fuzzkv.events.ConfirmProgress`.
    """

    case_id: str
    arm: tuple[str, ...]
    done: int
    total: int
    right: int
    look: int
    looks: int


@dataclass(frozen=True)
class ArmResult:
    """One arm. ``counts`` are raw; ``intervals`` and ``values`` hold decimal strings (fractions, nats or
    microseconds).

    Quality: ``n`` paired questions, ``right``, and against full cache ``both``, ``b`` (only this arm
    right), ``c`` (only full cache right), ``neither``, ``ties``; intervals ``difference`` (Tango),
    ``difference_by_context`` (bootstrap) and ``nll_rise``; value ``cache_induced_failure_rate``. Latency:
    ``requests`` (whole replicas), ``asks``; interval ``p99_us``. Exact: ``answers``, ``different``,
    ``tied``. All kinds: the worker's counters (``lost_loads``, ``failed_copies`` ...).
    """

    policies: tuple[str, ...]
    decision: str
    counts: Mapping[str, int] = field(default_factory=dict)
    intervals: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data without floats."""
        return {
            "policies": list(self.policies),
            "decision": self.decision,
            "counts": dict(self.counts),
            "intervals": {k: dict(v) for k, v in self.intervals.items()},
            "values": dict(self.values),
        }


@dataclass(frozen=True)
class Confirmation:
    """The result of :func:`fuzzkv.targets.vllm.replay.confirm.confirm`. ``seconds`` and ``log`` are the only fields that
    may differ between two runs with the same seed (quality and exact)."""

    case_id: str
    kind: str
    verdict: Verdict
    reason: str
    engine: str
    model: str
    model_digest: str
    device: str
    seed: int
    replicas: int
    looks_used: int
    looks_planned: int
    thresholds: str
    arms: tuple[ArmResult, ...]
    values: Mapping[str, str]
    seconds: str
    log: str

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data without floats, with ``schema_version``."""
        data = {k: v for k, v in self.__dict__.items() if k not in ("arms", "values")}
        return {
            **data,
            "arms": [a.as_dict() for a in self.arms],
            "values": dict(self.values),
            "schema_version": SCHEMA_VERSION,
        }

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return canonical_bytes(self.as_dict())
