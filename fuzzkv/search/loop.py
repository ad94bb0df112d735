"""The search of a hunt: rounds of schedules, in which every class of failure that is new is told and filed at once."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from fuzzkv.cases.filing import Filing, Witness, witnesses
from fuzzkv.core.budgets import BUDGET, CHUNK, ENFORCED, FREE, GENERATED
from fuzzkv.core.options import HuntOptions
from fuzzkv.core.results import FailureClass
from fuzzkv.errors import UsageError
from fuzzkv.events import (
    ConflictFound,
    Event,
    Listener,
    PhaseStarted,
    Progress,
    SearchDone,
    WarningRaised,
    emit,
)
from fuzzkv.oracles.conflict import part_of_known
from fuzzkv.oracles.residual import Residual
from fuzzkv.search.generated import Generated
from fuzzkv.search.warm_start import proved, short_witnesses
from fuzzkv.search.workers import Task, search_alone, search_together
from fuzzkv.semantics.schedule import Schedule
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.bulk.tally import Tally, merged
from fuzzkv.solver.ascent import Climb
from fuzzkv.strategies.covering_arrays import covered
from fuzzkv.strategies.memory import open_database


def found_event(witness: Witness) -> ConflictFound:
    """The news of a class that is seen for the first time."""
    kind = witness.failure_class
    return ConflictFound(kind.policies, kind.invariant, kind.action, len(witness.events), witness.drawn)


@dataclass
class Search:
    """One search and what it came to so far.

    ``compiled`` is an engine of the policies that take part; ``engine`` the one that searches, and ``filing`` files
    what it finds.  ``early`` is what the first look found and has been told, ``solved`` what the solver found before,
    ``seen`` are the kinds met, ``freed`` the device frames
    that the policies give up on average, by whether the contract is enforced.
    """

    options: HuntOptions
    compiled: BulkEngine
    listeners: Sequence[Listener] = ()
    early: Sequence[Witness] = ()
    tally: Tally = field(default_factory=Tally)
    seen: set[FailureClass] = field(default_factory=set)
    freed: dict[bool, float] = field(default_factory=dict)
    solved: list[Witness] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    engine: BulkEngine = field(init=False)
    filing: Filing = field(init=False)
    generated: Generated | None = field(init=False)

    def __post_init__(self) -> None:
        options = self.options
        self.engine = self.compiled.again(seed=options.seed, enforce=self.enforced, strength=options.strength)
        # The files are what a hunt is for: a disk that fails ends it.
        self.filing = Filing(self.engine, options.corpus, options.seed, self.listeners, forgiven=UsageError)
        self.generated = None
        if self.compiled.free:
            self.generated = Generated(
                self.compiled.again(seed=options.seed, enforce=self.enforced),
                self.seen,
                self._late,
                self._tell_flaky,
                open_database(options.database),
            )

    @property
    def enforced(self) -> bool:
        """Whether the policies run through the contract."""
        return self.options.contract == "enforce"

    @property
    def total(self) -> int:
        """Schedules to search."""
        times = ENFORCED if self.enforced else 1
        return self.options.max_examples or BUDGET * times // (FREE if self.compiled.free else 1)

    @property
    def chunk(self) -> int:
        """Schedules of a round."""
        return CHUNK // FREE if self.compiled.free else CHUNK

    @property
    def residual(self) -> Residual:
        """What the search may have missed."""
        return Residual(self.tally.singletons, self.tally.freely)

    def run(self) -> None:
        """Search until the budget or the time is over, or so little is left to find as was asked for.

        Raises what a worker raises, and ``RuleFault`` (FKV037) if a free policy's rule does.
        """
        if self.enforced:
            self._sample()
        for witness in self.early:
            self._meet(witness, told=True)
        asked = self.options.solver_depth > 0 and len(self.engine.names) > 1
        if asked and self.enforced and self._prove():
            return
        if asked and not self.compiled.free:
            self._ask_solver()
        sets = "schedules of all subsets of two policies and more"
        if len(self.engine.names) == 1:
            sets = "schedules of the one policy; a conflict takes two"
        self._tell(PhaseStarted("search", self.total, sets))
        self.began = began = time.monotonic()
        early = False
        with closing(self._rounds()) as found_so_far:
            for self.tally in found_so_far:
                self._take()
                seconds = max(1e-9, time.monotonic() - began)
                self._progress(seconds)
                early = self.residual.upper < (self.options.stop_risk or 0)
                if early or self._late():
                    break
        self._tell_reached(early and self.tally.drawn < self.total)

    def found(self) -> list[Witness]:
        """The kinds met, each with its best schedule, if the interpreters agree on that; then those of the solver and of the first
        look.
        """
        met = [*witnesses(self.tally, self.engine.config), *self.solved, *self.early]
        return [witness for witness in met if self.filing.agrees(witness)]

    def _prove(self) -> bool:
        """Try to prove that nothing can break; returns whether there is nothing left to search."""
        self._tell(PhaseStarted("solver", 0, "proofs for schedules of any length"))
        done = proved(self.engine)
        self._tell(done)
        return done.settled

    def _ask_solver(self) -> None:
        depth = self.options.solver_depth
        self._tell(PhaseStarted("solver", depth, "events of every set of the policies"))

        def heard(climb: Climb) -> None:
            self._tell(Progress("solver", climb.depth, depth))

        self.solved, done = short_witnesses(self.engine, depth, heard)
        self._tell(done)
        for witness in self.solved:
            self._meet(witness)
        self.engine.plant([witness.events for witness in self.solved])

    def _sample(self) -> None:
        # The same schedules, with the contract and without.
        look = min(self.total, 2 * self.chunk)
        for on in (False, True):
            sample = self.compiled.again(seed=self.options.seed, enforce=on)
            sample.search(look)
            self.freed[on] = sample.freed_frames
            self.tally = sample.tally()

    def _late(self) -> bool:
        """Whether the time is over."""
        limit = self.options.max_time
        return limit is not None and time.monotonic() - self.began > limit

    def _rounds(self) -> Generator[Tally, None, None]:
        """The search round by round; with a policy in ordinary Python, Hypothesis generates a share before each."""
        generated = self.generated
        if generated is None:
            yield from self._compiled_rounds(self.total)
            return
        left = self.total // GENERATED
        with closing(self._compiled_rounds(self.total - left)) as rounds:
            tally: Tally | None = Tally()
            while tally is not None:
                count = min(left, self.chunk // GENERATED)
                left -= count
                generated.draw(count)
                yield merged([tally, generated.tally()])
                following = next(rounds, None)
                if following is not None:
                    yield merged([following, generated.tally()])
                tally = following

    def _compiled_rounds(self, total: int) -> Generator[Tally, None, None]:
        """What the compiled generator draws, in this process or by workers."""
        options, engine = self.options, self.engine
        if options.workers == 1:
            return search_alone(engine, total, self.chunk)
        task = Task(
            given=options.policies,
            names=engine.names,
            config=engine.config,
            enforce=engine.enforce,
            seed=options.seed,
            strength=options.strength,
            seeds=tuple(witness.events for witness in self.solved),
        )
        return search_together(task, options.workers, total, self.chunk)

    def _take(self) -> None:
        """Tell and file the kinds that are new in a round."""
        for witness in witnesses(self.tally, self.engine.config):
            self._meet(witness)

    def _meet(self, witness: Witness, *, told: bool = False) -> None:
        kind = witness.failure_class
        if kind in self.seen:
            return
        self.seen.add(kind)
        if not self.filing.agrees(witness):
            return
        if self.generated is not None:
            self.generated.keep(Schedule(self.engine.names, witness.events))
        if not told:
            self._tell(found_event(witness))
        if len(kind.policies) > 1 and not part_of_known(kind, self.seen):
            self.filing.keep(witness)

    def _tell_flaky(self, kind: FailureClass) -> None:
        """Say that a policy in Python does something else when a schedule runs again."""
        names = " + ".join(kind.policies)
        text = f"{names}: {kind.invariant} at {kind.action} is not shown when the same schedule runs again"
        self._tell(
            WarningRaised("FKV106", text, "Keep what a rule remembers in page.mark and cache.note only.")
        )

    def _progress(self, seconds: float) -> None:
        tally = self.tally
        self._tell(
            Progress(
                "search",
                tally.drawn,
                self.total,
                tally.primitives / seconds,
                tally.runs / seconds,
                tally.failing,
                len(self.seen),
            )
        )

    def _tell_reached(self, early: bool) -> None:
        tally, residual, options = self.tally, self.residual, self.options
        reached, combinations = covered(self.engine.levels, options.strength, tally.longest)
        self._tell(
            SearchDone(
                tally.drawn,
                options.workers,
                options.strength,
                reached,
                combinations,
                tally.reached,
                len(tally.classes),
                tally.singletons,
                tally.freely,
                residual.estimate,
                residual.upper,
                early,
            )
        )

    def _tell(self, event: Event) -> None:
        emit(self.listeners, event)
