"""The outcome of a run, read from its last state: violations, damage, who acted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuzzkv.semantics.facts import damage
from fuzzkv.semantics.layout import COLUMNS, NINV, NOBODY, NP, NPRIM, PRIMITIVES


@dataclass(frozen=True)
class Violation:
    """An invariant that was broken: where it happened first (event, and primitives run before), by whose act,
    how often in all.
    """

    invariant: str
    event: int
    stamp: int
    page: int
    actor: str | None
    primitive: str
    count: int


@dataclass(frozen=True)
class ArmOutcome:
    """The outcome of one arm (a subset of the policies) of a schedule: violations in order, damage by page, who
    acted (bit mask).
    """

    violations: tuple[Violation, ...]
    damage: tuple[int, ...]
    acted: int

    @property
    def failed(self) -> bool:
        """Whether some invariant is broken."""
        return bool(self.violations)


def _violations(s: Sequence[int], names: Sequence[str]) -> tuple[Violation, ...]:
    c = COLUMNS
    found = [
        Violation(
            invariant=f"I{i}",
            event=s[c["V_EVENT"] + i],
            stamp=s[c["V_STAMP"] + i],
            page=s[c["V_PAGE"] + i],
            actor=None if s[c["V_ACTOR"] + i] == NOBODY else names[s[c["V_ACTOR"] + i]],
            primitive=PRIMITIVES[s[c["V_PRIM"] + i]],
            count=s[c["V_COUNT"] + i],
        )
        for i in range(1, NINV)
        if s[c["V_COUNT"] + i]
    ]
    return tuple(sorted(found, key=lambda v: (v.stamp, int(v.invariant[1:]))))


def ending(s: Sequence[int], names: Sequence[str], *, after: Sequence[int] | None = None) -> ArmOutcome:
    """The outcome of a last state; ``names[k]`` is the policy in slot ``k``.

    Damage is read from the state ``after`` what always follows a schedule (``semantics.schedule.afterwards``), or
    from the last state itself.
    """
    base = COLUMNS["ACTED"]
    acted = sum(1 << k for k in range(len(names)) if any(s[base + k * NPRIM : base + (k + 1) * NPRIM]))
    end = s if after is None else after
    return ArmOutcome(_violations(s, names), tuple(damage(end, p) for p in range(NP)), acted)
