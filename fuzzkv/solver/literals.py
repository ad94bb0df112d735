"""A circuit's questions to Z3: can these literals hold together, and if not, which of them can't?"""

from __future__ import annotations

from collections.abc import Iterable

import z3

from fuzzkv.machine.circuit import TRUE, Circuit, Literal


class Literals:
    """What a circuit says, asked one question after another.  Gates that are made later are asserted with the question
    that first needs them; what ``circuit.always`` requires holds in every answer.
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self._solver = z3.SolverFor("QF_FD")
        self._atoms: dict[int, z3.BoolRef] = {}
        self._required = 0
        self._solver.add(self._atom(TRUE))

    def _atom(self, literal: Literal) -> z3.BoolRef:
        atom = self._atoms.get(literal)
        if atom is None:
            atom = z3.Bool(f"g{literal}") if literal > 0 else z3.Not(self._atom(-literal))
            self._atoms[literal] = atom
        return atom

    def add(self, clause: Iterable[Literal]) -> None:
        """From now on one of these literals holds."""
        literals = tuple(clause)
        for made in self.circuit.clauses(literals):
            self._solver.add(z3.Or([self._atom(x) for x in made]))
        self._solver.add(z3.Or([self._atom(x) for x in literals]))

    def holds(self, assumed: Iterable[Literal], told: Iterable[Literal] = ()) -> set[Literal] | None:
        """Which of the literals ``told`` hold in an answer in which all of ``assumed`` do, or ``None`` if there is none."""
        assumed, told = tuple(assumed), tuple(told)
        for clause in self.circuit.always[self._required :]:
            self.add(clause)
        self._required = len(self.circuit.always)
        for made in self.circuit.clauses((*assumed, *told)):
            self._solver.add(z3.Or([self._atom(x) for x in made]))
        if self._solver.check(*(self._atom(x) for x in assumed)) != z3.sat:
            return None
        model = self._solver.model()
        return {x for x in told if z3.is_true(model.eval(self._atom(x), model_completion=True))}

    def core(self, assumed: Iterable[Literal]) -> list[Literal]:
        """Which of these assumptions can't hold together, after ``holds`` said ``None``."""
        core = {str(term) for term in self._solver.unsat_core()}
        return [literal for literal in assumed if str(self._atom(literal)) in core]
