"""Which clauses of the contract would have refused a case: the smallest sets.

The schedule is fixed; whether a clause is enforced isn't known, so the last state is a state over thirteen truths.  A set
of clauses refuses the case if the violation can't happen while they are enforced, whatever else of the contract is: an
unsatisfiable core of "these are enforced" and "it still happens".  What a clause refuses changes what happens later, so
that is more than that each of them says no somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from fuzzkv.semantics.layout import CLAUSES, COLUMNS
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config, Schedule
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.circuit import Circuit
from fuzzkv.simulator.symbolic.interpreter import SymbolicInterpreter, SymbolicState
from fuzzkv.solver.literals import Literals


@dataclass(frozen=True)
class Refusing:
    """The smallest sets of clauses that refuse a violation, all of that size; none if no set does.

    ``whatever`` says that they do whatever else is enforced; otherwise they do only while nothing else is.
    """

    sets: tuple[tuple[str, ...], ...]
    whatever: bool


def refusing(
    schedule: Schedule,
    policies: Sequence[Policy],
    config: Config,
    invariant: str,
    kind: tuple[int, int] | None = None,
) -> Refusing:
    """The smallest sets of clauses under which a schedule of the whole set doesn't break ``invariant`` any more, or not
    first by ``kind`` (slot of the actor or -1, primitive by number).

    The rules must be texts of the vocabulary: a rule in free Python can't be read with truths that aren't known.
    """
    circuit = Circuit()
    state = SymbolicState(SymbolicInterpreter(circuit), first_state(config, policies))
    base = COLUMNS["ENFORCE"]
    on = {}
    for i, clause in enumerate(CLAUSES):
        state.cells[base + i] = circuit.unknown(0, 1)
        on[clause] = circuit.literal(state.cells[base + i] == 1)
    for e, (op, a, b) in enumerate(schedule.events):
        state.cells[COLUMNS["EVENT"]] = e
        state.reader.apply(state, policies, op, a, b, (1 << len(policies)) - 1)
    broken = state.broken(invariant)
    if kind is not None:
        number = int(invariant[1:])
        who, what = (state.cells[COLUMNS[name] + number] for name in ("V_ACTOR", "V_PRIM"))
        broken = circuit.and_(broken, who == kind[0], what == kind[1])
    return _smallest(Literals(circuit), circuit.literal(broken), on)


def _smallest(solver: Literals, broken: int, on: dict[str, int]) -> Refusing:
    if solver.holds((broken, *on.values())) is None:
        most = len(solver.core(on.values()))
        return Refusing(_cores(solver, broken, on, most), True)
    for size in range(1, len(on)):
        found = [
            chosen
            for chosen in combinations(on, size)
            if solver.holds((broken, *(x if name in chosen else -x for name, x in on.items()))) is None
        ]
        if found:
            return Refusing(tuple(found), False)
    return Refusing((), False)


def _cores(solver: Literals, broken: int, on: dict[str, int], most: int) -> tuple[tuple[str, ...], ...]:
    """The smallest cores, of at most ``most`` clauses.

    An answer in which the violation happens names the clauses that it lacks; each core has one of those.
    """
    lacking: list[set[str]] = []
    for size in range(most + 1):
        found = []
        for chosen in combinations(on, size):
            if any(lack.isdisjoint(chosen) for lack in lacking):
                continue
            held = solver.holds((broken, *(on[name] for name in chosen)), on.values())
            if held is None:
                found.append(chosen)
            else:
                lacking.append({name for name, literal in on.items() if literal not in held})
        if found:
            return tuple(found)
    return ()
