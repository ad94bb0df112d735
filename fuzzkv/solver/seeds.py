"""First schedules of each class of conflict, from a short compiled search and the shrinker, for the solver to begin with.

What is found here is real, but nobody says yet that it is the shortest; that is the solver's part (``solver.refuting``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzzkv.cases.filing import Witness, witnesses
from fuzzkv.cases.shrink import Goal, Shrinker
from fuzzkv.core.results import mask_of
from fuzzkv.oracles.conflict import part_of_known
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config, Event
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.solver.unrolling import Breach
from fuzzkv.targets.model.recipe import narrowed

SCHEDULES = 300_000
"""Drawn for the classes, in rounds: some seconds."""
ROUND = 50_000
LEAPS = 20_000
"""Tried from each schedule."""
FREE = 200
"""How many times fewer with a policy in ordinary Python, which is called back."""

Seeds = dict[int, dict[Breach, tuple[Event, ...]]]


def first_schedules(
    policies: Sequence[Policy],
    config: Config,
    *,
    enforce: bool = False,
    seed: int = 0,
    tell: Callable[[int, int], None] | None = None,
    late: Callable[[], bool] = lambda: False,
) -> Seeds:
    """By set (mask) and class the shortest schedule that a short search and the shrinker come to, for the set alone.

    Always the same for the same policies and seed; ``late`` ends it early, ``tell`` hears how many schedules were drawn and how many
    classes are known.  Consequences of other violations, and what a smaller set shows as well, are no classes of their own.
    """
    if len(policies) < 2:
        return {}
    engine = BulkEngine(policies, config, enforce=enforce, seed=seed)
    total = SCHEDULES // (FREE if engine.free else 1)
    found: list[Witness] = []
    for drawn in range(0, total, ROUND):
        if late():
            break
        engine.search(min(ROUND, total - drawn))
        found = list(witnesses(engine.tally(), config))
        if tell is not None:
            tell(engine.drawn, len(found))
    kinds = {witness.failure_class for witness in found}
    result: Seeds = {}
    for witness in found:
        kind = witness.failure_class
        if len(kind.policies) < 2 or part_of_known(kind, kinds):
            continue
        shrinker = Shrinker(engine, Goal(kind, worse=False, consequence=False), tries=LEAPS)
        if not shrinker.interesting(witness.events):
            continue
        events = shrinker.hasten(witness.events) if late() else shrinker.shorten(witness.events)
        mask = mask_of(engine.names, kind.policies)
        _, alone = narrowed(policies, mask, events)
        result.setdefault(mask, {})[kind.invariant, kind.actor, kind.action] = alone.events
    return result
