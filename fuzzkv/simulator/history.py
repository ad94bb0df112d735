"""Histories: every event and primitive of a run of a policy set under a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuzzkv.core.results import Failure, Outcome
from fuzzkv.semantics.layout import (
    CLAUSES,
    COLUMNS,
    GOALS,
    NPRIM,
    PRIMITIVES,
)
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, Config, Schedule, afterwards
from fuzzkv.semantics.vocabulary import listening
from fuzzkv.simulator.interpreters import begin, plain_apply, python_apply
from fuzzkv.simulator.outcome import ending
from fuzzkv.simulator.start import first_state


@dataclass(frozen=True)
class Record:
    """One primitive that ran: at which event and time, whose act it was (``None``: nobody's), on which page,
    with what detail.

    ``detail`` is ticks for copies, steps and time, a precision for ``quantise``, permille for ``drop_host``,
    pages for ``arrive``.
    """

    event: int
    time: int
    actor: str | None
    primitive: str
    page: int
    detail: int


@dataclass(frozen=True)
class History:
    """A run: the policies that took part, every primitive in order, its outcome, and the sums at its end.

    ``latencies`` of all steps in ticks; ``freed`` device capacity that pages gave up, in quarter frames x
    ticks; ``refused`` counts the contract's refusals by clause, ``goals`` how often each interaction was reached, by name.
    """

    schedule: Schedule
    policies: tuple[str, ...]
    records: tuple[Record, ...]
    outcome: Outcome
    latencies: tuple[int, ...]
    exercised: dict[str, dict[str, int]]
    refused: dict[str, int]
    goals: dict[str, int]
    freed: int
    ticks: int
    steps: int

    def broke(self, invariant: str) -> Failure | None:
        """The failure of an invariant, or ``None``."""
        return next((v for v in self.outcome.failures if v.invariant == invariant), None)


def run_history(
    schedule: Schedule,
    policies: Sequence[Policy],
    mask: int,
    config: Config,
    *,
    enforce: bool = False,
    plain: bool = False,
) -> History:
    """Run a schedule for the policies in ``mask`` on the Python interpreter and keep everything.

    ``policies[k]`` is slot ``k`` of the schedule.  ``plain`` uses the unrewritten text (its records come from
    ``note``).
    """
    s = first_state(config, policies, enforce=enforce)
    names = schedule.policies
    c = COLUMNS
    records: list[Record] = []
    latencies: list[int] = []
    now, event = c["NOW"], c["EVENT"]

    def tell(primitive: int, actor: int, page: int, detail: int) -> None:
        name = PRIMITIVES[primitive]
        records.append(Record(s[event], s[now], None if actor < 0 else names[actor], name, page, detail))
        if name == "step":
            latencies.append(detail)

    apply = plain_apply(policies) if plain else python_apply(tuple(policies), tell)
    # A free policy calls the plain primitives, whose notes a listener hears; the written-out text tells directly.
    begin(policies, mask)
    with listening(tell):
        for e, (op, a, b) in enumerate(schedule.events):
            s[event] = e
            if op != ACT or mask >> a & 1:
                apply(s, op, a, b, mask)
    later = list(s)
    then = python_apply(tuple(policies))
    for op, a, b in afterwards(len(policies)):
        then(later, op, a, b, mask)
    end = ending(s, names, after=later)
    return History(
        schedule=schedule,
        policies=schedule.masked(mask),
        records=tuple(records),
        outcome=end,
        latencies=tuple(latencies),
        exercised={
            name: {
                PRIMITIVES[i]: s[c["ACTED"] + k * NPRIM + i]
                for i in range(len(PRIMITIVES))
                if s[c["ACTED"] + k * NPRIM + i]
            }
            for k, name in enumerate(names)
            if mask >> k & 1
        },
        refused={clause: s[c["REFUSED"] + i] for i, clause in enumerate(CLAUSES) if s[c["REFUSED"] + i]},
        goals={name: s[c["GOAL"] + i] for i, name in enumerate(GOALS) if s[c["GOAL"] + i]},
        freed=s[c["FREED"]],
        ticks=s[now],
        steps=s[c["STEPS"]],
    )
