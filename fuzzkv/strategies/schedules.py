"""Hypothesis strategies for schedules, and the way back: a schedule as the choices that draw it.

The same events that the bulk engine runs.  Simpler draws make simpler events, so Hypothesis shrinks schedules
well; and because a schedule found by the bulk engine can be written as choices, Hypothesis can start from it
(`find`'s database, an ``@example``).
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.database import choices_to_bytes

from fuzzkv.semantics.schedule import ACT, BOUNDS, EXTRA, OPS, Event, Schedule

LONGEST = 64
"""Most events of a drawn schedule."""


def bounds(op: int, slots: int) -> tuple[int, int, int, int]:
    """Least and largest ``a`` and ``b`` of an event, for a set of ``slots`` policies."""
    low_a, high_a, low_b, high_b = BOUNDS[op]
    return (low_a, slots - 1, low_b, high_b) if op == ACT else (low_a, high_a, low_b, high_b)


def codes(workload: Sequence[str]) -> tuple[int, ...]:
    """Codes of the events that are drawn: those that every set meets, and the extra ones of a workload."""
    return tuple(code for code, name in enumerate(OPS) if name not in EXTRA or name in workload)


@st.composite
def events(draw: st.DrawFn, slots: int, kinds: tuple[int, ...]) -> Event:
    """One event: what happens, to whom, how much."""
    op = kinds[draw(st.integers(0, len(kinds) - 1))]
    low_a, high_a, low_b, high_b = bounds(op, slots)
    a = draw(st.integers(low_a, high_a)) if low_a < high_a else low_a
    b = draw(st.integers(low_b, high_b)) if low_b < high_b else low_b
    return op, a, b


def schedules(
    policies: Sequence[str], *, workload: Sequence[str] = (), max_events: int = LONGEST
) -> st.SearchStrategy[Schedule]:
    """Schedules for a set of policies (names, slot by slot).

    Draws workloads, faults and the moments at which each policy may act, all interleaved; ``workload`` names the
    extra events that the policies ask for (``Policy.workload``).
    """
    names = tuple(policies)
    event = events(len(names), codes(workload))
    return st.lists(event, max_size=max_events).map(lambda drawn: Schedule(names, tuple(drawn)))


def as_choices(schedule: Schedule, *, workload: Sequence[str] = ()) -> bytes:
    """The choices with which ``schedules(schedule.policies, workload=workload)`` draws exactly this schedule, as the
    example database keeps them.

    One choice too many stands at the end: Hypothesis takes an entry that it would have saved itself as
    already shrunk.
    """
    kinds = codes(workload)
    choices: list[int | bool] = []
    for op, a, b in schedule.events:
        choices += [True, kinds.index(op)]
        low_a, high_a, low_b, high_b = bounds(op, len(schedule.policies))
        if low_a < high_a:
            choices.append(a)
        if low_b < high_b:
            choices.append(b)
    if len(schedule.events) < LONGEST:
        choices.append(False)
    choices.append(False)
    return choices_to_bytes(choices)
