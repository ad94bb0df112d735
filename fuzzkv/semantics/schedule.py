"""A run as data: a configuration, an order of policy slots and a sequence of events.

Everything takes or returns this one type: hunt, shrinker, solver, replay, corpus and reports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fuzzkv.semantics.layout import NR, PAGES, TOKENS

TICK, ARRIVE, STEP, ACT, FADE, FINISH, FAIL, LATE = range(8)
"""Codes of the events that every set meets."""
QUEUE, TEXT, GROW, VERIFY, ABORT, PAUSE, WEIGHTS, SLEEP, PRESSURE = range(8, 17)
"""Codes of the events that are drawn only if a policy of the set asks for them (``Policy.workload``)."""
OPS: tuple[str, ...] = (
    "tick",
    "arrive",
    "step",
    "act",
    "fade",
    "finish",
    "fail",
    "late",
    "queue",
    "text",
    "grow",
    "verify",
    "abort",
    "pause",
    "weights",
    "sleep",
    "pressure",
)
"""Names of the events, by code: time passes; a session of ``b`` pages opens; a step of session ``a`` asks
about its page ``b``; the policy in slot ``a`` may act; page ``b`` of session ``a`` fades from attention; a
session ends; the oldest copy in flight fails; the link stalls for ``a`` ticks; a session of ``b`` pages opens and
waits; the next session in slot ``a`` has the shared text ``b``; session ``a`` generates ``b`` tokens; ``b`` of its
drafts are accepted; its user takes the text back from page ``b`` on; it is set aside and waits again; new weights are
published; sleep of depth ``a`` is asked for; pressure takes ``a`` device and ``b`` host frames away.
"""
OF_SESSION = frozenset({ARRIVE, STEP, FADE, FINISH, QUEUE, TEXT, GROW, VERIFY, ABORT, PAUSE})
"""Codes of the events whose ``a`` is a session."""
EXTRA: tuple[str, ...] = OPS[8:]
"""Names that a policy's ``workload`` may have."""
BOUNDS: tuple[tuple[int, int, int, int], ...] = (
    (1, 32, 0, 0),
    (0, NR - 1, 1, PAGES),
    (0, NR - 1, 0, PAGES - 1),
    (0, 3, 0, 0),
    (0, NR - 1, 0, PAGES - 1),
    (0, NR - 1, 0, 0),
    (0, 0, 0, 0),
    (1, 16, 0, 0),
    (0, NR - 1, 1, PAGES),
    (0, NR - 1, 0, 3),
    (0, NR - 1, 1, TOKENS),
    (0, NR - 1, 0, TOKENS),
    (0, NR - 1, 0, PAGES - 1),
    (0, NR - 1, 0, 0),
    (0, 0, 0, 0),
    (1, 2, 0, 0),
    (0, 8, 0, 8),
)
"""For each code: least and largest ``a``, least and largest ``b``."""

Event = tuple[int, int, int]
"""(code, a, b)."""


ROUNDS = 6
"""Rounds of what happens afterwards."""


def afterwards(slots: int) -> tuple[Event, ...]:
    """What always happens after a schedule before its damage is looked at: time, steps, and acts of every policy.

    A loss counts as the set's only if no smaller set comes to it too, and not because the schedule stopped
    before the smaller set had got as far.
    """
    one: list[Event] = [(TICK, 24, 0), (STEP, 0, 0), (STEP, 1, 0), *((ACT, k, 0) for k in range(slots))]
    return tuple(one) * ROUNDS


@dataclass(frozen=True)
class Schedule:
    """Events in order.  ``policies[k]`` is the policy of slot ``k``, which ``ACT`` events name."""

    policies: tuple[str, ...]
    events: tuple[Event, ...]

    def with_events(self, events: tuple[Event, ...]) -> Schedule:
        """The same policies, other events."""
        return replace(self, events=events)

    def as_json(self) -> list[list[object]]:
        """The events as ``[name, a, b]``, policies by name."""
        return [[OPS[op], self.policies[a] if op == ACT else a, b] for op, a, b in self.events]

    def masked(self, mask: int) -> tuple[str, ...]:
        """The names of the policies whose bit is set in ``mask``."""
        return tuple(name for k, name in enumerate(self.policies) if mask >> k & 1)


def schedule_from_json(policies: tuple[str, ...], rows: list[list[object]]) -> Schedule:
    """Read what ``as_json`` wrote.  Raises ``ValueError`` that names the event and why it is wrong."""
    events: list[Event] = []
    for i, row in enumerate(rows):
        if len(row) != 3 or row[0] not in OPS:
            raise ValueError(f"event {i} is {row!r}, not [name, a, b] with a name among {', '.join(OPS)}")
        op = OPS.index(str(row[0]))
        a, b = row[1], row[2]
        low_a, high_a, low_b, high_b = BOUNDS[op]
        wanted = f"{low_a} to {high_a}"
        if op == ACT:
            a = policies.index(a) if isinstance(a, str) and a in policies else None
            wanted = f"a policy of the case ({', '.join(policies)})"
        # JSON's true is no number here, though Python's is.
        if type(a) is not int or type(b) is not int or not (low_a <= a <= high_a and low_b <= b <= high_b):
            raise ValueError(f"event {i} is {row!r}: a must be {wanted} and b {low_b} to {high_b}")
        events.append((op, a, b))
    return Schedule(policies, tuple(events))


@dataclass(frozen=True, kw_only=True)
class Config:
    """The machine's size, costs and budgets.

    Frames are counts; costs, the latency objective of a step and the tolerance above it are ticks of virtual
    time; ``ledger`` is the quality budget of one request in permille of its recall, ``headroom`` what the
    charges must exceed it by to be called a breach (they are upper bounds, and an engine can't resolve less);
    ``calibration`` is the version of the charges.
    """

    device_frames: int = 12
    host_frames: int = 8
    step_cost: int = 5
    page_cost: int = 8
    objective: int = 29
    tolerance: int = 7
    ledger: int = 250
    headroom: int = 180
    calibration: int = 1

    def as_json(self) -> dict[str, int]:
        """The fields as plain data."""
        return dict(vars(self))
