"""The weakest guard: which condition on facts that a policy could be shown keeps its act from breaking an invariant.

Asked over all states of a small window, not only those of one schedule: a state is bad if the act runs in it and breaks the
invariant, good if it runs and breaks nothing.  A set of facts is enough if no bad state looks like a good one; the smallest such
set is found by counterexample (two states that look alike name the facts in which they differ), and the guard is true where
its facts don't look like a bad state.  So it refuses nothing that is harmless.  Where no set of facts is enough, guards that
refuse some harmless acts too are given instead, and called that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from fuzzkv.explain.any_state import LATEST, SMALL, Room, any_state
from fuzzkv.explain.normal_form import Cube, shortest
from fuzzkv.semantics.guard_facts import FACTS, MEASURES, look, said
from fuzzkv.semantics.layout import NINV
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import STEP, TICK, Config, Event
from fuzzkv.simulator.symbolic.circuit import Circuit, Literal
from fuzzkv.solver.literals import Literals

FEW = 5
"""Facts that a guard has at most."""
_BY_NAME = {text.__name__: text for text in (*FACTS, *MEASURES)}


@dataclass(frozen=True)
class Act:
    """What a policy does: the slot, the text of the primitive, and what it says after the slot; and the code of what
    follows if the invariant is broken only by that: ``STEP`` of a reader, or ``TICK``: what is in flight ends.
    """

    slot: int
    primitive: Callable[..., Any]
    what: tuple[int, ...]
    then: int | None


@dataclass(frozen=True)
class Asked:
    """One thing that a guard asks: that a fact holds or doesn't, or that a sum, the act included, stays below a bound or
    doesn't.
    """

    name: str
    holds: bool
    bound: int | None = None


@dataclass(frozen=True)
class Guard:
    """A condition on an act: one of ``ways`` holds, each of them in all that it asks; without ways it's never met.

    ``weakest``: it refuses nothing that is harmless.
    """

    act: Act
    ways: tuple[tuple[Asked, ...], ...]
    weakest: bool

    def permits(self, primitive: Callable[..., Any], s: Sequence[int], k: int, *what: int) -> bool:
        """Whether a state of numbers meets it for an act of policy ``k``."""
        after = list(s)
        if any(asked.bound is not None for way in self.ways for asked in way):
            primitive(after, True, k, *what)

        def meets(asked: Asked) -> bool:
            text = _BY_NAME[asked.name]
            if asked.bound is None:
                return bool(look(text, text, said(primitive, s, k, what))) == asked.holds
            return bool(look(text, text, said(primitive, after, k, what)) < asked.bound) == asked.holds

        return any(all(map(meets, way)) for way in self.ways)


def guards(
    policies: Sequence[Policy], config: Config, act: Act, invariant: str, room: Room = SMALL
) -> list[Guard] | None:
    """Guards of an act, the weakest first; ``None`` if it never breaks the invariant in the window, an empty list if no fact
    keeps it from that.

    There is more than one only if none is the weakest there could be: then the first is any of the others, joined.
    """
    moment = _Moment(policies, config, act, invariant, room)
    if moment.look((moment.bad,)) is None:
        return None
    found = moment.enough()
    if found is not None:
        ways = shortest(*moment.sorted_cubes(found))
        asked = [moment.asked[i] for i in found]
        kept = [
            tuple(
                Asked(name, value, bound)
                for (name, bound), value in zip(asked, way, strict=True)
                if value is not None
            )
            for way in ways
        ]
        return [Guard(act, tuple(kept), True)]
    safe = moment.safe()
    joined = [tuple((one,) for one in safe)] if len(safe) > 1 else []
    return [Guard(act, ways, False) for ways in (*joined, *(((one,),) for one in safe))]


def _follows(then: int | None, room: Room) -> list[Event | None]:
    """What may follow an act: nothing, a step that asks about any page, or that all that is in flight ends."""
    if then == STEP:
        return [(STEP, 0, focus) for focus in range(room.pages)]
    return [None if then is None else (TICK, LATEST, 0)]


def _any_place(circuit: Circuit, room: Room, name: str, value: Any) -> Any:
    """What an act says, in the window: its page or session is the first, a number of pages or a frame is any."""
    if name in ("p", "r"):
        return 0
    most = {"n": room.pages, "frame": room.frames - 1}.get(name)
    return value if most is None else circuit.unknown(0, most)


class _Moment:
    """An act in any state of the window: its facts as literals, and where it is bad or good."""

    def __init__(
        self, policies: Sequence[Policy], config: Config, act: Act, invariant: str, room: Room
    ) -> None:
        circuit = Circuit()
        state = any_state(circuit, policies, config, act.primitive, invariant, room)
        reader, k = state.reader, act.slot
        what = [
            _any_place(circuit, room, name, value)
            for name, value in said(act.primitive, 0, k, act.what).items()
        ][3:]
        known = said(act.primitive, state, k, what)
        self.solver = Literals(circuit)
        facts = {text.__name__: look(reader.text(text), text, known) for text in FACTS}

        def broken_then() -> tuple[Any, Any]:
            """Whether the invariant is broken now, or by what follows; and whether any is."""
            before, one, some = list(state.cells), [], []
            for event in _follows(act.then, room):
                state.cells = list(before)
                if event:
                    reader.apply(state, policies, *event, mask=0)
                one.append(state.broken(invariant))
                some += [state.broken(f"I{i}") for i in range(1, NINV)]
            state.cells = before
            return circuit.or_(*one), circuit.or_(*some)

        already, _ = broken_then()
        ran = reader.text(act.primitive)(state, True, k, *what)
        numbers = {text.__name__: look(reader.text(text), text, known) for text in MEASURES}
        broken, harm = broken_then()
        self.bad = circuit.literal(circuit.and_(ran, broken, circuit.not_(already)))
        self.good = circuit.literal(circuit.and_(ran, circuit.not_(harm)))
        self.asked: list[tuple[str, int | None]] = []
        self.literals: list[Literal] = []
        for name, value in facts.items():
            if circuit.is_term(value):
                self.asked.append((name, None))
                self.literals.append(circuit.literal(value))
        for name, number in numbers.items():
            bound = self._least(circuit, number)
            if bound is not None:
                self.asked.append((name, bound))
                self.literals.append(circuit.literal(number < bound))

    def look(self, assumed: Sequence[Literal]) -> frozenset[int] | None:
        """Which facts hold in some state in which these literals do."""
        held = self.solver.holds(assumed, self.literals)
        return None if held is None else frozenset(i for i, x in enumerate(self.literals) if x in held)

    def _least(self, circuit: Circuit, number: Any) -> int | None:
        """The least value that a measure has in a bad state, if it is ever less in a good one."""
        if not circuit.is_term(number):
            return None
        low, high = 0, 1 << len(number.bits)
        while low < high:
            middle = (low + high) // 2
            if self.solver.holds((self.bad, circuit.literal(number <= middle))) is None:
                low = middle + 1
            else:
                high = middle
        return low if self.solver.holds((self.good, circuit.literal(number < low))) is not None else None

    def _cubes(self, chosen: Sequence[int]) -> Iterator[tuple[Cube, list[Literal]]]:
        for values in product((True, False), repeat=len(chosen)):
            yield (
                values,
                [self.literals[i] if v else -self.literals[i] for i, v in zip(chosen, values, strict=True)],
            )

    def _alike(self, chosen: Sequence[int]) -> frozenset[int] | None:
        """The facts in which some bad state differs from a good one that looks the same by the chosen ones."""
        for _, cube in self._cubes(chosen):
            bad = self.look((self.bad, *cube))
            good = None if bad is None else self.look((self.good, *cube))
            if bad is not None and good is not None:
                return bad ^ good
        return None

    def enough(self) -> tuple[int, ...] | None:
        """The smallest set of facts by which bad states differ from good ones."""
        apart: list[frozenset[int]] = []
        for size in range(FEW + 1):
            for chosen in combinations(range(len(self.literals)), size):
                if any(differ.isdisjoint(chosen) for differ in apart):
                    continue
                differ = self._alike(chosen)
                if differ is None:
                    return chosen
                if not differ:
                    return None
                apart.append(differ)
        return None

    def safe(self) -> list[Asked]:
        """What alone keeps the act from being bad, and lets something pass that the others of this list don't."""
        alone = [
            x for literal in self.literals for x in (literal, -literal) if self.look((self.bad, x)) is None
        ]
        for x in reversed(list(alone)):
            if self.look((self.good, x, *(-other for other in alone if other != x))) is None:
                alone.remove(x)
        return [
            Asked(name, x == literal, bound)
            for x in alone
            for literal, (name, bound) in zip(self.literals, self.asked, strict=True)
            if literal in (x, -x)
        ]

    def sorted_cubes(self, chosen: Sequence[int]) -> tuple[set[Cube], set[Cube]]:
        """The ways in which the chosen facts may look: in which the act is harmless, and in which it never runs."""
        harmless: set[Cube] = set()
        idle: set[Cube] = set()
        for values, cube in self._cubes(chosen):
            if self.look((self.bad, *cube)) is None:
                (idle if self.look((self.good, *cube)) is None else harmless).add(values)
        return harmless, idle
