"""A circuit run on numbers: many inputs at once, one bit of a long Python int for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fuzzkv.simulator.symbolic.circuit import TRUE, Circuit, Truth, Word

_INPUT, _AND, _XOR, _CHOICE = range(4)


class Simulation:
    """``count`` runs of one circuit beside each other.  ``give`` sets what isn't known, ``numbers`` reads what came of it;
    gates that were made since are run then, so a circuit may grow between.
    """

    def __init__(self, circuit: Circuit, count: int) -> None:
        self.circuit, self.count = circuit, count
        self._all = (1 << count) - 1
        self._values: list[int] = [0, self._all]
        self._given: dict[int, int] = {}

    def give(self, number: Any, values: Sequence[int]) -> None:
        """The values of an unknown number in each run.  Its bits must be inputs; what is known must be just that."""
        if not isinstance(number, Word):
            assert all(value == number for value in values), (number, set(values))
            return
        column = np.asarray(values)
        for i, bit in enumerate(number.bits):
            held = _packed(column >> i & 1)
            if abs(bit) == TRUE:
                assert held == (self._all if bit == TRUE else 0), "the value is outside the bounds"
            else:
                assert bit > 0 and self.circuit._kinds[bit] == _INPUT
                self._given[bit] = held

    def _run(self) -> None:
        kinds, (first, second, third) = self.circuit._kinds, self.circuit._inputs
        values, all_ = self._values, self._all
        for gate in range(len(values), len(kinds)):
            kind = kinds[gate]
            if kind == _INPUT:
                values.append(self._given.get(gate, 0))
                continue
            a, b = first[gate], second[gate]
            x = values[a] if a > 0 else all_ ^ values[-a]
            y = values[b] if b > 0 else all_ ^ values[-b]
            if kind == _AND:
                values.append(x & y)
            elif kind == _XOR:
                values.append(x ^ y)
            else:
                c = third[gate]
                z = values[c] if c > 0 else all_ ^ values[-c]
                values.append(z ^ (x & (y ^ z)))

    def bit(self, literal: int) -> int:
        """In which runs a literal holds: one bit a run."""
        if len(self._values) < len(self.circuit._kinds):
            self._run()
        return self._values[literal] if literal > 0 else self._all ^ self._values[-literal]

    def holds(self, truth: Any) -> np.ndarray[Any, Any]:
        """In which runs a truth holds."""
        return _unpacked(self.bit(self.circuit.literal(truth)), self.count) == 1

    def numbers(self, number: Any) -> np.ndarray[Any, Any]:
        """A number in each run."""
        if isinstance(number, Truth):
            return self.holds(number).astype(np.int64)
        if not isinstance(number, Word):
            return np.full(self.count, int(number), dtype=np.int64)
        bits = [self.bit(bit) for bit in number.bits]
        # What a word has beyond 64 bits must be its sign.
        assert all(bit == bits[-1] for bit in bits[63:]), "the number doesn't fit 64 bits"
        found = np.zeros(self.count, dtype=np.int64)
        for i in range(64 if len(bits) > 64 else len(bits) - 1):
            found += _unpacked(bits[i], self.count) << i
        return found if len(bits) > 64 else found - (_unpacked(bits[-1], self.count) << len(bits) - 1)


def simulated(
    circuit: Circuit, given: Mapping[Any, Sequence[int]] | Sequence[tuple[Any, Sequence[int]]]
) -> Simulation:
    """A circuit run on these values of what isn't known."""
    pairs = list(given.items()) if isinstance(given, Mapping) else list(given)
    simulation = Simulation(circuit, len(pairs[0][1]))
    for number, values in pairs:
        simulation.give(number, values)
    return simulation


def _packed(bits: np.ndarray[Any, Any]) -> int:
    return int.from_bytes(np.packbits(bits.astype(np.uint8), bitorder="little").tobytes(), "little")


def _unpacked(value: int, count: int) -> np.ndarray[Any, Any]:
    raw = np.frombuffer(value.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(raw, count=count, bitorder="little").astype(np.int64)
