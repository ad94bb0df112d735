"""Proofs that no schedule of any length breaks an invariant while the contract is enforced.

By induction: the standing facts (``semantics.contract.inductive_facts``) hold in the first state of any configuration; every text that can
run, begun in any state in which they hold, ends in one in which they hold and breaks nothing.  Facts that aren't kept are
dropped until the rest is (so a broken clause costs just what stands on it), and the invariants are asked about over what
is left.  Numbers are integers without bound; pages, frames, copies and policies are those of a window.

Every invariant is tried for the over-approximation first: whatever policies do with the primitives that the set declares.  Those
that this doesn't prove are tried again for the rules as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_all_start_methods, get_context
from typing import Any

import z3

from fuzzkv.semantics.contract.inductive_facts import PREMISES
from fuzzkv.semantics.contract.invariants import INVARIANTS
from fuzzkv.semantics.policy import Policy
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.simulator.symbolic.terms import boolean
from fuzzkv.solver.obligations import FIRST, Composition, Segment, goals_left
from fuzzkv.solver.proofs import Breadth, Gap, Proof, Proofs
from fuzzkv.solver.texts import Text

Tell = Callable[[str, int, int], None]
"""Told the name of a text that was looked at, how many were so far and how many there are in this round."""


@dataclass(frozen=True)
class _Shown:
    """One goal of a text: the facts that it was tried from, those that show it, or the gap."""

    tried: frozenset[str]
    by: frozenset[str]
    gap: Gap | None
    seconds: float

    def stands(self, alive: frozenset[str]) -> bool:
        """Whether it is so from these facts too: what was shown stays shown from more, a gap stays one from fewer."""
        return alive <= self.tried if self.gap else self.by <= alive


@dataclass(frozen=True)
class _Limits:
    """When all has to be done (monotonic time), and seconds for one question."""

    until: float
    question: float

    @property
    def milliseconds(self) -> int:
        """What is left for the next question; 0 if nothing is."""
        return max(0, int(1000 * min(self.question, self.until - time.monotonic())))


def usual_window(policies: Sequence[Policy]) -> Window:
    """Two sessions of two pages, three device and two host frames, two copies, the policies and at least two.

    Every text but a rule looks at one page with its frames and its copy at a time, beside a free frame of each tier and
    a free place for a copy; a fact, at one more.
    """
    slots = max(2, len(policies))
    return Window(requests=2, pages=2, device=3, host=2, copies=2, policies=slots, entries=2)


def prove(
    policies: Sequence[Policy],
    *,
    window: Window | None = None,
    seconds: float = 60.0,
    question: float = 10.0,
    processes: int = 2,
    tell: Tell | None = None,
) -> Proofs:
    """Try to prove every invariant for a policy set under the contract.

    ``seconds`` bound the whole and ``question`` what the solver spends on one goal; what isn't shown by then is
    ``unknown``.  ``processes`` look at texts side by side where the system can fork, else one does.
    """
    began = time.monotonic()
    composition = Composition(policies, window or usual_window(policies))
    attempt = _Attempt(composition, _Limits(began + seconds, question), processes, tell)
    common = [FIRST, composition.settling, *composition.events]
    ways: dict[Breadth, list[Text]] = {"any policies": [*common, *composition.overapproximation]}
    if composition.rules:
        ways["these rules"] = [*common, *composition.rules]
    proofs: dict[str, Proof] = {}
    facts: dict[Breadth, tuple[str, ...]] = {}
    dropped: dict[Breadth, Mapping[str, Gap]] = {}
    for breadth, texts in ways.items():
        facts[breadth], dropped[breadth] = attempt.standing(texts)
        for invariant in INVARIANTS:
            wider = proofs.get(invariant.id)
            if wider and wider.verdict == "proved":
                continue
            proof = attempt.proof(invariant.id, breadth, texts)
            proofs[invariant.id] = replace(proof, gaps=proof.gaps or wider.gaps) if wider else proof
        if all(proof.verdict == "proved" for proof in proofs.values()):
            break
    return Proofs(
        policies=tuple(policy.name for policy in policies),
        events=tuple(text.name for text in composition.events),
        primitives=tuple(text.name for text in composition.overapproximation),
        window=composition.window,
        premises=tuple(premise.says for premise in PREMISES),
        proofs=tuple(proofs.values()),
        facts=facts,
        dropped=dropped,
        goals=sum(len(shown) for shown in attempt.shown.values()),
        seconds=time.monotonic() - began,
    )


class _Attempt:
    """The goals that were shown so far, by operation."""

    def __init__(self, composition: Composition, limits: _Limits, processes: int, tell: Tell | None) -> None:
        self.composition, self.limits, self.tell = composition, limits, tell
        self.processes = processes if "fork" in get_all_start_methods() else 1
        self.shown: dict[str, dict[str, _Shown]] = {}
        self.names = frozenset(composition.names())

    def standing(self, texts: Sequence[Text]) -> tuple[tuple[str, ...], dict[str, Gap]]:
        """The facts that all texts keep, and those that were dropped, each with why."""
        alive, dropped = self.names, dict[str, Gap]()
        while True:
            self._look_at(texts, alive)
            gaps = {
                name: shown.gap
                for text in texts
                for name, shown in self.shown[text.name].items()
                if shown.gap and name in alive
            }
            if not gaps:
                return tuple(name for name in self.composition.names() if name in alive), dropped
            dropped |= gaps
            alive -= gaps.keys()

    def _look_at(self, texts: Sequence[Text], alive: frozenset[str]) -> None:
        dead = self.names - alive
        todo: list[tuple[Text, frozenset[str] | None]] = []
        for text in texts:
            shown = self.shown.get(text.name)
            if shown is None:
                todo.append((text, None))
            elif stale := {name for name, one in shown.items() if not one.stands(alive)} - dead:
                todo.append((text, frozenset(stale)))
        # The long ones first, so that the last process isn't alone for long.
        todo.sort(key=lambda one: not one[0].name.startswith(("step", "settle", "act")))
        for n, (text, shown) in enumerate(self._looked_at(todo, alive), 1):
            self.shown.setdefault(text.name, {}).update(shown)
            if self.tell:
                self.tell(text.name, n, len(todo))

    def _looked_at(
        self, todo: Sequence[tuple[Text, frozenset[str] | None]], alive: frozenset[str]
    ) -> Iterator[tuple[Text, dict[str, _Shown]]]:
        if self.processes < 2 or len(todo) < 2:
            for text, wanted in todo:
                yield text, _look(self.composition, text, alive, wanted, self.limits)
            return
        # What is built before the fork needn't be built again for the next round.
        for text, _ in todo:
            self.composition.segments(text)
        _SHARED.append(self.composition)
        try:
            with ProcessPoolExecutor(self.processes, mp_context=get_context("fork")) as pool:
                sent: dict[Future[dict[str, _Shown]], Text] = {
                    pool.submit(_look_there, text.name, alive, wanted, self.limits): text
                    for text, wanted in todo
                }
                for done in as_completed(sent):
                    yield sent[done], done.result()
        finally:
            _SHARED.pop()

    def proof(self, invariant: str, breadth: Breadth, texts: Sequence[Text]) -> Proof:
        """What the texts make of an invariant, with the facts that stand."""
        goals = [shown for text in texts if (shown := self.shown[text.name].get(invariant))]
        gaps = tuple(shown.gap for shown in goals if shown.gap)
        return Proof(
            invariant=invariant,
            verdict="unknown" if gaps else "proved",
            breadth=None if gaps else breadth if goals else "nobody",
            facts=() if gaps else self._behind(frozenset[str]().union(*(shown.by for shown in goals)), texts),
            gaps=gaps,
            seconds=sum(shown.seconds for shown in goals),
        )

    def _behind(self, facts: frozenset[str], texts: Sequence[Text]) -> tuple[str, ...]:
        """These facts and those that they stand on."""
        needs: dict[str, set[str]] = {}
        for text in texts:
            for name, shown in self.shown[text.name].items():
                needs.setdefault(name, set()).update(shown.by)
        todo, found = list(facts), set(facts)
        while todo:
            more = needs.get(todo.pop(), set()) - found
            found |= more
            todo += more
        return tuple(name for name in self.composition.names() if name in found)


_SHARED: list[Composition] = []
"""What processes look at: it is forked, never sent."""


def _look_there(
    name: str, alive: frozenset[str], wanted: frozenset[str] | None, limits: _Limits
) -> dict[str, _Shown]:
    composition = _SHARED[-1]
    text = next(text for text in (FIRST, *composition.texts) if text.name == name)
    return _look(composition, text, alive, wanted, limits)


def _look(
    composition: Composition,
    text: Text,
    alive: frozenset[str],
    wanted: frozenset[str] | None,
    limits: _Limits,
) -> dict[str, _Shown]:
    """Try to show the goals of a text that are wanted (``None``: all of them) from facts that stand."""
    solver = z3.Solver()
    stands = {name: z3.Bool(f"stands: {name}") for name in sorted(alive)}
    found: dict[str, _Shown] = {}
    begun: Segment | None = None
    for segment, name, goal, known in goals_left(composition.segments(text), alive):
        if segment is not begun:
            begun = segment
            solver.add(*_assumed(segment, stands))
        before = found.get(name, _Shown(alive, frozenset(), None, 0.0))
        if before.gap or (wanted is not None and name not in wanted):
            continue
        clock = time.monotonic()
        shown = known if known is not None else _show(solver, goal, stands.values(), limits)
        spent = before.seconds + time.monotonic() - clock
        if isinstance(shown, frozenset):
            found[name] = _Shown(alive, before.by | shown, None, spent)
        else:
            found[name] = _Shown(alive, frozenset(), Gap(text.name, shown), spent)
    return found


def _assumed(segment: Segment, stands: Mapping[str, Any]) -> Iterator[Any]:
    for name, term in segment.assumed:
        if not name:
            yield boolean(term)
        elif name in stands:
            yield z3.Implies(stands[name], boolean(term))


def _show(
    solver: Any, goal: Any, stands: Iterable[Any], limits: _Limits
) -> frozenset[str] | dict[str, int] | None:
    """The facts that show a goal, a state that speaks against it, or ``None`` if time ran out."""
    left = limits.milliseconds
    if not left:
        return None
    solver.push()
    try:
        solver.set("timeout", left)
        solver.add(z3.Not(goal))
        answer = solver.check(*stands)
        if answer == z3.unsat:
            return frozenset(str(literal).removeprefix("stands: ") for literal in solver.unsat_core())
        if answer == z3.sat:
            model = solver.model()
            return {str(d): model[d].as_long() for d in model.decls() if "[" in str(d)}
        return None
    finally:
        solver.pop()
