"""A circuit before Z3: clauses go in as gates are made, questions are asked under assumptions."""

from __future__ import annotations

from typing import Any

import z3

from fuzzkv.machine.circuit import FALSE, TRUE, Circuit, Literal, Truth, Word


class Sat:
    """Z3's incremental solver of finite domains over one circuit.

    ``seconds`` bounds each question.  What the circuit requires holds in every answer.
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.clauses = 0
        self._solver = z3.SolverFor("QF_FD")
        self._required = 0
        self._model: Any = None

    def check(self, *assumed: Any, seconds: float | None = None) -> bool | None:
        """Whether all that is assumed can hold together; ``None`` if that wasn't known in time."""
        literals = [self.circuit.literal(truth) for truth in assumed]
        self._load(literals)
        if FALSE in literals:
            return False
        self._solver.set("timeout", 4_294_967_295 if seconds is None else max(1, int(1000 * seconds)))
        answer = self._solver.check(*[_named(literal) for literal in literals if literal != TRUE])
        self._model = self._solver.model() if answer == z3.sat else None
        return None if answer == z3.unknown else bool(answer == z3.sat)

    def watch(self, *numbers: Any) -> None:
        """Numbers that will be asked for in answers: what they are made of has to be known before."""
        self._load([bit for number in numbers for bit in self.circuit.bits(number)])

    def value(self, number: Any) -> int:
        """A number in the last answer, if it was watched."""
        if isinstance(number, Truth):
            return int(self._holds(number.literal))
        if not isinstance(number, Word):
            return int(number)
        bits = [self._holds(bit) for bit in number.bits]
        return sum(1 << i for i, bit in enumerate(bits[:-1]) if bit) - (bits[-1] << len(bits) - 1)

    def _holds(self, literal: Literal) -> bool:
        if literal in (TRUE, FALSE):
            return literal == TRUE
        found = z3.is_true(self._model.eval(_named(abs(literal))))
        return found if literal > 0 else not found

    def _load(self, roots: list[Literal]) -> None:
        new = self.circuit.always[self._required :]
        self._required += len(new)
        count, text = self.circuit.clauses([*roots, *new])
        text += "".join(f"{literal} 0\n" for literal in new)
        count += len(new)
        self.clauses += count
        if count:
            # Reading clauses as text is what is fast from Python; variable n is the constant of that number.
            self._solver.from_string(f"p cnf {len(self.circuit)} {count}\n{text}")


def _named(literal: Literal) -> Any:
    name = z3.Bool(abs(literal))
    return name if literal > 0 else z3.Not(name)
