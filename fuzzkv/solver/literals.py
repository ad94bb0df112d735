"""Z3 on a circuit: whether some literals can hold together, and if not, which of them can't."""

from __future__ import annotations

from collections.abc import Iterable

import z3

from fuzzkv.simulator.symbolic.circuit import Circuit, Literal


class Literals:
    """Asks a circuit one question after another.  Gates that are made later are asserted with the question
    that first needs them; what ``circuit.always`` requires holds in every answer.
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self._solver = z3.SolverFor("QF_FD")
        self._atoms: dict[int, z3.BoolRef] = {}
        self._required = 0
        self._given = bytearray()

    def _atom(self, literal: Literal) -> z3.BoolRef:
        """A literal as a term; Z3 calls variable ``n`` of a DIMACS text by the number ``n``."""
        atom = self._atoms.get(literal)
        if atom is None and literal > 0:
            context = z3.main_ctx()
            symbol = z3.Z3_mk_int_symbol(context.ref(), literal)
            atom = z3.BoolRef(z3.Z3_mk_const(context.ref(), symbol, z3.BoolSort().ast), context)
        elif atom is None:
            atom = z3.Not(self._atom(-literal))
        self._atoms[literal] = atom
        return atom

    def holds(self, assumed: Iterable[Literal], told: Iterable[Literal] = ()) -> set[Literal] | None:
        """Which of the literals ``told`` hold in an answer in which all of ``assumed`` do, or ``None`` if there is none."""
        assumed, told = tuple(assumed), tuple(told)
        required = self.circuit.always[self._required :]
        self._required = len(self.circuit.always)
        count, text = self.circuit.clauses((*assumed, *told, *required), self._given)
        text += "".join(f"{literal} 0\n" for literal in required)
        if text:
            # As a text: to build the same clauses as terms takes thirty times as long.
            self._solver.from_string(f"p cnf {len(self.circuit)} {count + len(required)}\n{text}")
        if self._solver.check(*(self._atom(x) for x in assumed)) != z3.sat:
            return None
        model = self._solver.model()
        return {x for x in told if z3.is_true(model.eval(self._atom(x), model_completion=True))}

    def core(self, assumed: Iterable[Literal]) -> list[Literal]:
        """Which of these assumptions can't hold together, after ``holds`` said ``None``."""
        core = {str(term) for term in self._solver.unsat_core()}
        return [literal for literal in assumed if str(self._atom(literal)) in core]
