"""Proof obligations of an induction: assumptions and goals for every operation that can run.

Each text (``solver.texts``) is run once over a state that nobody knows, within a window.  Columns that no text ever
changes keep the numbers of the first state; which these are is found by running the texts until nothing new changes.

Copies that end (``settle``) are a text of their own.  Where another text settles, all facts have to hold there, and it
goes on from any state in which they hold and in which only what settling changes may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from fuzzkv.semantics.contract.inductive_facts import FACTS, KEPT, PREMISES, SETTLED, Fact
from fuzzkv.semantics.facts import hosted, present
from fuzzkv.semantics.layout import CLOSED, COLUMNS, FREE, NINV
from fuzzkv.semantics.ops.primitives import settle
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.interpreter import SymbolicInterpreter, SymbolicState
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.simulator.symbolic.terms import Terms, boolean
from fuzzkv.solver.texts import Text, events_of, overapproximation_of, rules_of

REPORTED = (
    *(
        "EVENT",
        "PRIMS",
        "STEPS",
        "LAT_MAX",
        "LAT_SUM",
        "FREED",
        "REMOTE",
        "DEMAND",
        "ACTED",
        "REFUSED",
        "GOAL",
    ),
    *("V_EVENT", "V_STAMP", "V_PAGE", "V_ACTOR", "V_PRIM", "R_STEPS", "TOUCHED"),
)
"""Columns that are only reported.  They aren't written here, and whoever reads one gets any number."""
CONFIGURED = ("STEP_COST", "PAGE_COST", "OBJECTIVE", "TOLERANCE", "LEDGER", "HEADROOM", "SHARE", "QSHARE")
"""Columns that a configuration sets: any numbers that keep the premises."""
STARTS_NOTHING = "settling starts nothing"
LEAVES_THE_REST = "settling leaves what has no copy in flight"
TAKES_NOTHING_AWAY = "settling takes no copy away"
FIRST = Text("first state", lambda *_: None)
RELATIONS = (STARTS_NOTHING, TAKES_NOTHING_AWAY, LEAVES_THE_REST)
"""Facts about the states before and after copies were settled."""
_PLACED = ("DEV", "HOST", "BUSY")
Term = Any


@dataclass
class Segment:
    """Assumptions, each under the name of its fact (``""`` for what always holds), and goals under theirs."""

    assumed: list[tuple[str, Term]] = field(default_factory=list)
    goals: list[tuple[str, Term]] = field(default_factory=list)


class _Reader(SymbolicInterpreter):
    """A reader that hands settling over, and gives any number for what is only reported."""

    def __init__(self, window: Window, at_settle: Callable[[SymbolicState], None]) -> None:
        super().__init__(Terms(), window, REPORTED)
        self._at_settle = at_settle

    def text(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As ever, but for ``settle``."""
        return self._at_settle if function is settle else super().text(function)

    def whole(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function with all that it does."""
        return super().text(function)

    def get(self, s: SymbolicState, column: int, i: Any) -> Any:
        """As ever, but for what is only reported."""
        return z3.FreshInt("any") if column in self._left_out else super().get(s, column, i)


class Composition:
    """A policy set under the contract, within a window: the texts that can run and the state that they run over.

    ``rules`` is empty unless all rules of the set can be read: none is in ordinary Python, or names a page beyond the
    window.
    """

    def __init__(self, policies: Sequence[Policy], window: Window) -> None:
        self.policies, self.window = tuple(policies), window
        self.reader = _Reader(window, self._settle_here)
        self.algebra: Terms = self.reader.algebra  # type: ignore[assignment]
        self._first = first_state(
            Config(device_frames=window.device, host_frames=window.host), policies, enforce=True
        )
        sizes, names = window.sizes(), window.names()
        self._places = {name: [(i, base + i) for i in range(sizes[base])] for name, base in COLUMNS.items()}
        self._counts = {"page": names["NP"], "device": names["ND"], "host": names["NH"], "copy": names["NJ"]}
        self._counts |= {"session": names["NR"], "policy": names["NK"], "machine": 1}
        self._counts["page of a policy"] = names["NP"] * names["NK"]
        self.events = tuple(events_of(self.policies, window))
        self.settling = Text("settle", lambda _, s: self.reader.whole(settle)(s))
        self.rules = tuple(rules_of(self.policies))
        self.overapproximation = tuple(overapproximation_of(self.policies))
        self.unknown = {*REPORTED, *CONFIGURED, "MF_HORIZON"}
        self._settled: set[str] = set()
        self._segments: list[Segment] = []
        self._known: dict[str, list[Segment]] = {}
        if not self._readable():
            self.rules = ()
        self._find_what_changes()
        any_state = self._any_state()
        self._before = [("", term) for _, term in self.facts(any_state, PREMISES)]
        self._before += self.facts(any_state, (*FACTS, *KEPT))
        self._names = (*dict(self.facts(any_state, (*FACTS, *KEPT, SETTLED))), *RELATIONS)
        self._known[FIRST.name] = [self._first_state()]

    @property
    def texts(self) -> tuple[Text, ...]:
        """Everything that can run."""
        return (self.settling, *self.events, *self.rules, *self.overapproximation)

    # What can be any number.

    def unknown_from(self, low: int, high: int | None) -> Term:
        """An argument that can be anything from ``low`` to ``high``; ``None``: without bound."""
        if low == high:
            return low
        term = z3.FreshInt("argument")
        self.algebra.always += [term >= low] if high is None else [term >= low, term <= high]
        return term

    def places(self, name: str) -> list[tuple[int, int]]:
        """The cells of a column within the window: place and cell."""
        return self._places[name]

    def _any_state(self) -> SymbolicState:
        cells: list[Any] = list(self._first)
        for name in sorted(self.unknown):
            for i, cell in self.places(name):
                cells[cell] = z3.Int(f"{name}[{i}]")
        return SymbolicState(self.reader, cells)

    def _readable(self) -> bool:
        try:
            for text in self.rules:
                text.run(self, self._any_state())
        except IndexError:
            return False
        return len(self.rules) == len(self.policies)

    def _find_what_changes(self) -> None:
        known = 0
        while known < len(self.unknown):
            known = len(self.unknown)
            for text in self.texts:
                self.algebra.always.clear()
                state = self._any_state()
                before = list(state.cells)
                text.run(self, state)
                changed = {
                    name
                    for name in COLUMNS
                    if any(state.cells[cell] is not before[cell] for _, cell in self.places(name))
                } - {"V_COUNT"}
                if text.name == "settle":
                    self._settled |= changed
                self.unknown |= changed

    # Facts.

    def facts(self, s: SymbolicState, which: Iterable[Fact]) -> list[tuple[str, Term]]:
        """Facts about every thing of their kind in a state, by name."""
        found = []
        for fact in which:
            for i in range(self._counts[fact.over]):
                slot = f" {i // self._counts['page']}" if fact.over == "page of a policy" else ""
                found.append((fact.name + slot, self.algebra.known(self.reader.text(fact.text)(s, i))))
        return found

    def names(self) -> tuple[str, ...]:
        """The names of all facts that an induction may stand on."""
        return self._names

    def _first_state(self) -> Segment:
        """The obligations in the first state of any configuration."""
        cells: list[Any] = list(self._first)
        assumed: list[tuple[str, Term]] = []
        for name in (*CONFIGURED, "MF_HORIZON"):
            for i, cell in self.places(name):
                cells[cell] = z3.Int(f"{name}[{i}]")
        for name in ("D_PAGE", "H_PAGE"):
            for i, cell in self.places(name):
                cells[cell] = z3.Int(f"{name}[{i}]")
                assumed.append(("", z3.Or(cells[cell] == FREE, cells[cell] == CLOSED)))
        state = SymbolicState(self.reader, cells)
        assumed += [("", term) for _, term in self.facts(state, PREMISES)]
        return Segment(assumed, self.facts(state, (*FACTS, *KEPT)))

    # Texts.

    def segments(self, text: Text) -> list[Segment]:
        """The obligations of an operation, from its begin to its end."""
        if text.name not in self._known:
            self._known[text.name] = self._run(text)
        return self._known[text.name]

    def _run(self, text: Text) -> list[Segment]:
        self.algebra.always.clear()
        state = self._any_state()
        before = list(state.cells)
        first = Segment(list(self._before))
        self._segments = [first]
        text.run(self, state)
        end = self._segments[-1]
        end.goals += self.facts(state, (*FACTS, *KEPT))
        for i in range(1, NINV):
            broken = self.algebra.known(state.cells[COLUMNS["V_COUNT"] + i])
            if self.algebra.is_term(broken) or broken != 0:
                end.goals.append((f"I{i}", self.algebra.known(broken == 0)))
        if text.name == "settle":
            end.goals += [*self.facts(state, (SETTLED,)), *self._related(before, state)]
        first.assumed += [("", term) for term in self.algebra.always]
        return self._segments

    def _related(self, before: Sequence[Term], state: SymbolicState) -> list[tuple[str, Term]]:
        """How a state is related to the one before copies were settled."""
        old, either = SymbolicState(self.reader, before), self.algebra.or_
        there = [self.reader.text(present), self.reader.text(hosted)]
        found = []
        for _, cell in self.places("J_KIND"):
            kind = state.cells[cell]
            found.append((STARTS_NOTHING, either(kind == 0, kind == before[cell])))
        for p, _ in self.places("DEV"):
            for is_there in there:
                found.append(
                    (TAKES_NOTHING_AWAY, either(self.algebra.not_(is_there(old, p)), is_there(state, p)))
                )
            same = [state.cells[COLUMNS[name] + p] == before[COLUMNS[name] + p] for name in _PLACED]
            busy = before[COLUMNS["BUSY"] + p] != 0
            found.append((LEAVES_THE_REST, either(busy, self.algebra.and_(*same))))
        return found

    def _settle_here(self, state: SymbolicState) -> None:
        before = list(state.cells)
        if self._segments:
            self._segments[-1].goals += self.facts(state, (*FACTS, *KEPT))
        for name in sorted(self._settled):
            for _, cell in self.places(name):
                state.cells[cell] = z3.FreshInt(name)
        if not self._segments:
            return
        after = Segment(self.facts(state, (*FACTS, *KEPT, SETTLED)))
        after.assumed += self._related(before, state)
        self._segments.append(after)


def goals_left(
    segments: Sequence[Segment], alive: frozenset[str]
) -> Iterator[tuple[Segment, str, Any, frozenset[str] | None]]:
    """The goals in order: (segment, name, term, the facts that show it if it needs no solver)."""
    assumed: dict[int, tuple[str, Term]] = {}
    for segment in segments:
        for name, term in segment.assumed:
            if isinstance(term, z3.ExprRef) and (not name or name in alive):
                assumed[term.get_id()] = (name, term)
        for name, term in segment.goals:
            known: frozenset[str] | None = None
            if term is True:
                known = frozenset()
            elif isinstance(term, z3.ExprRef) and term.get_id() in assumed:
                known = frozenset({assumed[term.get_id()][0]} - {""})
            yield segment, name, boolean(term), known
