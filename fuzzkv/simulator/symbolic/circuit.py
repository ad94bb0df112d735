"""Numbers as bits: the semantics as a circuit of gates, which a SAT solver decides.

A word is a tuple of literals in two's complement, lowest bit first, as short as its value allows; what is known stays an
int or a bool.  A literal is a whole number: ``n`` is the output of gate ``n``, ``-n`` its negation; gate 1 is constant
truth.  Gates that are the same gate are made once.  Z3's own words of bits come to the same clauses, but a term costs
thirty times as much to build from Python, and the schedules here take millions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

TRUE, FALSE = 1, -1
Literal = int

_INPUT, _AND, _XOR, _CHOICE = range(4)
_CLAUSES = (
    "",
    "-{0} {1} 0\n-{0} {2} 0\n{0} {4} {5} 0\n",
    "-{0} {1} {2} 0\n-{0} {4} {5} 0\n{0} {4} {2} 0\n{0} {1} {5} 0\n",
    "{4} {5} {0} 0\n{4} {2} -{0} 0\n{1} {6} {0} 0\n{1} {3} -{0} 0\n{5} {6} {0} 0\n{2} {3} -{0} 0\n",
)
"""By kind of gate: its clauses, of the gate (0), its inputs (1 to 3) and their negations (4 to 6)."""
_COUNT = (0, 3, 4, 6)


class Truth:
    """A truth value that isn't known: one literal of a circuit."""

    __slots__ = ("circuit", "literal")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, circuit: Circuit, literal: Literal) -> None:
        self.circuit, self.literal = circuit, literal

    def __eq__(self, other: object) -> Any:
        return self.circuit.truth(-self.circuit.xor(self.literal, self.circuit.literal(other)))

    def __ne__(self, other: object) -> Any:
        return self.circuit.truth(self.circuit.xor(self.literal, self.circuit.literal(other)))


class Word:
    """A number that isn't known: its bits, lowest first, the last one its sign, and what it is at least and at most."""

    __slots__ = ("bits", "circuit", "high", "low")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, circuit: Circuit, bits: tuple[Literal, ...], low: int, high: int) -> None:
        self.circuit, self.bits, self.low, self.high = circuit, bits, low, high

    def __add__(self, other: Any) -> Any:
        low, high = _range(other)
        bits = self.circuit.sum(self.bits, self.circuit.bits(other), FALSE)
        return self.circuit.word(bits, self.low + low, self.high + high)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        low, high = _range(other)
        bits = self.circuit.sum(self.bits, _negated(self.circuit.bits(other)), TRUE)
        return self.circuit.word(bits, self.low - high, self.high - low)

    def __rsub__(self, other: Any) -> Any:
        low, high = _range(other)
        bits = self.circuit.sum(self.circuit.bits(other), _negated(self.bits), TRUE)
        return self.circuit.word(bits, low - self.high, high - self.low)

    def __neg__(self) -> Any:
        return 0 - self

    def __mul__(self, other: Any) -> Any:
        ends = [x * y for x in (self.low, self.high) for y in _range(other)]
        return self.circuit.word(
            self.circuit.product(self.bits, self.circuit.bits(other)), min(ends), max(ends)
        )

    __rmul__ = __mul__

    def __eq__(self, other: object) -> Any:
        low, high = _range(other)
        if high < self.low or self.high < low:
            return False
        return self.circuit.equal(self.bits, self.circuit.bits(other))

    def __ne__(self, other: object) -> Any:
        return self.circuit.not_(self == other)

    def __lt__(self, other: Any) -> Any:
        low, high = _range(other)
        if self.high < low or self.low >= high:
            return self.high < low
        return self.circuit.less(self.bits, self.circuit.bits(other))

    def __gt__(self, other: Any) -> Any:
        low, high = _range(other)
        if self.low > high or self.high <= low:
            return self.low > high
        return self.circuit.less(self.circuit.bits(other), self.bits)

    def __le__(self, other: Any) -> Any:
        return self.circuit.not_(self > other)

    def __ge__(self, other: Any) -> Any:
        return self.circuit.not_(self < other)


class Circuit:
    """Gates and what they are made of; the algebra of ``simulator.symbolic.interpreter`` over bits.

    ``always`` are literals that hold in every solution.
    """

    def __init__(self) -> None:
        self.always: list[Literal] = []
        self._kinds = bytearray(2)
        self._inputs = tuple(array("q", (0, 0)) for _ in range(3))
        self._known: dict[int, Literal] = {}

    def __len__(self) -> int:
        """How many gates there are."""
        return len(self._kinds) - 1

    # Gates.

    def free(self) -> Literal:
        """A gate that may be true or false."""
        return self._new(_INPUT, 0, 0, 0)

    def _new(self, kind: int, a: Literal, b: Literal, c: Literal) -> Literal:
        self._kinds.append(kind)
        for column, value in zip(self._inputs, (a, b, c), strict=True):
            column.append(value)
        return len(self._kinds) - 1

    def _gate(self, kind: int, a: Literal, b: Literal, c: Literal = 0) -> Literal:
        # One number as the key takes a third of what a tuple of four does.
        key = (((a << 32) + b << 32) + c << 2) + kind
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._new(kind, a, b, c)
        return found

    def both(self, a: Literal, b: Literal) -> Literal:
        """``a`` and ``b``."""
        if a == TRUE:
            return b
        if b == TRUE:
            return a
        if a == FALSE or b == FALSE or a == -b:
            return FALSE
        if a == b:
            return a
        if a > b:
            a, b = b, a
        return self._gate(_AND, a, b)

    def xor(self, a: Literal, b: Literal) -> Literal:
        """Whether just one of two holds."""
        if a in (TRUE, FALSE):
            return -b if a == TRUE else b
        if b in (TRUE, FALSE):
            return -a if b == TRUE else a
        if abs(a) == abs(b):
            return FALSE if a == b else TRUE
        sign = 1 if (a < 0) == (b < 0) else -1
        a, b = sorted((abs(a), abs(b)))
        return self._gate(_XOR, a, b) * sign

    def choice(self, g: Literal, yes: Literal, no: Literal) -> Literal:
        """``yes`` where ``g`` holds, else ``no``."""
        if g == TRUE or yes == no:
            return yes
        if g == FALSE:
            return no
        if yes == -no:
            return self.xor(-g, yes)
        if yes in (TRUE, g):
            return -self.both(-g, -no)
        if yes in (FALSE, -g):
            return self.both(-g, no)
        if no in (TRUE, -g):
            return -self.both(g, -yes)
        if no in (FALSE, g):
            return self.both(g, yes)
        if g < 0:
            g, yes, no = -g, no, yes
        sign = 1
        if yes < 0:
            yes, no, sign = -yes, -no, -1
        return self._gate(_CHOICE, g, yes, no) * sign

    # Numbers and truths.

    def truth(self, literal: Literal) -> Any:
        """A literal as a bool if it is constant, else as a truth."""
        return True if literal == TRUE else False if literal == FALSE else Truth(self, literal)

    def literal(self, value: Any) -> Literal:
        """A truth, or 0 or 1, as a literal."""
        if isinstance(value, Truth):
            return value.literal
        if isinstance(value, Word):
            raise TypeError("a number stands where a truth value belongs")
        return TRUE if value else FALSE

    def bits(self, value: Any) -> tuple[Literal, ...]:
        """A number (or a truth as 0 or 1) as bits."""
        if isinstance(value, Word):
            return value.bits
        if isinstance(value, Truth):
            return (value.literal, FALSE)
        number = int(value)
        return tuple(TRUE if number >> i & 1 else FALSE for i in range(_size(number)))

    def word(self, bits: Sequence[Literal], low: int, high: int) -> Any:
        """Bits of a number from ``low`` to ``high``: an int if they are constant, else a word no longer than it has to be."""
        size = min(len(bits), max(_size(low), _size(high)))
        while size > 1 and bits[size - 1] == bits[size - 2]:
            size -= 1
        kept = tuple(bits[:size])
        if all(bit in (TRUE, FALSE) for bit in kept):
            value = sum(1 << i for i, bit in enumerate(kept) if bit == TRUE)
            return value - (1 << size) if kept[-1] == TRUE else value
        return Word(self, kept, low, high)

    def unknown(self, low: int, high: int) -> Any:
        """A number that isn't known yet, from ``low`` to ``high``."""
        if low == high:
            return low
        size = max(_size(low), _size(high))
        signed = [self.free() for _ in range(size)]
        if low >= 0:
            signed[-1] = FALSE
        found = Word(self, tuple(signed), -(1 << (size - 1)), (1 << (size - 1)) - 1)
        self.require(self.and_(found >= low, found <= high))
        return self.word(signed, low, high)

    def sum(self, a: Sequence[Literal], b: Sequence[Literal], carry: Literal) -> list[Literal]:
        """``a + b + carry``, one bit longer than the longer of both."""
        size = max(len(a), len(b)) + 1
        out = []
        for x, y in zip(_extended(a, size), _extended(b, size), strict=True):
            half = self.xor(x, y)
            out.append(self.xor(half, carry))
            carry = -self.both(-self.both(x, y), -self.both(half, carry))
        return out

    def product(self, a: Sequence[Literal], b: Sequence[Literal]) -> list[Literal]:
        """``a * b``."""
        size = len(a) + len(b)
        long, total = _extended(a, size), [FALSE] * size
        for i, bit in enumerate(_extended(b, size)):
            if bit != FALSE:
                row = [FALSE] * i + [self.both(x, bit) for x in long[: size - i]]
                total = self.sum(total, row, FALSE)[:size]
        return total

    def equal(self, a: Sequence[Literal], b: Sequence[Literal]) -> Any:
        """Whether two numbers are equal."""
        size, same = max(len(a), len(b)), TRUE
        for x, y in zip(_extended(a, size), _extended(b, size), strict=True):
            same = self.both(same, -self.xor(x, y))
        return self.truth(same)

    def less(self, a: Sequence[Literal], b: Sequence[Literal]) -> Any:
        """Whether ``a < b``."""
        size, found = max(len(a), len(b)), FALSE
        long_a, long_b = _extended(a, size), _extended(b, size)
        for i in range(size):
            # The sign counts the other way round.
            x, y = (long_a[i], long_b[i]) if i < size - 1 else (long_b[i], long_a[i])
            found = self.choice(self.xor(x, y), y, found)
        return self.truth(found)

    # The vocabulary.

    def is_term(self, value: Any) -> bool:
        """Whether a value isn't known."""
        return isinstance(value, (Word, Truth))

    def known(self, value: Any) -> Any:
        """The value itself: what is constant is never a word."""
        return value

    def ite(self, g: Any, yes: Any, no: Any) -> Any:
        """``yes`` if ``g`` holds, else ``no``."""
        literal = self.literal(g)
        if literal in (TRUE, FALSE):
            return yes if literal == TRUE else no
        if isinstance(yes, (bool, Truth)) and isinstance(no, (bool, Truth)):
            return self.truth(self.choice(literal, self.literal(yes), self.literal(no)))
        a, b = self.bits(yes), self.bits(no)
        size = max(len(a), len(b))
        pairs = zip(_extended(a, size), _extended(b, size), strict=True)
        (low, high), (least, most) = _range(yes), _range(no)
        return self.word([self.choice(literal, x, y) for x, y in pairs], min(low, least), max(high, most))

    def and_(self, *terms: Any) -> Any:
        """Whether all hold."""
        found = TRUE
        for term in terms:
            found = self.both(found, self.literal(term))
        return self.truth(found)

    def or_(self, *terms: Any) -> Any:
        """Whether one holds."""
        found = TRUE
        for term in terms:
            found = self.both(found, -self.literal(term))
        return self.truth(-found)

    def not_(self, term: Any) -> Any:
        """Whether it doesn't hold."""
        return self.truth(-self.literal(term))

    def div(self, a: Any, b: int) -> Any:
        """The whole part of ``a / b`` for an ``a`` that isn't negative."""
        if not isinstance(a, Word):
            return int(a) // b
        if b & (b - 1) == 0:
            shifted = a.bits[b.bit_length() - 1 :]
            return self.word(shifted or a.bits[-1:], a.low // b, a.high // b)
        quotient: Any = 0
        for low in range(b, a.high + 1, b):
            quotient = self.ite(a >= low, low // b, quotient)
        return quotient

    # Clauses.

    def require(self, term: Any) -> None:
        """From now on this holds in every solution."""
        literal = self.literal(term)
        if literal != TRUE:
            self.always.append(literal)

    def clauses(self, roots: Iterable[Literal], given: bytearray | None = None) -> tuple[int, str]:
        """The clauses, in DIMACS, of all gates that ``roots`` depend on; and how many they are.

        ``given`` marks the gates that were given out before, and then those of this call too.
        """
        given = bytearray() if given is None else given
        given.extend(bytes(len(self._kinds) - len(given)))
        found: list[str] = []
        count = 0
        todo = [abs(root) for root in roots]
        if not given[TRUE]:
            given[TRUE], count = 1, 1
            found.append(f"{TRUE} 0\n")
        while todo:
            gate = todo.pop()
            if given[gate]:
                continue
            given[gate] = 1
            kind = self._kinds[gate]
            if kind != _INPUT:
                a, b, c = (column[gate] for column in self._inputs)
                found.append(_CLAUSES[kind].format(gate, a, b, c, -a, -b, -c))
                count += _COUNT[kind]
                todo += (abs(a), abs(b), abs(c)) if kind == _CHOICE else (abs(a), abs(b))
        return count, "".join(found)


def _size(number: int) -> int:
    """Bits of a number with its sign."""
    return (number if number >= 0 else -number - 1).bit_length() + 1


def _range(value: Any) -> tuple[int, int]:
    """What a number, or a truth as one, is at least and at most."""
    if isinstance(value, Word):
        return value.low, value.high
    return (0, 1) if isinstance(value, Truth) else (int(value), int(value))


def _extended(bits: Sequence[Literal], size: int) -> list[Literal]:
    return [*bits, *[bits[-1]] * (size - len(bits))]


def _negated(bits: Sequence[Literal]) -> tuple[Literal, ...]:
    return tuple(-bit for bit in bits)
