"""Proofs as data: a verdict for every invariant, the facts that it stands on, and where it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fuzzkv.simulator.symbolic.scope import Window

Verdict = Literal["proved", "unknown"]
"""An induction that fails says nothing about schedules from the first state: it never refutes."""
Breadth = Literal["nobody", "any policies", "these rules"]
"""For whom an invariant is proved: no text in the composition can touch it; whatever policies do with the primitives
that the set declares; the policies of the set, by their rules.
"""


@dataclass(frozen=True)
class Gap:
    """Why a goal isn't shown: the text that may not keep it, and a state in which it doesn't (``None``: the solver
    ran out of time).
    """

    text: str
    state: Mapping[str, int] | None


@dataclass(frozen=True)
class Proof:
    """The result for one invariant: the verdict, for whom and the facts that it stands on.

    ``gaps`` say where it fails or, if it is proved for these rules alone, where it fails for any policies.  ``seconds``
    are those of its own goals, facts left out.
    """

    invariant: str
    verdict: Verdict
    breadth: Breadth | None
    facts: tuple[str, ...]
    gaps: tuple[Gap, ...]
    seconds: float


@dataclass(frozen=True)
class Proofs:
    """The results of a composition, and what it was: the operations that can run, the window, the premises about its
    configuration; which facts hold for the over-approximation and for the rules, and why the others don't.
    """

    policies: tuple[str, ...]
    events: tuple[str, ...]
    primitives: tuple[str, ...]
    window: Window
    premises: tuple[str, ...]
    proofs: tuple[Proof, ...]
    facts: Mapping[Breadth, tuple[str, ...]]
    dropped: Mapping[Breadth, Mapping[str, Gap]]
    goals: int
    seconds: float

    def of(self, invariant: str) -> Proof:
        """The proof of an invariant."""
        return next(proof for proof in self.proofs if proof.invariant == invariant)
