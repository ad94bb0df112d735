"""From a case to a guard that was tried: whose act is to blame, which guard the solver proposes for it, and whether the
composition holds with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuzzkv.core.results import Failure
from fuzzkv.explain.weakest_guard import Act, Guard, guards
from fuzzkv.semantics.layout import ACTIONS, COLUMNS, NINV
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.schedule import ACT, BOUNDS, EXTRA, OPS, STEP, TICK, Event
from fuzzkv.semantics.view import Tap
from fuzzkv.simulator.hooks import tapped_apply
from fuzzkv.simulator.interpreters import begin, python_apply
from fuzzkv.simulator.start import first_state
from fuzzkv.targets.model.recipe import Recipe

AROUND = 2_000
"""Schedules around a case with which a guard is tried."""
COPIES = ("begin_store", "begin_load")
"""What takes the link, of which only the sum counts."""
_MET = ("I1", "I12", "I14")
"""Invariants that a reader may find broken in the solver's window; in it bytes have no history that could tell of others."""


@dataclass(frozen=True)
class Blamed:
    """The act without which an invariant isn't broken: at which event, by which primitive; and whether the solver's window
    has what it is broken by.
    """

    event: int
    primitive: str
    act: Act
    asked: bool


@dataclass(frozen=True)
class Tried:
    """A guard and what became of the case and of schedules around it: whom it holds for (slots) and for which primitives; the
    invariants that the case still breaks with it; of how many schedules how many break the invariant in the case's way
    without it, in that way with it, and in another way with it.
    """

    guard: Guard
    slots: tuple[int, ...]
    primitives: tuple[str, ...]
    left: tuple[str, ...]
    around: int
    without: int
    same: int
    other: int


def _run(recipe: Recipe, apply: Callable[..., None], events: Sequence[Event]) -> list[int]:
    state = first_state(recipe.config, recipe.policies)
    begin(recipe.policies, (1 << len(recipe.policies)) - 1)
    for e, (op, a, b) in enumerate(events):
        state[COLUMNS["EVENT"]] = e
        apply(state, op, a, b, (1 << len(recipe.policies)) - 1)
    return state


def _broke(state: Sequence[int], invariant: str) -> bool:
    return state[COLUMNS["V_COUNT"] + int(invariant[1:])] > 0


def _way(state: Sequence[int], invariant: str) -> tuple[int, int] | None:
    """By whom and with what the invariant was first broken."""
    number = int(invariant[1:])
    return (
        (state[COLUMNS["V_ACTOR"] + number], state[COLUMNS["V_PRIM"] + number])
        if _broke(state, invariant)
        else None
    )


def blame(recipe: Recipe, violation: Failure) -> Blamed | None:
    """The act that breaks the invariant; if a reader meets the breach or a copy ends in it, the last act without which that
    doesn't happen.  ``None`` if there is no single one.
    """
    events, invariant = recipe.schedule.events, violation.invariant
    heard: list[tuple[str, int, int, tuple[int, ...], bool]] = []
    refused = -1

    def tap(name: str, s: Any, k: int, what: tuple[int, ...], act: Callable[[bool], Any]) -> Any:
        number, before = len(heard), _broke(s, invariant)
        heard.append((name, s[COLUMNS["EVENT"]], k, what, False))
        result = act(number != refused)
        if result:
            heard[number] = (name, s[COLUMNS["EVENT"]], k, what, _broke(s, invariant) > before)
        return result

    def blamed(number: int, then: int | None, asked: bool) -> Blamed:
        name, event, k, what, _ = acts[number]
        return Blamed(event, name, Act(k, OPERATIONS[name], what, then), asked)

    apply = tapped_apply(recipe.policies, tap)
    _run(recipe, apply, events)
    acts = list(heard)
    at_once = next((number for number, call in enumerate(acts) if call[-1]), None)
    if at_once is not None:
        return blamed(at_once, None, True)
    # With an actor, it is the end of what the actor began; without one, a reader met it.
    then = TICK if violation.actor is not None else STEP
    asked = then == TICK or (events[violation.event][0] == STEP and invariant in _MET)
    for number in sorted(range(len(acts)), key=lambda n: (acts[n][0] in ACTIONS, n), reverse=True):
        heard.clear()
        refused = number
        if acts[number][1] <= violation.event and not _broke(_run(recipe, apply, events), invariant):
            return blamed(number, then, asked)
    return None


def guarded(guard: Guard, slots: Sequence[int], primitives: Sequence[str]) -> Tap:
    """A tap that lets these policies use these primitives only where the guard permits."""

    def tap(name: str, s: Any, k: int, what: tuple[int, ...], act: Callable[[bool], Any]) -> Any:
        return act(name not in primitives or k not in slots or guard.permits(OPERATIONS[name], s, k, *what))

    return tap


def around(
    events: Sequence[Event], slots: int, workload: Sequence[str], seed: int = 0
) -> Iterator[tuple[Event, ...]]:
    """Schedules around one, the same ones for the same seed: events put in, left out, moved, changed, and some more of
    them at the end.
    """
    rng = random.Random(seed)
    codes = [code for code, name in enumerate(OPS) if name not in EXTRA or name in workload]

    def any_event() -> Event:
        op = rng.choice((ACT, ACT, STEP, TICK, rng.choice(codes)))
        low_a, high_a, low_b, high_b = BOUNDS[op]
        return op, rng.randint(low_a, slots - 1 if op == ACT else high_a), rng.randint(low_b, high_b)

    while True:
        made = list(events)
        for _ in range(rng.randint(1, 4)):
            i, way = rng.randrange(len(made)), rng.randrange(4)
            if way == 0:
                made.insert(i, any_event())
            elif way == 1 and len(made) > 1:
                made.pop(i)
            elif way == 2:
                made.insert(rng.randrange(len(made)), made.pop(i))
            else:
                made[i] = any_event()
        yield (*made, *(any_event() for _ in range(rng.randint(0, 6))))


class Trial:
    """A case and schedules around it, each run without a guard once, to try guards on."""

    def __init__(self, recipe: Recipe, invariant: str, tries: int = AROUND) -> None:
        self.recipe, self.invariant = recipe, invariant
        drawn = around(recipe.schedule.events, len(recipe.policies), recipe.workload)
        self.schedules = [next(drawn) for _ in range(tries)]
        apply = python_apply(recipe.policies)
        self.way = _way(_run(recipe, apply, recipe.schedule.events), invariant)
        self.without = self._ways(apply).count(self.way)

    def _ways(self, apply: Callable[..., None]) -> list[tuple[int, int] | None]:
        return [_way(_run(self.recipe, apply, events), self.invariant) for events in self.schedules]

    def of(self, guard: Guard, slots: Sequence[int], primitives: Sequence[str]) -> Tried:
        """What becomes of them if these policies use these primitives only where the guard permits."""
        apply = tapped_apply(self.recipe.policies, guarded(guard, slots, primitives))
        end = _run(self.recipe, apply, self.recipe.schedule.events)
        after = self._ways(apply)
        return Tried(
            guard,
            tuple(slots),
            tuple(primitives),
            tuple(f"I{i}" for i in range(1, NINV) if _broke(end, f"I{i}")),
            len(after),
            self.without,
            after.count(self.way),
            sum(found not in (None, self.way) for found in after),
        )


def proposed(recipe: Recipe, violation: Failure, tries: int = AROUND) -> tuple[Blamed, Tried] | str:
    """The act to blame, and the weakest guard that keeps the case and the schedules around it from breaking the invariant in
    the case's way; if none does, the one with which the fewest do.  If there is no guard, the reason why, in words.
    """
    invariant = violation.invariant
    found = blame(recipe, violation)
    if found is None:
        return "whichever single act is left out, it happens all the same"
    if not found.asked:
        name = recipe.schedule.policies[found.act.slot]
        return (
            f"without {found.primitive} by {name} at event {found.event} it doesn't happen, but it depends on a "
            "history that the solver's window doesn't have"
        )
    everyone = tuple(range(len(recipe.policies)))
    best: Tried | None = None
    trial = None
    candidates = guards(recipe.policies, recipe.config, found.act, invariant)
    if candidates is None:
        return "in the solver's window this act never breaks it"
    for guard in candidates:
        trial = trial or Trial(recipe, invariant, tries)
        scopes: list[tuple[tuple[int, ...], tuple[str, ...]]] = [((found.act.slot,), (found.primitive,))]
        if found.primitive in COPIES and _holds_for_copies(recipe, found.act, invariant, guard):
            # A sum isn't one policy's to keep.
            scopes.append((everyone, COPIES))
        for slots, primitives in scopes:
            one = trial.of(guard, slots, primitives)
            if best is None or (invariant in one.left, one.same) < (invariant in best.left, best.same):
                best = one
            if not one.same and invariant not in one.left:
                return found, one
    return (found, best) if best else "none of the facts that the solver knows keeps this act from it"


def _holds_for_copies(recipe: Recipe, act: Act, invariant: str, guard: Guard) -> bool:
    """Whether the solver finds the same guard for every way to take the link."""
    others = [
        replace(act, primitive=OPERATIONS[name]) for name in COPIES if OPERATIONS[name] is not act.primitive
    ]
    return all(
        guard.ways in [found.ways for found in guards(recipe.policies, recipe.config, other, invariant) or ()]
        for other in others
    )
