"""A whole hunt on a live engine: each policy alone, then pairs and triples, one engine instance a set.

Same seed, same schedules: those of a set depend on the seed, the set and what its own runs reached.  Time only decides how
many there are.  What is found is filed at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fuzzkv import __version__
from fuzzkv.cases.case import Case
from fuzzkv.cases.session_shrink import TRIES
from fuzzkv.events import (
    AcceptanceDone,
    EngineSearchDone,
    Event,
    HuntFinished,
    HuntStarted,
    Listener,
    Outcome,
    PhaseStarted,
    WarningRaised,
    emit,
)
from fuzzkv.search.live.admission import Entrant, accept
from fuzzkv.search.live.filing import LiveFiling
from fuzzkv.search.live.loop import LiveSearch
from fuzzkv.search.live.plans import Set, covered
from fuzzkv.search.live.rows import judged
from fuzzkv.strategies.memory import open_database
from fuzzkv.targets.base import Target

ALONE: Final = 24
"""Schedules of a policy alone."""
PLAIN: Final = 12
"""Most schedules of the plain engine by itself: it also runs whatever a policy fails under."""
ACCEPTING: Final = 0.3
"""Share of the time that policies alone may take."""
KEEP: Final = 4
"""Engines at once."""


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """What a hunt on engines may be told: ``max_examples`` schedules a set, ``max_time`` seconds for everything (None: no
    bound; one of the two must be given); ``strength`` 2 looks at pairs, 3 at triples too; ``tries`` bounds a shrink;
    ``database`` is the folder of Hypothesis' example database (None: nothing is remembered).
    """

    policies: tuple[Any, ...]
    seed: int = 0
    max_examples: int | None = None
    max_time: float | None = 600.0
    strength: int = 3
    corpus: Path = Path("corpus")
    tries: int = TRIES
    alone: int = ALONE
    database: Path | None = None


@dataclass(frozen=True)
class LiveResult:
    """What it came to: exit code, cases, and the report as plain data."""

    exit_code: int
    cases: tuple[Case, ...]
    outcome: Outcome
    report: dict[str, Any]


class LiveHunt:
    """One hunt on a target."""

    def __init__(
        self,
        options: LiveOptions,
        target: Target[Any, Any],
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.options, self.target, self.listeners = options, target, listeners
        self.began = 0.0
        self.session = target.session(keep=KEEP)
        self.filing = LiveFiling(target, self.session, options.corpus, options.seed, listeners, options.tries)
        self.database = open_database(options.database)
        self.entrants: list[Entrant] = []
        self.wanted: list[Any] = []
        self.search = LiveSearch(
            self.filing,
            self.wanted,
            self.entrants,
            options.strength,
            options.max_examples,
            self._left,
            listeners,
            self.database,
        )

    def run(self) -> LiveResult:
        """Run it all.  ``KeyboardInterrupt`` ends it with what was found; other errors close the engines and go on."""
        self.began = time.monotonic()
        names = tuple(p.name for p in self.options.policies)
        self._tell(HuntStarted(names, self.options.seed, engine=self.target.engine, fuzzkv=__version__))
        interrupted = False
        try:
            if self._accept():
                self.search.run()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self.session.close()
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
                self.session.ahead(chosen[number + 1])
            entrant = accept(
                self.target,
                self.session,
                policies,
                seed=self.options.seed,
                schedules=self.options.alone if policies else min(PLAIN, self.options.alone),
                until=until,
                tries=self.options.tries,
                tell=self._tell,
                database=self.database,
            )
            self.entrants.append(entrant)
            passed = entrant.takes_part
            if passed or entrant.standing in ("fails", "control-fails"):
                self._tell(AcceptanceDone(entrant.name, passed, entrant.schedules, entrant.told))
            else:
                text = f"{entrant.name} is left out ({entrant.standing}): {entrant.told}"
                self._tell(WarningRaised("FKV103", text))
            if not policies and not passed:
                return False
            if entrant.standing == "fails":
                self.search.single[entrant.name] = entrant.reason
            elif passed and policies:
                self.wanted.append(policies[0])
        return len(self.wanted) > 0

    # -- the end -----------------------------------------------------------------------------------------

    def _left(self, share: float = 1.0) -> float:
        if self.options.max_time is None:
            return float("inf")
        return max(0.0, self.began + share * self.options.max_time - time.monotonic())

    def _finish(self, interrupted: bool) -> LiveResult:
        search = self.search
        cases = tuple(self.filing.filed.values())
        outcome, code, text = judged(
            self.entrants, search.rows, conflict=bool(cases), interrupted=interrupted
        )
        sets = [row.policies for row in search.rows if row.schedules]
        done = EngineSearchDone(
            search.schedules,
            self.session.steps,
            self.session.started,
            len(sets),
            *covered(self.target.language, sets, self.wanted, 2, search.refused),
            *covered(self.target.language, sets, self.wanted, 3, search.refused),
            len(search.novelty.seen),
            tuple(row.touched for row in search.rows),
        )
        self._tell(done)
        seconds = time.monotonic() - self.began
        end = HuntFinished(
            outcome, code, seconds, search.schedules, search.events, len(cases), len(cases), text=text
        )
        self._tell(end)
        report = {
            "schema_version": 1,
            "engine": self.target.engine,
            "fuzzkv": __version__,
            "seed": self.options.seed,
            "strength": self.options.strength,
            "config": dict(self.target.as_json()),
            "outcome": outcome,
            "seconds": round(seconds),
            **{key: value for key, value in done.as_dict().items() if key != "event"},
            "runs": self.session.runs,
            "page_events": search.events,
            "alone": [entrant.as_json(self.target.language) for entrant in self.entrants],
            "refused": [[p.name for p in part] for part in search.refused],
            "rows": [row.as_json() for row in search.rows],
            "cases": [case["id"] for case in cases],
            "shrinks": self.filing.shrinks,
            "not_shrunk": self.filing.lost,
        }
        return LiveResult(code, cases, outcome, report)

    def _tell(self, event: Event) -> None:
        emit(self.listeners, event)
