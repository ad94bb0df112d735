"""The checks of a gate: the candidate alone, the corpus replayed with it in the place of its kind, and a hunt of every
set of the others that has it in.

What is found is shrunk and filed beside the shipped corpus.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzzkv.cases.filing import Filing, Witness, order, witnesses
from fuzzkv.core.budgets import ALONE, BUDGET, CHUNK, FREE
from fuzzkv.core.results import FailureClass
from fuzzkv.events import (
    AcceptanceDone,
    ConflictFound,
    Event,
    Listener,
    PhaseStarted,
    Progress,
    emit,
)
from fuzzkv.gate.corpus_replay import Replay, replay_all
from fuzzkv.gate.lineup import GateOptions, Lineup
from fuzzkv.oracles.conflict import part_of_known
from fuzzkv.policies.registry import installed
from fuzzkv.search.acceptance import Alone, fault_of, try_alone
from fuzzkv.search.outcome import interacted
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.engine import BulkEngine


@dataclass
class Gate:
    """One run of a gate, with the result of each check so far.

    ``searched`` and ``seconds`` are by mask of the set; ``hunted`` are the kinds that the search met, ``without``
    those of the others alone, which are no fault of the candidate; ``found`` has for each kind
    of the candidate its best schedule and its first.
    """

    options: GateOptions
    lineup: Lineup
    listeners: Sequence[Listener]
    engine: BulkEngine | None = None
    filing: Filing | None = None
    alone: Alone | None = None
    fault: str = ""
    replays: list[Replay] = field(default_factory=list)
    searched: dict[int, BulkEngine] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    found: dict[FailureClass, tuple[Witness, Witness]] = field(default_factory=dict)
    hunted: set[FailureClass] = field(default_factory=set)
    without: set[FailureClass] = field(default_factory=set)
    budget: int = 0
    interrupted: bool = False

    def tell(self, event: Event) -> None:
        """Give an event to the listeners."""
        emit(self.listeners, event)

    @property
    def slot(self) -> int:
        """The candidate's slot."""
        return self.lineup.policies.index(self.lineup.candidate)

    @property
    def sets(self) -> list[int]:
        """The masks of the sets that have the candidate and another one, small ones first."""
        masks = range(1 << len(self.lineup.policies))
        return sorted(
            (m for m in masks if m >> self.slot & 1 and m.bit_count() > 1), key=lambda m: (m.bit_count(), m)
        )

    def run(self, cases: Sequence[Mapping[str, Any]]) -> None:
        """The checks in order; a candidate that fails alone isn't tried beside others."""
        if self.try_candidate():
            self.replay(cases)
            self.search()
        self.settle()

    def try_candidate(self) -> bool:
        """The candidate alone; its failures are witnesses too."""
        began = time.monotonic()
        name = self.lineup.candidate.name
        self.tell(PhaseStarted("accept", 1, f"{name} alone (a new policy is compiled first)"))
        self.fault = one_line(fault_of(self.lineup.candidate, Config()))
        if not self.fault:
            self.engine = BulkEngine(self.lineup.policies, Config())
            self.filing = Filing(
                self.engine, self.options.report_dir, self.options.seed, self.listeners, damage=False
            )
            looks = ALONE // FREE if self.engine.free else ALONE
            self.alone = try_alone(self.engine, name, seed=self.options.seed, schedules=looks)
            if self.alone.failures:
                alone = self.engine.again(seed=self.options.seed, only=1 << self.slot)
                alone.search(looks)
                self._take(alone)
        self.took["alone"] = time.monotonic() - began
        reason = self.fault or (self.alone.reason if self.alone else "")
        self.tell(AcceptanceDone(name, not reason, self.alone.schedules if self.alone else 0, reason))
        return not reason

    def replay(self, cases: Sequence[Mapping[str, Any]]) -> None:
        """The corpus with the candidate in the place of its kind."""
        assert self.filing is not None
        known = {**installed(), **{p.name: p for p in (*self.lineup.policies, *self.lineup.replaced)}}
        if cases:
            self.tell(
                PhaseStarted("replay", len(cases), "cases of the corpus with the candidate standing in")
            )
        began = time.monotonic()
        for replay in replay_all(cases, self.filing, self.lineup.candidate, known):
            self.replays.append(replay)
            for witness in replay.witnesses:
                self._see(witness)
        self.took["corpus"] = time.monotonic() - began

    def search(self) -> None:
        """Search every set in turn, a chunk each, until the budget or the time is over."""
        assert self.engine is not None
        options, sets = self.options, self.sets
        scale = FREE if self.engine.free else 1
        chunk = max(1, CHUNK // scale)
        whole = options.max_examples or (BUDGET // scale if options.max_time is None else 0)
        self.budget = max(1, whole // len(sets)) if whole else 0
        self.searched = {mask: self.engine.again(seed=options.seed, only=mask) for mask in sets}
        self.seconds = dict.fromkeys(sets, 0.0)
        self.tell(PhaseStarted("search", whole, "schedules of the sets that have the candidate"))
        began = time.monotonic()
        left = list(sets)
        while left:
            for mask in tuple(left):
                engine, start = self.searched[mask], time.monotonic()
                engine.search(min(chunk, self.budget - engine.drawn) if self.budget else chunk)
                self.seconds[mask] += time.monotonic() - start
                self._take(engine)
                if self.budget and engine.drawn >= self.budget:
                    left.remove(mask)
                if options.max_time is not None and time.monotonic() - began > options.max_time:
                    left.clear()
                    break
            self._progress(whole, max(1e-9, time.monotonic() - began))

    def settle(self) -> None:
        """Shrink and file what was found."""
        if self.filing is not None and self.found:
            self.tell(
                PhaseStarted("shrink", len(self.found), "classes of failures to their shortest schedule")
            )
            began = time.monotonic()
            names = [policy.name for policy in self.lineup.policies]
            kinds = sorted(self.found, key=lambda kind: order(kind, names))
            tries = (witness for kind in kinds for witness in dict.fromkeys(self.found[kind]))
            self.filing.settle(tries, self.without)
            self.filing.index()
            self.took["shrink"] = time.monotonic() - began

    def met(self, mask: int) -> bool:
        """Whether the policies of a set touched each other in its search."""
        engine = self.searched.get(mask)
        return engine is not None and interacted(engine.goals)

    def fails(self, replay: Replay) -> bool:
        """Whether a replayed case fails by the candidate's doing, which then is among what was filed."""
        filing = self.filing
        return filing is not None and any(
            filing.of(witness.failure_class) or witness.failure_class in filing.broken
            for witness in replay.witnesses
        )

    def _take(self, engine: BulkEngine) -> None:
        for witness in witnesses(engine.tally(), engine.config):
            if self.lineup.candidate.name in witness.failure_class.policies:
                self.hunted.add(witness.failure_class)
                self._see(witness)
            else:
                self.without.add(witness.failure_class)

    def _see(self, witness: Witness) -> None:
        assert self.filing is not None
        kind, known = witness.failure_class, {*self.found, *self.without}
        if part_of_known(kind, known):
            return
        if kind not in known:
            names, length = kind.policies, len(witness.events)
            self.filing.keep(witness)
            self.tell(ConflictFound(names, kind.invariant, kind.action, length, witness.drawn))
        best, first = self.found.get(kind, (witness, witness))
        self.found[kind] = (witness if witness.better_than(best) else best, first)

    def _progress(self, whole: int, seconds: float) -> None:
        engines = self.searched.values()
        self.tell(
            Progress(
                "search",
                sum(engine.drawn for engine in engines),
                whole,
                sum(engine.primitives for engine in engines) / seconds,
                sum(engine.runs for engine in engines) / seconds,
                sum(engine.failing for engine in engines),
                len(self.found),
            )
        )


def one_line(text: str) -> str:
    """A text of a stranger's, such as an exception's, on one line and without control characters."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))
