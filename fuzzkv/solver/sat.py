"""A circuit before Z3: one question in DIMACS to a process of its own, which takes a fifth of the memory of terms in this
one, and can be ended.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from fuzzkv.core.childproc import Child
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.simulator.symbolic.circuit import FALSE, TRUE, Circuit, Literal, Truth, Word

MEMORY = 5000
"""Megabytes that one question may take; with more its answer is that it isn't known."""


class Model:
    """Numbers for what isn't known that answer a question."""

    def __init__(self, circuit: Circuit, true: set[int]) -> None:
        self._circuit, self._true = circuit, true

    def __call__(self, number: Any) -> int:
        """A number in this answer; what it is made of must have been a part of the question."""
        if isinstance(number, Truth):
            return int(self._holds(number.literal))
        if not isinstance(number, Word):
            return int(number)
        bits = [self._holds(bit) for bit in number.bits]
        return sum(1 << i for i, bit in enumerate(bits[:-1]) if bit) - (bits[-1] << len(bits) - 1)

    def _holds(self, literal: Literal) -> bool:
        if literal in (TRUE, FALSE):
            return literal == TRUE
        return (abs(literal) in self._true) == (literal > 0)


class Question:
    """Whether some truths of a circuit can hold together, with all that it requires; ``watched`` numbers can be asked for in
    the answer.

    ``clauses`` is the size of the question.  The question runs from ``start`` on; ``answer`` waits for it.
    """

    def __init__(self, circuit: Circuit, *truths: Any, watched: tuple[Any, ...] = ()) -> None:
        self._circuit = circuit
        self._child: Child | None = None
        self._told: Any = None
        holds = [*circuit.always, *(circuit.literal(truth) for truth in truths)]
        self._trivial = FALSE in holds
        bits = [bit for number in watched for bit in circuit.bits(number)]
        self.clauses, self._text = (0, "") if self._trivial else circuit.clauses([*holds, *bits])
        self.clauses += len(holds)
        self._text += "".join(f"{literal} 0\n" for literal in holds)

    def start(self, seconds: float) -> None:
        """Ask.  Raises ``EnvironmentFailure`` (FKV062) where Z3's program is missing."""
        if self._trivial:
            return
        options = ["-dimacs", "-in", f"-T:{max(1, round(seconds))}", f"-memory:{MEMORY}"]
        # Files, for pipes would have to be filled and emptied while Z3 works.
        self._told = TemporaryFile()  # noqa: SIM115 (it is read when the process has ended)
        with TemporaryFile() as file:
            file.write(f"p cnf {len(self._circuit)} {self.clauses}\n{self._text}".encode())
            self._text = ""
            file.seek(0)
            self._child = Child([_program(), *options], stdin=file, stdout=self._told)

    def answer(self) -> Model | bool | None:
        """A model if the answer is yes, ``False`` if it is no, ``None`` if it wasn't known in time."""
        if self._trivial:
            return False
        assert self._child is not None
        self._child.wait()
        with self._told as file:
            file.seek(0)
            told = file.read()
        if b"s UNSATISFIABLE" in told:
            return False
        if b"s SATISFIABLE" not in told:
            return None
        words = told.partition(b"s SATISFIABLE")[2].split()
        return Model(self._circuit, {int(word) for word in words if word.isdigit()})

    @property
    def running(self) -> bool:
        """Whether it is still being answered."""
        return self._child is not None and self._child.status is None

    def cancel(self) -> None:
        """Ask no more."""
        if self._child is not None:
            self._child.kill()


def _program() -> str:
    beside = Path(sys.executable).parent / ("z3.exe" if os.name == "nt" else "z3")
    found = str(beside) if beside.exists() else shutil.which("z3")
    if found is None:
        raise EnvironmentFailure(
            code="FKV062",
            value="z3",
            reason="the program of the package z3-solver isn't there",
            cure="Run 'pip install z3-solver' in this environment.",
        )
    return found
