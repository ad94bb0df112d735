"""Numbers as bits: every operation against Python's own numbers, by simulation and through Z3."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from fuzzkv.semantics import vocabulary as plain
from fuzzkv.simulator.symbolic.circuit import FALSE, TRUE, Circuit, Truth, Word
from fuzzkv.solver.sat import Model, Question
from tests.solver.simulate import simulated

XS, YS = range(-6, 8), range(12)
PAIRS = list(product(XS, YS))
PAIRED = [list(column) for column in zip(*PAIRS, strict=True)]

OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    # Each over an algebra ``m``, a signed ``x`` and a ``y`` that isn't negative.
    "sum": lambda m, x, y: x + y,
    "sum with a number": lambda m, x, y: 5 + x + -3,
    "difference": lambda m, x, y: x - y,
    "difference from a number": lambda m, x, y: 3 - x,
    "negative": lambda m, x, y: -x,
    "product": lambda m, x, y: x * y,
    "square": lambda m, x, y: x * x,
    "product with a number": lambda m, x, y: -7 * x,
    "product with nothing": lambda m, x, y: x * 0 + y * 1,
    "equal": lambda m, x, y: x == y,
    "unequal": lambda m, x, y: x != y,
    "equal to a number": lambda m, x, y: x == -6,
    "less": lambda m, x, y: x < y,
    "greater": lambda m, x, y: x > y,
    "at most": lambda m, x, y: x <= y,
    "at least": lambda m, x, y: x >= y,
    "a number at most": lambda m, x, y: x >= -2,
    "a large number": lambda m, x, y: x + (1 << 40) > y,
    "halves": lambda m, x, y: m.div(y, 2),
    "eighths": lambda m, x, y: m.div(y, 8),
    "more than all": lambda m, x, y: m.div(y, 64),
    "thirds": lambda m, x, y: m.div(y * y, 3),
    "sevenths": lambda m, x, y: m.div(y * 10 + 3, 7),
    "whole": lambda m, x, y: m.div(y, 1),
    "rest": lambda m, x, y: y - m.div(y, 4) * 4,
    "choice of widths": lambda m, x, y: m.ite(x < y, x * 100, y),
    "choice of a number": lambda m, x, y: m.ite(x == y, -1, y),
    "choice of truths": lambda m, x, y: m.ite(x > 2, y > 3, x < -2),
    "choice of a truth and a number": lambda m, x, y: m.ite(x > 2, y > 3, x),
    "choice of the same": lambda m, x, y: m.ite(x > y, y, y),
    "choice of the opposite": lambda m, x, y: m.ite(x > y, x == y, m.not_(x == y)),
    "choice of itself": lambda m, x, y: m.ite(x > 0, x > 0, y > 3),
    "choice of what it isn't": lambda m, x, y: m.ite(x > 0, y > 3, m.not_(x > 0)),
    "both": lambda m, x, y: m.and_(x > 0, y > 3, True),
    "one of them": lambda m, x, y: m.or_(x > 3, y > 9, False),
    "neither": lambda m, x, y: m.not_(m.or_(x > 0, y > 3)),
    "never": lambda m, x, y: m.and_(x > 0, m.not_(x > 0)),
    "always": lambda m, x, y: m.or_(x > 0, m.not_(x > 0)),
    "truths alike": lambda m, x, y: (x > 0) == (y > 3),
    "truths unlike": lambda m, x, y: (x > 0) != (y > 3),
    "a truth and a one": lambda m, x, y: (x > 0) == 1,
    "a number and a truth": lambda m, x, y: x == (y > 3),
    "a number with a truth": lambda m, x, y: x + (y > 3),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_pythons(name: str) -> None:
    circuit, operation = Circuit(), OPERATIONS[name]
    x, y = circuit.unknown(min(XS), max(XS)), circuit.unknown(min(YS), max(YS))
    found = operation(circuit, x, y)
    simulation = simulated(circuit, [(x, PAIRED[0]), (y, PAIRED[1])])
    assert simulation.numbers(found).tolist() == [int(operation(plain, *pair)) for pair in PAIRS]
    assert all(simulation.holds(Truth(circuit, literal)).all() for literal in circuit.always)


@pytest.mark.parametrize(("low", "high"), [(-6, 7), (0, 11), (-5, -2), (3, 4), (1, 32), (0, 1), (-1, 0)])
def test_an_unknown_number_has_its_bounds(low: int, high: int) -> None:
    circuit = Circuit()
    number = circuit.unknown(low, high)
    free = [bit for bit in number.bits if abs(bit) != TRUE]
    every = list(product((0, 1), repeat=len(free)))
    simulation = simulated(
        circuit, [(number_of(circuit, bit), [row[i] for row in every]) for i, bit in enumerate(free)]
    )
    within = np.all(
        [simulation.holds(Truth(circuit, literal)) for literal in [TRUE, *circuit.always]], axis=0
    )
    assert sorted(simulation.numbers(number)[within].tolist()) == list(range(low, high + 1))


def number_of(circuit: Circuit, bit: int) -> Word:
    """A free bit as a number."""
    return Word(circuit, (bit, FALSE), 0, 1)


def test_what_is_known_stays_a_number() -> None:
    circuit = Circuit()
    x = circuit.unknown(0, 9)
    assert circuit.unknown(4, 4) == 4 and isinstance(circuit.unknown(4, 4), int)
    assert x * 0 is not x and x * 0 == 0 and isinstance(x - x, int)
    assert circuit.and_(x > 3, x > 3).literal == (x > 3).literal
    assert (x > 9) is False or isinstance(x > 9, Truth)
    assert circuit.ite(True, x, 3) is x and circuit.ite(0, x, 3) == 3
    assert circuit.and_() is True and circuit.or_() is False and circuit.not_(0) is True
    assert circuit.div(17, 5) == 3 and circuit.known(x) is x
    assert circuit.is_term(x) and circuit.is_term(x == 1) and not circuit.is_term(1)


def test_a_gate_is_made_once() -> None:
    circuit = Circuit()
    x, y = circuit.unknown(0, 9), circuit.unknown(0, 9)
    first = (x + y) * x == y
    size = len(circuit)
    assert ((x + y) * x == y).literal == first.literal and len(circuit) == size
    assert (y > x).literal == (x < y).literal and (x >= y).literal == -(x < y).literal


def test_a_number_is_no_truth() -> None:
    circuit = Circuit()
    x = circuit.unknown(0, 9)
    with pytest.raises(TypeError, match="a number stands where a truth value belongs"):
        circuit.and_(x, True)
    with pytest.raises(TypeError):
        hash(x)
    with pytest.raises(TypeError):
        hash(x == 1)


def expression(m: Any, leaves: list[Any], random: Random) -> Any:
    """A random expression over an algebra; the same one for the same seed."""
    numbers, truths = list(leaves), [leaves[0] < leaves[1]]
    for _ in range(12):
        a, b, c = (random.choice(numbers) for _ in range(3))
        t, u = random.choice(truths), random.choice(truths)
        small = random.randint(-9, 9)
        numbers.append(random.choice([a + b, a - small, m.ite(t, a, c), m.ite(u, small, b)]))
        truths.append(random.choice([a < b, a == c, m.and_(t, u), m.not_(t), m.ite(t, u, a >= small)]))
    return numbers[-1] * numbers[-2] + m.ite(truths[-1], 1, 0)


def test_random_expressions_are_pythons() -> None:
    for seed in range(40):
        circuit = Circuit()
        x, y = circuit.unknown(min(XS), max(XS)), circuit.unknown(min(YS), max(YS))
        found = expression(circuit, [x, y], Random(seed))
        simulation = simulated(circuit, [(x, PAIRED[0]), (y, PAIRED[1])])
        wanted = [int(expression(plain, list(pair), Random(seed))) for pair in PAIRS]
        assert simulation.numbers(found).tolist() == wanted


def asked(circuit: Circuit, *truths: Any, watched: tuple[Any, ...] = ()) -> Model | bool | None:
    question = Question(circuit, *truths, watched=watched)
    question.start(20)
    return question.answer()


def test_an_answer_is_one_and_no_is_no() -> None:
    for seed in range(6):
        circuit = Circuit()
        x, y = circuit.unknown(min(XS), max(XS)), circuit.unknown(min(YS), max(YS))
        found = expression(circuit, [x, y], Random(seed))
        values = {int(expression(plain, list(pair), Random(seed))) for pair in PAIRS}
        goal = sorted(values)[len(values) // 2]
        more = x > y
        model = asked(circuit, found == goal, watched=(x, y, found, more))
        assert isinstance(model, Model) and model(found) == goal and model(3) == 3
        assert int(expression(plain, [model(x), model(y)], Random(seed))) == goal
        assert model(x) in XS and model(y) in YS and model(more) == (model(x) > model(y))
        missed = next(value for value in range(min(values), max(values) + 2) if value not in values)
        assert asked(circuit, found == missed) is False


def test_every_answer_is_counted() -> None:
    circuit = Circuit()
    x, y = circuit.unknown(-3, 3), circuit.unknown(0, 3)
    circuit.require(x * y == 0)
    found = set()
    while isinstance(model := asked(circuit, watched=(x, y)), Model):
        found.add((model(x), model(y)))
        circuit.require(circuit.not_(circuit.and_(x == model(x), y == model(y))))
    assert found == {(x, y) for x in range(-3, 4) for y in range(4) if x * y == 0}


def test_gates_are_given_out_once() -> None:
    circuit = Circuit()
    x, y = circuit.unknown(0, 7), circuit.unknown(0, 7)
    given = bytearray()
    first = circuit.literal(x + y == 9)
    count, text = circuit.clauses([first], given)
    assert text.count("\n") == count and count > 10
    assert circuit.clauses([first], given) == (0, "")
    more, text = circuit.clauses([circuit.literal(x + y == 8)], given)
    assert 0 < more < count and text.count("\n") == more
