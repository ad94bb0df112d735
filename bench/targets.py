"""What the discovery benchmark looks for: the field's reports, the design's rows, and a mutant an invariant."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fuzzkv.core.results import Outcome
from fuzzkv.oracles.conflict import smallest_failing
from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.contract.minimal import subsets
from fuzzkv.semantics.layout import COLUMNS
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import EXTRA, OPS, Config
from fuzzkv.simulator.interpreters import python_apply
from fuzzkv.simulator.outcome import ending
from fuzzkv.simulator.start import first_state
from tests.field.reports import REPORTS
from tests.mutants import MUTANTS

Event = tuple[int, int, int]
MINIMAL = Path("tests/quality/minimal.json")
"""The exact minimal cases (see ``bench.minimal``)."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A planted conflict: the set, what it breaks, and its clean form.

    ``kind`` is ``field``, ``design`` or ``mutant``; a class counts if its invariant is in ``invariants`` and,
    where they are given, actor and primitive are these.  ``twins`` is the repaired set, or ``None`` where the
    contract is the repair.  ``depth`` is the length of the shortest schedule known.
    """

    name: str
    kind: str
    policies: tuple[Policy, ...]
    invariants: tuple[str, ...]
    config: Config
    depth: int
    twins: tuple[Policy, ...] | None = None
    actor: str | None = None
    primitive: str | None = None

    @property
    def full(self) -> int:
        """The mask of the whole set."""
        return (1 << len(self.policies)) - 1

    @property
    def ops(self) -> tuple[int, ...]:
        """Codes of the events that the set lives on."""
        wanted = {name for policy in self.policies for name in policy.workload}
        return tuple(code for code, name in enumerate(OPS) if name not in EXTRA or name in wanted)

    def matches(self, invariant: str, actor: str | None, primitive: str) -> bool:
        """Whether a violation of the whole set is the one that was planted."""
        return (
            invariant in self.invariants
            and self.actor in (None, actor)
            and self.primitive in (None, primitive)
        )

    def shown(self, arms: dict[int, Outcome]) -> bool:
        """Whether these arms show the planted conflict."""
        if self.full not in smallest_failing(arms):
            return False
        return any(self.matches(v.invariant, v.actor, v.action) for v in arms[self.full].failures)


class Model:
    """The model for the peers: the same Python interpreter, the whole set first, the arms when it has failed.

    ``schedules`` are counted, ``runs`` (with control arms), and ``primitives`` (with control arms).
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.apply = python_apply(target.policies)
        self.first = first_state(target.config, target.policies)
        self.schedules = 0
        self.runs = 0
        self.primitives = 0

    def start(self) -> list[int]:
        """A fresh state, for one more schedule."""
        self.schedules += 1
        self.runs += 1
        return self.first[:]

    def step(self, s: list[int], e: int, event: Event) -> bool:
        """One event; whether some invariant is broken now."""
        op, a, b = event
        before = s[COLUMNS["PRIMS"]]
        s[COLUMNS["EVENT"]] = e
        self.apply(s, op, a, b, self.target.full)
        self.primitives += s[COLUMNS["PRIMS"]] - before
        return any(s[COLUMNS["V_COUNT"] + 1 : COLUMNS["V_COUNT"] + 19])

    def conflict(self, events: list[Event]) -> bool:
        """Whether these events, on which the whole set has failed, show the planted conflict: with all control arms."""
        arms = {}
        names = tuple(policy.name for policy in self.target.policies)
        for mask in (*subsets(self.target.full), self.target.full):
            s = self.first[:]
            for e, (op, a, b) in enumerate(events):
                s[COLUMNS["EVENT"]] = e
                self.apply(s, op, a, b, mask)
            arms[mask] = ending(s, names)
            if mask != self.target.full:
                self.runs += 1
                self.primitives += s[COLUMNS["PRIMS"]]
        return self.target.shown(arms)


def _known() -> dict[str, int]:
    """Events of the exact minimal cases, by target."""
    if not MINIMAL.exists():
        return {}
    return {name: len(found["events"]) for name, found in json.loads(MINIMAL.read_text()).items()}


def _default_rows(known: dict[str, int]) -> list[Target]:
    rows = [
        ("S1", ("evict", "offload"), "I1", "evict", "drop_host"),
        ("S2", ("offload", "quant"), "I1", "quant", "drop_host"),
        ("S3", ("evict", "offload"), "I14", None, "step"),
        ("S7", ("evict", "quant"), "I18", None, None),
    ]
    return [
        Target(
            name=name,
            kind="design",
            policies=resolve(policies),
            invariants=(invariant,),
            config=Config(),
            depth=known.get(name, 0),
            actor=actor,
            primitive=primitive,
        )
        for name, policies, invariant, actor, primitive in rows
    ]


def targets() -> list[Target]:
    """All of them: thirteen reports, ten rows, eighteen mutants."""
    known = _known()
    found = [
        Target(
            name=report.name,
            kind="field" if report.url else "design",
            policies=report.policies,
            invariants=(report.invariant, *report.also),
            config=report.config,
            depth=min(report.depth, known.get(report.name, report.depth)),
            twins=report.twins,
        )
        for report in REPORTS
    ]
    found += _default_rows(known)
    found += [
        Target(
            name=f"mutant of {mutant.invariant}",
            kind="mutant",
            policies=(mutant.policy,),
            invariants=(mutant.invariant,),
            config=mutant.config,
            depth=known.get(f"mutant of {mutant.invariant}", 0),
            twins=(mutant.twin,),
        )
        for mutant in MUTANTS
    ]
    order = {"field": 0, "design": 1, "mutant": 2}
    return sorted(found, key=lambda target: order[target.kind])
