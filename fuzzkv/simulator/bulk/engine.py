"""The bulk engine: a policy set over the one compiled core, searched in chunks."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from fuzzkv.core.results import FailureClass, Outcome, mask_of, names_of
from fuzzkv.errors import UsageError
from fuzzkv.semantics.contract.invariants import INVARIANTS
from fuzzkv.semantics.layout import CLAUSES, COLUMNS, GOALS, NCLAUSE, NGOAL, NINV, PRIMITIVES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config, Event, Schedule, afterwards
from fuzzkv.simulator.bulk import search
from fuzzkv.simulator.bulk.callbacks import Rules
from fuzzkv.simulator.bulk.core import core, interpreted, span_of
from fuzzkv.simulator.bulk.tally import FoundClass, Tally
from fuzzkv.simulator.interpreters import begin, python_apply
from fuzzkv.simulator.outcome import ending
from fuzzkv.simulator.start import first_state
from fuzzkv.strategies import novelty
from fuzzkv.strategies.covering_arrays import draws_of, masks_of
from fuzzkv.strategies.drawing import MAX_EVENTS

_EVENT = COLUMNS["EVENT"]


class BulkEngine:
    """Draws and judges schedules for one policy set, in compiled code that calls free policies back.

    ``search`` goes on where it stopped, and what it has found so far is in ``classes``.  Deterministic for (seed,
    ``strength``).  ``only`` fixes the mask of the set; else all sets of at least two policies are drawn.  Without
    ``compiled`` the same functions run as ordinary Python (for rules of the vocabulary): a few hundred schedules a
    second, the same ones with the same results, and nothing is compiled.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        config: Config,
        *,
        enforce: bool = False,
        seed: int = 0,
        only: int = 0,
        strength: int = 2,
        compiled: bool = True,
    ) -> None:
        if not 1 <= len(policies) <= 4:
            raise UsageError(
                code="FKV002",
                value=f"{len(policies)} policies",
                reason="a set has one to four",
                cure="Split the hunt into smaller sets.",
            )
        self.policies, self.config, self.enforce = tuple(policies), config, enforce
        self.strength, self.compiled = strength, compiled
        self.names = tuple(policy.name for policy in policies)
        self.free = any(policy.free for policy in policies)
        self._core: Any = core() if compiled else SimpleNamespace(**interpreted(self.policies))
        self._reset(seed, only)

    def _reset(self, seed: int, only: int) -> None:
        policies, enforce = self.policies, self.enforce
        self.seed, self.only = seed, only
        masks = masks_of(len(policies), only)
        self._draws = draws_of(policies, masks, self.strength)
        self._pool = novelty.empty_pool(MAX_EVENTS)
        full = np.array(first_state(self.config, policies, enforce=enforce), dtype=np.int64)
        states: Any = np.tile(full, (1 << len(policies), 1))
        ends, one = states.copy(), states.copy()
        self._rules = Rules(policies, (states, ends, one), compiled=self.compiled)
        after = np.array(afterwards(len(policies)), dtype=np.int64)
        causes = _numbers(NINV, NINV)
        for invariant in INVARIANTS:
            for cause in invariant.implied_by:
                causes[int(invariant.id[1:]), int(cause[1:])] = 1
        template = full[: span_of(policies)]
        self._lanes = search.Lanes(np.array(masks), template, states, ends, causes, after, self._rules.row)
        # Schedules from elsewhere may have events that are never drawn.
        self._apart = self._lanes._replace(template=full, states=one)
        self._met = search.Met(
            keys=_numbers(search.MAX_CLASSES, search.KEY),
            hits=_numbers(search.MAX_CLASSES, search.HITS),
            witness=_numbers(search.MAX_CLASSES, MAX_EVENTS, 3),
            totals=_numbers(6),
            goals=_numbers(NGOAL),
            refused=_numbers(NCLAUSE),
        )
        self._events, self._rows, self._causes = (
            _numbers(MAX_EVENTS, 3),
            _numbers(4 * MAX_EVENTS, 3),
            _numbers(NINV),
        )
        self._known = 0
        self.drawn = 0

    def again(
        self, *, seed: int, only: int = 0, enforce: bool | None = None, strength: int | None = None
    ) -> BulkEngine:
        """The same set with nothing searched yet: another seed, one fixed mask, the contract on or off, plans
        of another strength.
        """
        other = copy.copy(self)
        other.strength = self.strength if strength is None else strength
        other.enforce = self.enforce if enforce is None else enforce
        other._reset(seed, only)
        return other

    def search(self, count: int) -> None:
        """Draw and judge ``count`` more schedules.  Raises ``RuleFault`` (FKV037) if a free policy's rule does."""
        with np.errstate(over="ignore"), self._rules.running():
            self._known = self._core.search(
                self.seed,
                self.drawn,
                count,
                len(self.policies),
                self._draws,
                self._pool,
                self._lanes,
                self._met,
                self._events,
            )
        self.drawn += count

    def plant(self, schedules: Sequence[Sequence[Event]]) -> None:
        """Put schedules into the pool of those that are changed to make new ones; longer ones than are drawn are left out."""
        for events in schedules:
            if 0 < len(events) <= MAX_EVENTS:
                rows = _numbers(MAX_EVENTS, 3)
                rows[: len(events)] = events
                novelty.remember(rows, len(events), self._pool)

    def final_state(self, events: Sequence[Event], mask: int) -> Any:
        """The state in which a schedule ends for the policies in ``mask`` (an array of ``SIZE`` integers)."""
        state = self._apart.states[0]
        steps = np.array(events, dtype=np.int64).reshape(-1, 3)
        with self._rules.running() as rules:
            self._core.begin(state, self._apart.template, mask, rules)
            self._core.run(state, steps, len(events), mask, rules)
        return state

    def outcome(self, events: Sequence[Event], mask: int) -> Outcome:
        """What a schedule comes to for the policies in ``mask``, and the damage after what always follows it."""
        state = self.final_state(events, mask)
        last = state.tolist()
        with self._rules.running() as rules:
            self._core.run(state, self._lanes.after, len(self._lanes.after), mask, rules)
        return ending(last, self.names, after=state.tolist())

    def shows(
        self,
        events: Sequence[Event],
        wanted: FailureClass,
        worse: bool,
        causes: Sequence[str],
    ) -> bool:
        """Whether a schedule shows a conflict of this class; see ``simulator.bulk.search.shows``."""
        self._rows[: len(events)] = events
        self._causes[:] = 0
        for cause in causes:
            self._causes[int(cause[1:])] = 1
        with self._rules.running():
            shown = self._core.shows(
                self._apart,
                self._rows,
                len(events),
                len(self.names),
                mask_of(self.names, wanted.policies),
                int(wanted.invariant[1:]),
                -1 if wanted.actor is None else self.names.index(wanted.actor),
                PRIMITIVES.index(wanted.action),
                int(worse),
                self._causes,
            )
        return bool(shown)

    @property
    def levels(self) -> tuple[int, ...]:
        """How many levels each factor of a plan has."""
        return tuple(int(count) for count in self._draws.levels)

    @property
    def runs(self) -> int:
        """Schedules run so far, control arms included."""
        return int(self._met.totals[0])

    @property
    def primitives(self) -> int:
        """Primitive events so far, control arms included."""
        return int(self._met.totals[1])

    @property
    def failing(self) -> int:
        """Schedules that failed so far."""
        return int(self._met.totals[2])

    @property
    def freed_frames(self) -> float:
        """Device frames that the drawn sets gave up on average over time (dC)."""
        return float(self._met.totals[3]) / max(1.0, 4.0 * float(self._met.totals[4]))

    @property
    def refused(self) -> dict[str, int]:
        """What the contract refused, by clause."""
        return {clause: int(self._met.refused[i]) for i, clause in enumerate(CLAUSES) if self._met.refused[i]}

    @property
    def goals(self) -> dict[str, int]:
        """In how many schedules each goal was reached, by name."""
        return {name: int(self._met.goals[i]) for i, name in enumerate(GOALS)}

    @property
    def classes(self) -> list[FoundClass]:
        """The classes of failures met so far, in the order in which they were met."""
        found = []
        for c in range(self._known):
            mask, invariant, actor, primitive = (int(x) for x in self._met.keys[c])
            seen, number, length, rank, freely, breaks = (int(x) for x in self._met.hits[c])
            found.append(
                FoundClass(
                    FailureClass(
                        names_of(self.names, mask),
                        f"I{invariant}",
                        PRIMITIVES[primitive],
                        None if actor < 0 else self.names[actor],
                    ),
                    seen,
                    number,
                    bool(rank & search.CAUSE),
                    bool(rank & search.DAMAGE),
                    _as_events(self._met.witness[c, :length]),
                    freely,
                    breaks,
                )
            )
        return found

    def tally(self) -> Tally:
        """What this search has come to so far."""
        return Tally(
            drawn=self.drawn,
            longest=self.drawn,
            freely=int(self._met.totals[5]),
            runs=self.runs,
            primitives=self.primitives,
            failing=self.failing,
            freed=int(self._met.totals[3]),
            ticks=int(self._met.totals[4]),
            reached=int(self._pool.sums[novelty.REACHED]),
            refused=self.refused,
            goals=self.goals,
            classes=tuple(self.classes),
        )

    def schedule(self, number: int) -> Schedule:
        """Draw schedule ``number`` of this seed again, without the pool (a search's own may be a change of
        one in the pool; its classes keep their schedules)."""
        events = _numbers(MAX_EVENTS, 3)
        with np.errstate(over="ignore"):
            length = self._core.draw(self.seed, number, self._draws, events)
        return Schedule(self.names, _as_events(events[:length]))

    def agrees(self, events: Sequence[Event], mask: int) -> bool:
        """Whether the Python interpreter and the compiled one come to the same state after every event, for the set
        and all its subsets.
        """
        steps = np.array(events, dtype=np.int64).reshape(-1, 3)
        for arm in (*subsets_of(mask), mask):
            state, compiled = self._apart.states[0], []
            with self._rules.running() as rules:
                self._core.begin(state, self._apart.template, arm, rules)
                for e in range(len(events)):
                    state[_EVENT] = e
                    self._core.apply(state, *(int(x) for x in steps[e]), arm, rules)
                    compiled.append(state.tolist())
            reader, ours = python_apply(self.policies), self._apart.template.tolist()
            begin(self.policies, arm)
            for e, (op, a, b) in enumerate(events):
                ours[_EVENT] = e
                reader(ours, op, a, b, arm)
                if ours != compiled[e]:
                    return False
        return True


def subsets_of(mask: int) -> Iterator[int]:
    """All proper subsets of a mask."""
    return (sub for sub in range(mask) if sub & mask == sub)


def _numbers(*shape: int) -> Any:
    return np.zeros(shape, dtype=np.int64)


def _as_events(rows: Any) -> tuple[Event, ...]:
    return tuple((op, a, b) for op, a, b in rows.tolist())
