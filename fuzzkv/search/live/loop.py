"""The search of a hunt on engines: set by set, schedules are drawn, run and judged; what is new is filed at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis.database import ExampleDatabase

from fuzzkv.core.results import FailureClass
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.events import AcceptanceDone, Event, Listener, PhaseStarted, Progress, WarningRaised, emit
from fuzzkv.search.live.admission import OFTEN, Entrant, note_acts
from fuzzkv.search.live.filing import LiveFiling
from fuzzkv.search.live.generating import Novelty, drawn, remember, remembered, scores_of
from fuzzkv.search.live.plans import Set, plan
from fuzzkv.search.live.rows import SetRow
from fuzzkv.strategies.generation import failures
from fuzzkv.strategies.portfolio import Portfolio
from fuzzkv.targets.arms import Verdict, judged
from fuzzkv.targets.base import Arm

LIFE: Final = 12.0
"""Seconds that a set is worth at least, a start included: with less time, sets are larger and fewer."""
SHRINKING: Final = 0.2
"""The share of the time that is kept free for shrinking, so that every set has its turn; what is left goes to the last."""
DISMISSED: Final = 2
"""How often a class of failure is looked into that comes to neither a conflict nor a policy that fails alone."""


@dataclass
class LiveSearch:
    """The search of ``wanted``, the policies that passed alone (``entrants`` are all that were tried).

    ``max_examples`` schedules a set, while ``left`` (seconds; infinite without a bound) is above zero.  ``rows`` tell of each
    set, ``single`` why policies fail alone, ``refused`` which parts of sets the engine doesn't take.  What failed in an earlier
    hunt comes first, out of ``database``.
    """

    filing: LiveFiling
    wanted: Sequence[Any]
    entrants: Sequence[Entrant]
    strength: int
    max_examples: int | None
    left: Callable[[], float]
    listeners: Sequence[Listener] = ()
    database: ExampleDatabase | None = None
    single: dict[str, str] = field(default_factory=dict)
    rows: list[SetRow] = field(default_factory=list)
    refused: list[Set] = field(default_factory=list)
    novelty: Novelty = field(default_factory=Novelty)
    dismissed: Counter[FailureClass] = field(default_factory=Counter)
    events: int = 0

    def __post_init__(self) -> None:
        self.target, self.session = self.filing.target, self.filing.session
        self.language = self.target.language
        self.began = time.monotonic()

    @property
    def schedules(self) -> int:
        """Schedules drawn for sets so far."""
        return sum(row.schedules for row in self.rows)

    def run(self) -> None:
        """Look at every set, until the time is over; then at one more, of as much as can be of what is left."""
        sets = self._planned()
        word = "pairs" if self.strength == 2 else "pairs and triples"
        text = f"{word} of {len(self.wanted)} policies, in {len(sets)} sets"
        self._tell(PhaseStarted("search", len(sets), text))
        kept = SHRINKING * self.left() if self.left() < float("inf") else 0.0
        while sets:
            over = self.left() <= 0
            if over:
                sets = self._planned()[:1]
            if not sets:
                break
            policies, *sets = sets
            if sets:
                self.session.ahead(sets[0])
            row, known = SetRow(policies), (len(self.refused), len(self.single))
            self.rows.append(row)
            mine = max(0.0, self.left() - kept) / (len(sets) + 1) if sets else self.left()
            until = time.monotonic() + mine
            try:
                self._look_at(row, until)
            except EnvironmentFailure as error:
                self._note_refusal(row, error)
            self._tell(self._progress(len(self.rows) + len(sets)))
            if (len(self.refused), len(self.single)) != known:
                sets = self._planned()
            if over:
                break

    def _planned(self) -> list[Set]:
        """The sets that are left to look at; those that failed in an earlier hunt come first."""
        most = max(1, int(self.left() / LIFE)) if self.left() < float("inf") else 10_000
        wanted = [policy for policy in self.wanted if policy.name not in self.single]
        done = [row.policies for row in self.rows if row.schedules]
        failed = [s for s in self._failed_before(wanted) if s not in done]
        sets = plan(
            self.language,
            wanted,
            strength=self.strength,
            most=most,
            done=[*done, *failed],
            refused=self.refused,
        )
        return [*failed, *sets]

    def _failed_before(self, policies: Sequence[Any]) -> list[Set]:
        """Sets of these policies that failed in an earlier hunt, out of the database."""
        if self.database is None:
            return []
        sets = [s for size in range(2, self.strength + 1) for s in self.language.groups(policies, size)]
        return [s for s in sets if (memory := remembered(self.database, self.language, s)) and memory.saved()]

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

    def _takes(self, policies: Sequence[Any]) -> bool:
        try:
            self.session.open(policies)
        except EnvironmentFailure:
            return False
        return True

    def _look_at(self, row: SetRow, until: float) -> None:
        self.session.open(row.policies)
        names = " ".join(policy.name for policy in row.policies)
        portfolio = self.language.portfolio(row.policies, f"{self.filing.seed} {names}")
        look = _Together(self, row, until, portfolio)
        found = failures(
            look,
            drawn(portfolio),
            seed=portfolio.seed,
            most=self.max_examples,
            memory=remembered(self.database, self.language, row.policies),
        )
        for failed in found:
            self._take(look.verdict, failed.schedule)

    def is_new(self, row: SetRow, arm: Arm[Any]) -> bool:
        """Count a run of a set; whether it failed in a way that isn't known."""
        if not arm.failed:
            row.words["numeric-tie" if arm.outcome.ties else "clean"] += 1
            return False
        row.failing += 1
        mine = [
            entrant for entrant in self.entrants if entrant.policies and entrant.policies[0] in arm.policies
        ]
        known = next((entrant for entrant in mine if entrant.knows(arm)), None)
        if known is not None:
            row.words["known alone"] += 1
            if row.words["known alone"] >= OFTEN and 2 * row.words["known alone"] > row.schedules:
                self._leave_out(known)
            return False
        if self.filing.known(arm):
            row.words["known"] += 1
        elif any(self.dismissed[kind] >= DISMISSED for kind in arm.classes()):
            row.words["as before"] += 1
        else:
            return True
        return False

    def judge(self, row: SetRow, arm: Arm[Any], schedule: Any) -> Verdict[Any]:
        """The verdict about a failure that isn't known."""
        verdict = judged(self.session, arm, schedule)
        row.words[verdict.word] += 1
        if verdict.word not in ("conflict", "single-policy"):
            self.dismissed.update(arm.classes())
        return verdict

    def _take(self, verdict: Verdict[Any], schedule: Any) -> None:
        if verdict.word in ("conflict", "single-policy"):
            # A larger set may not be looked at again, its failing part always is.
            remember(self.database, self.language, verdict.whole.policies, schedule)
        if verdict.word == "conflict":
            fewer = self.filing.take(verdict, schedule, self.schedules)
            if fewer is None:
                return
            arm, near = fewer
            verdict, schedule = judged(self.session, arm, near), near
            self.rows[-1].words[f"then {verdict.word}"] += 1
            if verdict.word == "conflict":
                # A smaller set: shrunk and looked at in its turn.
                self._take(verdict, schedule)
        if verdict.word == "single-policy":
            entrant = next(e for e in self.entrants if e.policies == verdict.whole.policies)
            first = entrant.verdict is None
            entrant.take(verdict, schedule)
            if first:
                entrant.standing = "sometimes"
                text = f"{entrant.name} fails alone under a schedule of the search: {entrant.reason}"
                self._tell(WarningRaised("FKV102", text, "What it shows alone isn't looked into again."))

    def _leave_out(self, entrant: Entrant) -> None:
        entrant.standing = "fails"
        self.single[entrant.name] = entrant.reason
        self._tell(
            AcceptanceDone(entrant.name, False, entrant.schedules, f"in most of a set's: {entrant.reason}")
        )

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

    def _tell(self, event: Event) -> None:
        emit(self.listeners, event)


@dataclass
class _Together:
    """The property of one set's search: a schedule shows nothing new.  ``portfolio`` keeps what reaches something new."""

    search: LiveSearch
    row: SetRow
    until: float
    portfolio: Portfolio[Any]
    reached: Novelty = field(default_factory=Novelty)
    states: frozenset[Hashable] = frozenset()
    arm: Arm[Any] = field(init=False)
    verdict: Verdict[Any] = field(init=False)

    @property
    def name(self) -> str:
        """The set."""
        return " + ".join(policy.name for policy in self.row.policies)

    def fails(self, schedule: Any) -> bool:
        """Run the whole set."""
        search, row = self.search, self.row
        steps, events = search.session.steps, search.session.events
        self.arm = arm = search.session.run(row.policies, schedule)
        row.schedules += 1
        row.steps += search.session.steps - steps
        row.touched += not arm.idle
        search.events += search.session.events - events
        note_acts(row.exercised, arm)
        self.states = search.language.states(arm)
        row.states += search.novelty.new(self.states)
        # What this set has reached decides what it draws: other sets may have had less time in another run.
        if self.reached.new(self.states):
            self.portfolio.keep(schedule)
        return search.is_new(row, arm)

    def repeats(self, schedule: Any) -> bool:
        """Run it on a fresh engine, and the smaller sets."""
        self.verdict = self.search.judge(self.row, self.arm, schedule)
        return self.verdict.word != "not-repeated"

    def scores(self) -> Mapping[str, float]:
        """How much was going on in the last run."""
        return scores_of(self.arm, self.states)

    def over(self) -> bool:
        """Whether the set's time is over, or a policy of it is left out."""
        if self.search.single.keys() & {policy.name for policy in self.row.policies}:
            self.row.note = "a policy of it fails alone"
            return True
        return self.row.schedules > 0 and time.monotonic() > self.until
