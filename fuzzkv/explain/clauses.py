"""What the contract says about a case, in words: which clauses would have refused it, and where each of them bites."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from fuzzkv.core.glossary import CLAUSE
from fuzzkv.core.results import Failure
from fuzzkv.explain.cores import Refusing, refusing
from fuzzkv.semantics.layout import CLAUSES, COLUMNS
from fuzzkv.semantics.schedule import ACT, OPS
from fuzzkv.simulator.interpreters import begin, python_apply
from fuzzkv.simulator.start import first_state
from fuzzkv.targets.model.recipe import Recipe

TRIED = 2
"""Clauses of a set that is tried by running it."""


def _run(
    recipe: Recipe, clauses: Sequence[str], from_event: int = 0
) -> tuple[list[int], list[tuple[int, str]]]:
    state = first_state(recipe.config, recipe.policies)
    apply = python_apply(recipe.policies)
    mask = (1 << len(recipe.policies)) - 1
    base, enforced = COLUMNS["REFUSED"], COLUMNS["ENFORCE"]
    found = []
    begin(recipe.policies, mask)
    for e, (op, a, b) in enumerate(recipe.schedule.events):
        state[COLUMNS["EVENT"]] = e
        for i, clause in enumerate(CLAUSES):
            state[enforced + i] = int(clause in clauses and e >= from_event)
        before = state[base : base + len(CLAUSES)]
        apply(state, op, a, b, mask)
        found += [(e, clause) for i, clause in enumerate(CLAUSES) if state[base + i] > before[i]]
    return state, found


def refusals(
    recipe: Recipe, *, from_event: int = 0, clauses: Sequence[str] = CLAUSES
) -> list[tuple[int, str]]:
    """What some clauses of the contract refuse in a run of the whole set: (event, clause), enforced from ``from_event``
    on.
    """
    return _run(recipe, clauses, from_event)[1]


def _by_running(recipe: Recipe, invariant: str) -> Refusing:
    """The same where the solver can't read a rule: sets of up to ``TRIED`` clauses, each run on its own."""
    count = COLUMNS["V_COUNT"] + int(invariant[1:])
    for size in range(1, TRIED + 1):
        sets = [chosen for chosen in combinations(CLAUSES, size) if not _run(recipe, chosen)[0][count]]
        if sets:
            return Refusing(tuple(sets), False)
    return Refusing((), False)


def refused(recipe: Recipe, violation: Failure) -> list[str]:
    """The lines of an explanation that say what the contract would have refused."""
    whole = recipe.histories(enforce=True)[(1 << len(recipe.policies)) - 1].outcome.failures
    left = [found.invariant for found in whole]
    if any(policy.free for policy in recipe.policies):
        answer = _by_running(recipe, violation.invariant)
    else:
        answer = refusing(recipe.schedule, recipe.policies, recipe.config, violation.invariant)
    if not answer.sets and violation.invariant not in left:
        return [f"The contract as a whole would have refused it; no set of up to {TRIED} clauses does."]
    if not answer.sets:
        after = f"; under the whole of it this schedule still breaks {' and '.join(left)}" if left else ""
        return [f"No clause of the contract refuses this case: the contract doesn't cover it{after}."]
    many = len(answer.sets) > 1
    size = len(answer.sets[0])
    what = "one clause is enough" if size == 1 else f"{size} clauses together are enough"
    lines = [
        f"The contract would have refused it, and {what}"
        + (f"; each of these {len(answer.sets)} does it:" if many else ":")
    ]
    for clauses in answer.sets:
        found = refusals(recipe, clauses=clauses)
        if many and size > 1:
            lines.append(f"  {' and '.join(map(repr, clauses))}:")
        for clause in clauses:
            at = next((event for event, name in found if name == clause), None)
            lines.append(f"  '{clause}', {_where(recipe, at)}: {CLAUSE[clause]}.")
    if not answer.whatever:
        lines.append("That was seen while no other clause is enforced.")
    lines.append(
        f"Under the whole contract this schedule still breaks {' and '.join(left)}."
        if left
        else "Under the whole contract this schedule breaks nothing."
    )
    return lines


def _where(recipe: Recipe, event: int | None) -> str:
    if event is None:
        return "which bites only once another clause has changed what happens"
    op, a, _ = recipe.schedule.events[event]
    return f"which first refuses {recipe.schedule.policies[a] if op == ACT else OPS[op]} at event {event}"
