"""Certificates and manifests: what a policy declares about what it knows and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Target = Literal[
    "current-attention", "next-access", "near-reuse", "reconstruction", "attention-output", "answer"
]
"""What a score predicts."""
Reversibility = Literal["exact", "lossy-with-backup", "irreversible"]
"""Whether an action can be taken back, and how well."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A certificate: what a score of the policy predicts, how far ahead, and on what that was calibrated.

    ``horizon`` is in steps of the page's session; ``confidence`` in permille; ``provenance`` names the
    signal.
    """

    target: Target
    horizon: int
    confidence: int
    provenance: str
    calibrated_on: str


@dataclass(frozen=True, kw_only=True)
class Action:
    """One kind of action that a policy takes: which primitive, whether it can be taken back, from which copy,
    at what cost.

    ``recovery_p95`` is in ticks of virtual time, ``quality_budget`` in permille of one request's recall.
    """

    primitive: str
    reversibility: Reversibility
    authority_copy: Literal["host", "device", "none"]
    recovery_p95: int
    quality_budget: int


COPY_OUT = Action(
    primitive="begin_store", reversibility="exact", authority_copy="device", recovery_p95=0, quality_budget=0
)
"""A copy to the host: nothing is given up by it."""
COPY_IN = Action(
    primitive="begin_load", reversibility="exact", authority_copy="host", recovery_p95=0, quality_budget=0
)
"""A copy back to the device: nothing is given up by it."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that a policy declares: its kind, its actions and the evidence on which it takes them."""

    kind: str
    actions: tuple[Action, ...]
    evidence: Evidence
    source: str
    fidelity: str

    def as_dict(self) -> Mapping[str, object]:
        """The manifest as plain data, for reports and the ``policies`` command."""
        return {
            "kind": self.kind,
            "source": self.source,
            "fidelity": self.fidelity,
            "evidence": dict(vars(self.evidence)),
            "actions": [dict(vars(a)) for a in self.actions],
        }
