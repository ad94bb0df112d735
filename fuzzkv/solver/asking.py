"""One question about a policy set: is there a schedule of so many events that breaks an invariant in this way?

Broken stays broken, any schedule can go on, and what breaks elsewhere after it doesn't matter, so "no" for a number of events
is "no" for every smaller one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config, Event
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.sat import Model, Question
from fuzzkv.solver.unrolling import Breach, Unrolling


@dataclass(frozen=True, kw_only=True)
class Space:
    """The schedules that are asked about: of which policies, on which machine, in which window, of which kinds of events.

    ``arms`` are masks of smaller sets in which nothing may break under the same schedule (where a class is named: not by the
    time when it shows); ``refuted`` schedules are no answer, for the machine saw nothing in them.
    """

    policies: tuple[Policy, ...]
    config: Config
    window: Window
    codes: tuple[int, ...]
    arms: tuple[int, ...] = ()
    enforce: bool = False
    refuted: tuple[tuple[Event, ...], ...] = ()

    def beside(self, arms: Sequence[int]) -> Space:
        """The same with these smaller sets run beside."""
        return replace(self, arms=tuple(sorted({*self.arms, *arms})))

    def without(self, events: tuple[Event, ...]) -> Space:
        """The same without this schedule."""
        return replace(self, refuted=(*self.refuted, events))

    @property
    def wide(self) -> bool:
        """Whether a policy is only known by its manifest, so that an answer may be none."""
        return any(policy.free for policy in self.policies)


def unrolled(space: Space, *, delayed: bool = False) -> Unrolling:
    """The schedules of a space, of no events yet."""
    return Unrolling(
        space.policies,
        space.config,
        space.window,
        space.codes,
        arms=space.arms,
        delayed=delayed,
        enforce=space.enforce,
    )


class SolverQuestion:
    """A question that is being answered.

    Is there a schedule of ``depth`` events that shows ``target`` (or, without one, anything that isn't among ``known``)?
    ``delayed``: one that begins with time that passes.  Takes at most ``seconds``.  An ``unrolling`` of the same space, of no
    more events than ``depth``, is gone on with.
    """

    def __init__(
        self,
        space: Space,
        depth: int,
        *,
        seconds: float,
        target: Breach | None = None,
        known: Sequence[Breach] = (),
        delayed: bool = False,
        unrolling: Unrolling | None = None,
    ) -> None:
        self.space, self.depth = space, depth
        if unrolling is None:
            unrolling = unrolled(space, delayed=delayed)
        self.gates = self.clauses = 0
        self._question: Question | None = None
        until = time.monotonic() + seconds
        while len(unrolling.events) < depth:
            # To unroll takes seconds as well.
            if time.monotonic() >= until:
                return
            unrolling.extend()
        wanted = unrolling.new(known) if target is None else unrolling.shows(target)
        if target is None:
            also = [unrolling.clean(mask) for mask in space.arms]
        else:
            also = [unrolling.clean_before(target, mask) for mask in space.arms]
        also += [unrolling.other_than(events) for events in space.refuted if len(events) == depth]
        self._events = tuple(unrolling.events)
        watched = tuple(number for event in self._events for number in event)
        self._question = Question(unrolling.circuit, wanted, *also, watched=watched)
        self.gates, self.clauses = len(unrolling.circuit), self._question.clauses
        self._question.start(until - time.monotonic())

    def answer(self) -> tuple[Event, ...] | bool | None:
        """The schedule, ``False`` if there is none, ``None`` if that wasn't known in time; waits for it."""
        found = None if self._question is None else self._question.answer()
        if not isinstance(found, Model):
            return found
        return tuple((found(op), found(a), found(b)) for op, a, b in self._events)

    @property
    def running(self) -> bool:
        """Whether it is still being answered."""
        return self._question is not None and self._question.running

    def cancel(self) -> None:
        """Ask no more."""
        if self._question is not None:
            self._question.cancel()
