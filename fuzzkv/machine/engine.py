"""The bulk engine: a policy set over the one compiled core, searched in chunks."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzkv.contract.layout import CLAUSES, GOALS, NCLAUSE, NGOAL, NINV, PRIMITIVES, SIZE
from fuzzkv.contract.policy import Policy
from fuzzkv.contract.schedule import Config, Event, Schedule, afterwards
from fuzzkv.errors import UsageError
from fuzzkv.machine import bulk
from fuzzkv.machine.callbacks import Rules
from fuzzkv.machine.core import core
from fuzzkv.machine.outcome import ArmOutcome, ending
from fuzzkv.machine.start import first_state


@dataclass(frozen=True)
class FoundClass:
    """A kind of failure that a search met: the smallest failing set, the invariant and the act that broke it.

    ``number`` draws its best schedule again; ``worse`` says that the page's bytes ended up worse than in
    every proper subset.
    """

    mask: int
    invariant: str
    actor: str | None
    primitive: str
    seen: int
    number: int
    worse: bool


class BulkEngine:
    """Draws and judges schedules for one policy set, in compiled code that calls free policies back.

    ``search`` goes on where it stopped, and what it has found so far is in ``classes``.  Deterministic:
    schedule ``n`` of a seed is always the same one.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        config: Config,
        *,
        enforce: bool = False,
        seed: int = 0,
        only: int = 0,
    ) -> None:
        if not 1 <= len(policies) <= 4:
            raise UsageError(
                code="FKV002",
                value=f"{len(policies)} policies",
                reason="a set has one to four",
                cure="Split the hunt into smaller sets.",
            )
        self.policies, self.config, self.enforce = tuple(policies), config, enforce
        self.names = tuple(policy.name for policy in policies)
        self.free = any(policy.free for policy in policies)
        self._core: Any = self._functions()
        self._reset(seed, only)

    def _functions(self) -> Any:
        return core()

    def _reset(self, seed: int, only: int) -> None:
        policies, enforce = self.policies, self.enforce
        self.seed, self.only = seed, only
        self._template = np.array(first_state(self.config, policies, enforce=enforce), dtype=np.int64)
        self._events = np.zeros((bulk.MAX_EVENTS, 3), dtype=np.int64)
        self._weights = np.zeros(8, dtype=np.int64)
        self._states: Any = np.zeros((1 << len(policies), SIZE), dtype=np.int64)
        self._keys = np.zeros((bulk.MAX_CLASSES, bulk.KEY), dtype=np.int64)
        self._hits = np.zeros((bulk.MAX_CLASSES, 4), dtype=np.int64)
        self._totals = np.zeros(5, dtype=np.int64)
        self._refused = np.zeros(NCLAUSE, dtype=np.int64)
        self._goals = np.zeros(NGOAL, dtype=np.int64)
        self._rows = np.zeros((4 * bulk.MAX_EVENTS, 3), dtype=np.int64)
        self._causes = np.zeros(NINV, dtype=np.int64)
        self._after = np.array(afterwards(len(policies)), dtype=np.int64)
        self._ends: Any = np.zeros_like(self._states)
        self._rules = Rules(policies, (self._states, self._ends))
        self._known = 0
        self.drawn = 0

    def again(self, *, seed: int, only: int = 0, enforce: bool | None = None) -> BulkEngine:
        """The same compiled set with nothing searched yet: another seed, one fixed mask, the contract on or
        off.
        """
        other = copy.copy(self)
        other.enforce = self.enforce if enforce is None else enforce
        other._reset(seed, only)
        return other

    def search(self, count: int) -> None:
        """Draw and judge ``count`` more schedules.  Raises ``RuleFault`` (FKV037) if a free policy's rule does."""
        with np.errstate(over="ignore"), self._rules.running() as rules:
            self._known = self._core.search(
                self.seed,
                self.drawn,
                count,
                len(self.policies),
                self.only,
                self._template,
                self._events,
                self._weights,
                self._states,
                self._keys,
                self._hits,
                self._totals,
                self._goals,
                self._refused,
                self._after,
                self._ends,
                rules,
            )
        self.drawn += count

    def final_state(self, events: Sequence[Event], mask: int) -> Any:
        """The state in which a schedule ends for the policies in ``mask`` (an array of ``SIZE`` integers)."""
        state = self._states[0]
        steps = np.array(events, dtype=np.int64).reshape(-1, 3)
        with self._rules.running() as rules:
            self._core.begin(state, self._template, mask, rules)
            self._core.run(state, steps, len(events), mask, rules)
        return state

    def outcome(self, events: Sequence[Event], mask: int) -> ArmOutcome:
        """What a schedule comes to for the policies in ``mask``, and the damage after what always follows it."""
        state = self.final_state(events, mask)
        last = state.tolist()
        with self._rules.running() as rules:
            self._core.run(state, self._after, len(self._after), mask, rules)
        return ending(last, self.names, after=state.tolist())

    def shows(
        self,
        events: Sequence[Event],
        kind: tuple[int, str, str | None, str],
        worse: bool,
        causes: Sequence[str],
    ) -> bool:
        """Whether a schedule shows a conflict of this kind (mask, invariant, actor, primitive); see
        ``bulk.shows``.
        """
        mask, invariant, actor, primitive = kind
        self._rows[: len(events)] = events
        self._causes[:] = 0
        for cause in causes:
            self._causes[int(cause[1:])] = 1
        with self._rules.running() as rules:
            shown = self._core.shows(
                self._template,
                self._states,
                self._rows,
                len(events),
                len(self.names),
                mask,
                int(invariant[1:]),
                -1 if actor is None else self.names.index(actor),
                PRIMITIVES.index(primitive),
                int(worse),
                self._causes,
                self._after,
                rules,
            )
        return bool(shown)

    @property
    def runs(self) -> int:
        """Schedules run so far, control arms included."""
        return int(self._totals[0])

    @property
    def primitives(self) -> int:
        """Primitive events so far, control arms included."""
        return int(self._totals[1])

    @property
    def failing(self) -> int:
        """Schedules that failed so far."""
        return int(self._totals[2])

    @property
    def freed_frames(self) -> float:
        """Device frames that the drawn sets gave up on average over time (dC)."""
        return float(self._totals[3]) / max(1.0, 4.0 * float(self._totals[4]))

    @property
    def refused(self) -> dict[str, int]:
        """What the contract refused, by clause."""
        return {clause: int(self._refused[i]) for i, clause in enumerate(CLAUSES) if self._refused[i]}

    @property
    def goals(self) -> dict[str, int]:
        """In how many schedules each goal was reached."""
        return {name: int(self._goals[i]) for i, name in enumerate(GOALS)}

    @property
    def classes(self) -> list[FoundClass]:
        """The kinds of failures met so far, in the order in which they were met."""
        found = []
        for c in range(self._known):
            mask, invariant, actor, primitive = (int(x) for x in self._keys[c])
            found.append(
                FoundClass(
                    mask,
                    f"I{invariant}",
                    None if actor < 0 else self.names[actor],
                    PRIMITIVES[primitive],
                    int(self._hits[c, 0]),
                    int(self._hits[c, 1]),
                    bool(self._hits[c, 3]),
                )
            )
        return found

    def schedule(self, number: int) -> Schedule:
        """Draw schedule ``number`` of this seed again."""
        events = np.zeros((bulk.MAX_EVENTS, 3), dtype=np.int64)
        with np.errstate(over="ignore"):
            length = bulk.draw(self.seed, number, len(self.policies), events, self._weights.copy())
        return Schedule(self.names, tuple((int(op), int(a), int(b)) for op, a, b in events[:length]))
