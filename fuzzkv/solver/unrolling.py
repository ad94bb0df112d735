"""A policy set unrolled: the state after a number of events that aren't known yet, as one circuit.

Only schedules in normal form are unrolled; every other one has a shorter one, or one as short, that comes to the same:

- every event changes something in some arm (or it could be left out), but for what only reports;
- no idle time follows another, unless one alone would be longer than there is;
- a page that fades does so at once after the step (or the arrival) before it, and pages that fade together do so in
  order: nothing but a step looks at that; only where no rule of the set looks at it either, or opens a page;
- time doesn't pass before anything else has happened: schedules in which it does are ``delayed``, and asked apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fuzzkv.semantics.contract.invariants import INVARIANTS
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.layout import COLUMNS, NR, PRIMITIVES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import (
    ABORT,
    ACT,
    ARRIVE,
    BOUNDS,
    FADE,
    FAIL,
    FINISH,
    GROW,
    LATE,
    OF_SESSION,
    PAUSE,
    QUEUE,
    STEP,
    TICK,
    VERIFY,
    Config,
    Event,
)
from fuzzkv.simulator.columns import columns_of
from fuzzkv.simulator.linker import unique_name
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.circuit import Circuit
from fuzzkv.simulator.symbolic.interpreter import SymbolicInterpreter, SymbolicState, Truth
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.envelope import overapproximation

Breach = tuple[str, str | None, str]
"""What is looked for: an invariant, who breaks it first (``None``: nobody) and with which primitive."""

_REPORTS = ("STEPS", "LAT_MAX", "LAT_SUM", "FREED", "REMOTE", "DEMAND", "GOAL", "REFUSED", "ACTED", "TOUCHED")
_PAGES = (STEP, FADE, ABORT)
_OPENS = (ARRIVE, QUEUE)
_NEVER_FIRST = (TICK, STEP, FADE, FINISH, GROW, VERIFY, ABORT, PAUSE, FAIL, LATE)
"""Beside time: what changes nothing as long as no session is open and nothing in flight."""
_TELLS = (unique_name(done),)
"""What every primitive calls to be counted: it looks at reports for other reports."""
_CAUSES = {invariant.id: invariant.implied_by for invariant in INVARIANTS}


class Unrolling:
    """The states of one set, event by event, in a window of the machine.

    ``codes`` are the kinds of events.  ``arms`` are the masks of smaller sets that are run beside under the same
    events; ``delayed`` starts with time that passes.  A window of one session becomes one of two where a rule looks from one
    to the other.  ``states[mask]`` is the state of an arm, ``events`` what isn't known.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        config: Config,
        window: Window,
        codes: Sequence[int],
        *,
        arms: Sequence[int] = (),
        delayed: bool = False,
        enforce: bool = False,
    ) -> None:
        self.policies, self.codes = tuple(policies), tuple(codes)
        self.names = tuple(policy.name for policy in policies)
        self.delayed = delayed
        self.circuit = Circuit()
        first = first_state(config, policies, enforce=enforce)
        self.window = _wide_enough(window, policies, first)
        looked, written = columns_of([policy.rule for policy in policies if not policy.free], apart=_TELLS)
        # What a rule looks at isn't only a report.
        self.reader = SymbolicInterpreter(
            self.circuit, self.window, [name for name in _REPORTS if name not in looked]
        )
        self.full = (1 << len(policies)) - 1
        self.states = {mask: SymbolicState(self.reader, first) for mask in (self.full, *arms)}
        self.events: list[tuple[Any, Any, Any]] = []
        for policy in policies:
            if policy.free:
                self.reader.read_as(policy.rule, overapproximation(policy, self.reader, self.circuit))
        free = any(policy.free for policy in policies)
        self._fades_apart = "RELEVANT" not in looked | written and not free

    @property
    def state(self) -> SymbolicState:
        """The state of the whole set."""
        return self.states[self.full]

    def extend(self) -> None:
        """One event more."""
        op, a, b = self._drawn()
        self.reader.writes = []
        for mask, state in self.states.items():
            state.cells[COLUMNS["EVENT"]] = len(self.events)
            self.reader.apply(state, self.policies, op, a, b, mask, self.codes)
        self._useful()
        self.events.append((op, a, b))

    def _drawn(self) -> tuple[Any, Any, Any]:
        c = self.circuit
        number = len(self.events)
        opening = int(self.delayed)
        if number < opening:
            return TICK, c.unknown(*BOUNDS[TICK][:2]), 0
        codes = self.codes
        if number == opening:
            # Where time passes first, it may be more than one idle time holds.
            codes = tuple(op for op in codes if op not in _NEVER_FIRST or (self.delayed and op == TICK))
        limits = {op: self._bounds(op) for op in codes}
        op: Any = codes[0]
        if len(codes) > 1:
            op = c.unknown(min(codes), max(codes))
            c.require(c.or_(*[op == code for code in codes]))
        a = c.unknown(min(x[0] for x in limits.values()), max(x[1] for x in limits.values()))
        b = c.unknown(min(x[2] for x in limits.values()), max(x[3] for x in limits.values()))
        for code, (low_a, high_a, low_b, high_b) in limits.items():
            within = c.and_(a >= low_a, a <= high_a, b >= low_b, b <= high_b)
            c.require(c.or_(c.not_(op == code), within))
        if number > 0:
            self._normal(op, a, b)
        return op, a, b

    def _bounds(self, op: int) -> tuple[int, int, int, int]:
        low_a, high_a, low_b, high_b = BOUNDS[op]
        if op == ACT:
            high_a = len(self.policies) - 1
        if op in OF_SESSION:
            high_a = min(high_a, self.window.requests - 1)
        if op in _OPENS:
            high_b = min(high_b, self.window.pages)
        if op in _PAGES:
            high_b = min(high_b, self.window.pages - 1)
        return low_a, high_a, low_b, high_b

    def _useful(self) -> None:
        # What changes nothing in the set may still be what keeps an arm from harm.
        self.circuit.require(self.circuit.or_(*self.reader.writes))

    def _normal(self, op: Any, a: Any, b: Any) -> None:
        c = self.circuit
        before, a_before, b_before = self.events[-1]
        c.require(c.not_(c.and_(op == TICK, before == TICK, a_before < BOUNDS[TICK][1])))
        if FADE in self.codes:
            pages = [
                c.and_(
                    a == r,
                    b == i,
                    self._relevant(r * self.window.pages + i),
                )
                for r in range(self.window.requests)
                for i in range(self.window.pages)
            ]
            fades = op == FADE
            c.require(c.or_(c.not_(fades), *pages))
            if self._fades_apart:
                ordered = c.or_(a_before < a, c.and_(a_before == a, b_before < b))
                at_once = [before == code for code in self.codes if code not in (TICK, ACT, FADE)]
                c.require(c.or_(c.not_(fades), *at_once, c.and_(before == FADE, ordered)))

    def _relevant(self, p: int) -> Truth:
        return self.circuit.or_(
            *[state.cells[COLUMNS["RELEVANT"] + p] == 1 for state in self.states.values()]
        )

    def other_than(self, events: Sequence[Event]) -> Truth:
        """Whether the events aren't these."""
        c = self.circuit
        pairs = zip(self.events, events, strict=True)
        return c.not_(
            c.and_(*[mine == given for one, other in pairs for mine, given in zip(one, other, strict=True)])
        )

    def broken(self, invariant: str, mask: int | None = None) -> Truth:
        """Whether an invariant is broken by now, for the set or for an arm."""
        return self.states[self.full if mask is None else mask].broken(invariant)

    def clean(self, mask: int) -> Truth:
        """Whether nothing is broken in an arm."""
        c = self.circuit
        return c.not_(c.or_(*[self.broken(invariant.id, mask) for invariant in INVARIANTS]))

    def clean_before(self, target: Breach, mask: int) -> Truth:
        """Whether nothing was broken in an arm by the event that first broke the target's invariant in the set.

        What breaks in the arm afterwards is no excuse: the schedule is cut there.
        """
        c = self.circuit
        when, cells = self._of("V_EVENT", target[0]), self.states[mask].cells
        return c.and_(
            *[
                c.or_(
                    c.not_(self.broken(invariant.id, mask)),
                    cells[COLUMNS["V_EVENT"] + int(invariant.id[1:])] > when,
                )
                for invariant in INVARIANTS
            ]
        )

    def own(self, invariant: str) -> Truth:
        """Whether an invariant is broken, and not as a consequence of another violation."""
        c = self.circuit
        found = self.broken(invariant)
        if found is False:
            return False
        follows = []
        for cause in _CAUSES[invariant]:
            other = self.broken(cause)
            if other is False:
                continue
            stamp, mine = self._of("V_STAMP", cause), self._of("V_STAMP", invariant)
            earlier = (stamp < mine) if int(cause[1:]) > int(invariant[1:]) else (stamp <= mine)
            here = cause == "I2" or self._of("V_PAGE", cause) == self._of("V_PAGE", invariant)
            follows.append(c.and_(other, earlier, here))
        return c.and_(found, c.not_(c.or_(*follows)))

    def shows(self, target: Breach) -> Truth:
        """Whether a target is broken, and not as a consequence."""
        invariant, actor, primitive = target
        who = -1 if actor is None else self.names.index(actor)
        return self.circuit.and_(
            self.own(invariant),
            self._of("V_ACTOR", invariant) == who,
            self._of("V_PRIM", invariant) == PRIMITIVES.index(primitive),
        )

    def _of(self, column: str, invariant: str) -> Any:
        return self.state.cells[COLUMNS[column] + int(invariant[1:])]

    def new(self, known: Sequence[Breach]) -> Truth:
        """Whether some invariant is broken in a way that isn't known, and not as a consequence."""
        c = self.circuit
        found = []
        for invariant in INVARIANTS:
            seen = [c.not_(self.shows(target)) for target in known if target[0] == invariant.id]
            found.append(c.and_(self.own(invariant.id), *seen))
        return c.or_(*found)


def _wide_enough(window: Window, policies: Sequence[Policy], first: Sequence[int]) -> Window:
    """The window, with all sessions if a rule looks from one at another (a receiver at its sender, a fork at its copy)."""
    if window.requests == NR:
        return window
    circuit = Circuit()
    reader = SymbolicInterpreter(circuit, window)
    try:
        for k, policy in enumerate(policies):
            act = overapproximation(policy, reader, circuit) if policy.free else reader.text(policy.rule)
            act(SymbolicState(reader, first), k)
    except IndexError:
        return replace(window, requests=NR)
    return window
