"""The way of a hunt over lives of a real engine: each policy alone, then pairs and triples, one engine a set.

Same seed, same schedules: those of a set depend on the seed, the set and what its own runs reached.  Time only decides how
many there are.  What is found is filed at once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fuzzkv import __version__
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.events import (
    AcceptanceDone,
    Event,
    HuntFinished,
    HuntStarted,
    Listener,
    LivesDone,
    Outcome,
    PhaseStarted,
    Progress,
    WarningRaised,
    emit,
)
from fuzzkv.live.accepting import Entrant, Sound, accept, form_of, note_acts
from fuzzkv.live.arms import Arm, Arms, Judge, LiveKind, Verdict
from fuzzkv.live.config import EngineConfig
from fuzzkv.live.finding import LiveFiling
from fuzzkv.live.lives import Lives, Start
from fuzzkv.live.novelty import Novelty
from fuzzkv.live.plans import Set, covered, plan
from fuzzkv.live.policies import LivePolicy
from fuzzkv.live.portfolio import Portfolio
from fuzzkv.live.rows import SetRow, judged
from fuzzkv.live.schedule import LiveSchedule
from fuzzkv.live.shrinking import TRIES

ALONE: Final = 24
"""Schedules of a policy alone."""
ALONE_TRIES: Final = 150
"""Candidates to shrink the schedule of what fails alone."""
ACCEPTING: Final = 0.3
"""Share of the time that policies alone may take."""
LIFE: Final = 12.0
"""Seconds that a set is worth at least, a start included: with less time, sets are larger and fewer."""
BASE: Final = EngineConfig(pages=128)
"""The plain engine: eight requests of the longest context fit side by side."""
KEEP: Final = 4
"""Engines at once."""
DISMISSED: Final = 2
"""How often a kind of failure is looked into that a fresh engine doesn't repeat, or without an act of each policy."""


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """What a hunt over lives may be told: ``max_examples`` schedules a set, ``max_time`` seconds for everything (None: no
    bound; one of the two must be given); ``strength`` 2 looks at pairs, 3 at triples too; ``tries`` bounds a shrink.
    """

    policies: tuple[LivePolicy, ...]
    seed: int = 0
    max_examples: int | None = None
    max_time: float | None = 600.0
    strength: int = 3
    base: EngineConfig = BASE
    corpus: Path = Path("corpus")
    tries: int = TRIES
    alone: int = ALONE


@dataclass(frozen=True)
class LiveResult:
    """What it came to: exit code, cases, and the report as plain data."""

    exit_code: int
    cases: tuple[dict[str, Any], ...]
    outcome: Outcome
    report: dict[str, Any]


class LiveHunt:
    """One hunt.  ``start`` starts lives, ``judge`` judges runs, ``sound`` policies alone; ``engine`` is the engine's
    name and version.
    """

    def __init__(
        self,
        options: LiveOptions,
        start: Start,
        judge: Judge,
        engine: str,
        listeners: Sequence[Listener] = (),
        sound: Sound = lambda policies: "",
    ) -> None:
        self.options, self.engine, self.listeners, self.sound = options, engine, listeners, sound
        self.lives = Lives(start, options.base, keep=KEEP)
        self.arms = Arms(self.lives, judge)
        self.filing = LiveFiling(
            self.arms, options.base, engine, options.corpus, options.seed, listeners, options.tries
        )
        self.novelty = Novelty()
        self.entrants: list[Entrant] = []
        self.rows: list[SetRow] = []
        self.single: dict[str, str] = {}
        self.refused: list[Set] = []
        self.dismissed: Counter[LiveKind] = Counter()
        self.events = 0
        self.wanted: list[LivePolicy] = []

    def run(self) -> LiveResult:
        """Run it all.  ``KeyboardInterrupt`` ends it with what was found; other errors close the lives and go on."""
        self.began = time.monotonic()
        names = tuple(p.name for p in self.options.policies)
        self._tell(HuntStarted(names, self.options.seed, engine=self.engine, fuzzkv=__version__))
        interrupted = False
        try:
            if self._accept():
                self._search()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self.lives.close()
        self.filing.index()
        return self._finish(interrupted)

    # -- alone -------------------------------------------------------------------------------------------

    def _accept(self) -> bool:
        """Try the plain engine, then each policy alone; whether there is something to search."""
        chosen: list[Set] = [(), *((p,) for p in self.options.policies)]
        self._tell(PhaseStarted("accept", len(chosen), "the plain engine, then each policy alone"))
        for number, policies in enumerate(chosen):
            until = time.monotonic() + self._left(ACCEPTING) / (len(chosen) - number)
            if number + 1 < len(chosen):
                self.lives.ahead(chosen[number + 1])
            entrant = accept(
                self.arms,
                policies,
                seed=self.options.seed,
                schedules=self.options.alone,
                until=until,
                sound=self.sound,
                tries=min(ALONE_TRIES, self.options.tries),
            )
            self.entrants.append(entrant)
            passed = entrant.takes_part
            self._tell(AcceptanceDone(entrant.name, passed, entrant.schedules, entrant.reason))
            if not policies and not passed:
                return False
            if entrant.standing == "fails":
                self.single[entrant.name] = entrant.reason
            elif passed and policies:
                self.wanted.append(policies[0])
        return len(self.wanted) > 0

    # -- sets --------------------------------------------------------------------------------------------

    def _search(self) -> None:
        sets = self._planned()
        word = "pairs" if self.options.strength == 2 else "pairs and triples"
        text = f"{word} of {len(self.wanted)} policies, in {len(sets)} sets"
        self._tell(PhaseStarted("search", len(sets), text))
        while sets and self._left() > 0:
            policies, *sets = sets
            if sets:
                self.lives.ahead(sets[0])
            row, known = SetRow(policies), (len(self.refused), len(self.single))
            self.rows.append(row)
            until = time.monotonic() + self._left() / (len(sets) + 1)
            try:
                self._look_at(row, until)
            except EnvironmentFailure as error:
                self._note_refusal(row, error)
            self._tell(self._progress(len(self.rows) + len(sets)))
            if (len(self.refused), len(self.single)) != known:
                sets = self._planned()

    def _planned(self) -> list[Set]:
        """The sets that are left to look at."""
        most = max(1, int(self._left() / LIFE)) if self.options.max_time is not None else 10_000
        return plan(
            [policy for policy in self.wanted if policy.name not in self.single],
            strength=self.options.strength,
            most=most,
            done=[row.policies for row in self.rows if row.schedules],
            refused=self.refused,
        )

    def _note_refusal(self, row: SetRow, error: EnvironmentFailure) -> None:
        """Say that the engine refuses a set, and find the part of it that it refuses; the rest is planned anew."""
        reason = " ".join(error.reason.split())[:300]
        row.note = f"not supported by this build: {reason}"
        if row.schedules:
            # It took the set; something else failed, such as the control.
            self._tell(WarningRaised(error.code, f"{' + '.join(p.name for p in row.policies)}: {reason}"))
            return
        part = list(row.policies)
        for policy in row.policies:
            fewer = [p for p in part if p is not policy]
            if len(fewer) > 1 and not self._takes(fewer):
                part = fewer
        self.refused.append(tuple(part))
        names = " + ".join(policy.name for policy in part)
        self._tell(WarningRaised(error.code, f"this build refuses {names}: {reason}"))

    def _takes(self, policies: Sequence[LivePolicy]) -> bool:
        try:
            self.lives.open(policies)
        except EnvironmentFailure:
            return False
        return True

    def _look_at(self, row: SetRow, until: float) -> None:
        options = self.options
        self.lives.open(row.policies)
        portfolio = Portfolio(
            form_of(row.policies), f"{options.seed} {' '.join(p.name for p in row.policies)}"
        )
        reached = Novelty()
        while options.max_examples is None or row.schedules < options.max_examples:
            if row.schedules and options.max_time is not None and time.monotonic() > until:
                break
            schedule = portfolio.draw()
            arm = self.arms.run(row.policies, schedule)
            row.schedules += 1
            row.steps += arm.history.steps
            row.touched += not arm.idle
            self.events += len(arm.history.log)
            note_acts(row.exercised, arm)
            row.states += self.novelty.new(arm.history)
            # What this set has reached decides what it draws: other sets may have had less time in another run.
            if reached.new(arm.history):
                portfolio.keep(schedule)
            self._judge(row, arm, schedule)
            if self.single.keys() & {p.name for p in row.policies}:
                row.note = "a policy of it fails alone"
                break

    def _judge(self, row: SetRow, arm: Arm, schedule: LiveSchedule) -> None:
        if not arm.failed:
            row.words["numeric-tie" if arm.ties else "clean"] += 1
            return
        row.failing += 1
        if self.filing.known(arm):
            row.words["known"] += 1
        elif any(self.dismissed[kind] >= DISMISSED for kind in arm.kinds()):
            row.words["as before"] += 1
        else:
            verdict = self.arms.look(arm, schedule)
            row.words[verdict.word] += 1
            if verdict.word in ("not-repeated", "not-exercised"):
                self.dismissed.update(arm.kinds())
            self._take(verdict, schedule)

    def _take(self, verdict: Verdict, schedule: LiveSchedule) -> None:
        if verdict.word == "conflict":
            self.filing.take(verdict, schedule, self.schedules)
        elif verdict.word == "single-policy":
            entrant = next(e for e in self.entrants if e.policies == verdict.whole.policies)
            violation = verdict.whole.violations[0]
            entrant.standing, entrant.verdict, entrant.witness = "fails", verdict, schedule
            entrant.reason = f"{violation.invariant} {violation.what}: {violation.text}"[:300]
            self.single[entrant.name] = entrant.reason
            self._tell(AcceptanceDone(entrant.name, False, entrant.schedules, entrant.reason))

    # -- the end -----------------------------------------------------------------------------------------

    @property
    def schedules(self) -> int:
        """Schedules drawn for sets so far."""
        return sum(row.schedules for row in self.rows)

    def _left(self, share: float = 1.0) -> float:
        if self.options.max_time is None:
            return float("inf")
        return max(0.0, self.began + share * self.options.max_time - time.monotonic())

    def _progress(self, sets: int) -> Progress:
        seconds = max(1e-9, time.monotonic() - self.began)
        failing = sum(row.failing for row in self.rows)
        return Progress(
            "search",
            len(self.rows),
            sets,
            self.events / seconds,
            self.schedules / seconds,
            failing,
            len(self.filing.filed),
        )

    def _finish(self, interrupted: bool) -> LiveResult:
        cases = tuple(self.filing.filed.values())
        outcome, code, text = judged(self.entrants, self.rows, conflict=bool(cases), interrupted=interrupted)
        sets = [row.policies for row in self.rows if row.schedules]
        done = LivesDone(
            self.schedules,
            self.lives.steps,
            self.lives.started,
            len(sets),
            *covered(sets, self.wanted, 2, self.refused),
            *covered(sets, self.wanted, 3, self.refused),
            len(self.novelty.seen),
            tuple(row.touched for row in self.rows),
        )
        self._tell(done)
        seconds = time.monotonic() - self.began
        end = HuntFinished(
            outcome, code, seconds, self.schedules, self.events, len(cases), len(cases), text=text
        )
        self._tell(end)
        report = {
            "schema_version": 1,
            "engine": self.engine,
            "fuzzkv": __version__,
            "seed": self.options.seed,
            "strength": self.options.strength,
            "config": self.options.base.as_json(),
            "outcome": outcome,
            "seconds": round(seconds),
            **{key: value for key, value in done.as_dict().items() if key != "event"},
            "runs": self.lives.runs,
            "page_events": self.events,
            "alone": [entrant.as_json() for entrant in self.entrants],
            "refused": [[p.name for p in part] for part in self.refused],
            "rows": [row.as_json() for row in self.rows],
            "cases": [case["id"] for case in cases],
            "shrinks": self.filing.shrinks,
            "not_shrunk": self.filing.lost,
        }
        return LiveResult(code, cases, outcome, report)

    def _tell(self, event: Event) -> None:
        emit(self.listeners, event)
