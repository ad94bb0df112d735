"""The outcome of a run, read from its last state: failures, damage, who acted."""

from __future__ import annotations

from collections.abc import Sequence

from fuzzkv.core.results import Failure, Outcome
from fuzzkv.semantics.facts import damage
from fuzzkv.semantics.layout import COLUMNS, NINV, NOBODY, NP, NPRIM, PAGES, PRIMITIVES


def _failures(s: Sequence[int], names: Sequence[str]) -> tuple[Failure, ...]:
    c = COLUMNS
    found = [
        Failure(
            invariant=f"I{i}",
            event=s[c["V_EVENT"] + i],
            stamp=s[c["V_STAMP"] + i],
            request=s[c["V_PAGE"] + i] // PAGES,
            page=s[c["V_PAGE"] + i],
            actor=None if s[c["V_ACTOR"] + i] == NOBODY else names[s[c["V_ACTOR"] + i]],
            action=PRIMITIVES[s[c["V_PRIM"] + i]],
            count=s[c["V_COUNT"] + i],
        )
        for i in range(1, NINV)
        if s[c["V_COUNT"] + i]
    ]
    return tuple(sorted(found, key=lambda v: (v.stamp, int(v.invariant[1:]))))


def ending(s: Sequence[int], names: Sequence[str], *, after: Sequence[int] | None = None) -> Outcome:
    """The outcome of a last state; ``names[k]`` is the policy in slot ``k``.

    Damage is read from the state ``after`` what always follows a schedule (``semantics.schedule.afterwards``), or
    from the last state itself.
    """
    base = COLUMNS["ACTED"]
    acted = sum(1 << k for k in range(len(names)) if any(s[base + k * NPRIM : base + (k + 1) * NPRIM]))
    end = s if after is None else after
    return Outcome(_failures(s, names), acted, tuple(damage(end, p) for p in range(NP)))
