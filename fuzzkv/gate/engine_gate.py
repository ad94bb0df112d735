"""The gate of a policy of a live engine: alone, in the place of its kind through the corpus, and in a hunt beside others.

The report has the form of a gate's on the model (:mod:`fuzzkv.gate.gate_report`), so the same screens and files show it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fuzzkv import __version__
from fuzzkv.errors import FuzzkvError
from fuzzkv.events import AcceptanceDone, Event, GateFinished, GateStarted, Listener, PhaseStarted, emit
from fuzzkv.gate.gate_report import EXIT_CODES, SCHEMA_VERSION, ReportRow, row
from fuzzkv.gate.run import GateResult
from fuzzkv.search.live.admission import Entrant, Standing, accept
from fuzzkv.search.live.filing import LiveFiling
from fuzzkv.search.live.hunt import ALONE, LiveHunt, LiveOptions
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.targets.arms import Verdict, judged
from fuzzkv.targets.base import SessionRecipe, Target

KEEP: Final = 4
TRIES: Final = 60
"""Candidates of a shrink: a schedule of the corpus is short already."""


STOOD: Final[Mapping[Standing, str]] = {
    "passes": "accepted",
    "sometimes": "single-policy",
    "fails": "single-policy",
    "idle": "vacuous",
    "unsupported": "vacuous",
    "control-fails": "vacuous",
}
"""What a gate calls how a candidate stands alone; where the plain engine fails too, nothing is shown of the candidate."""


@dataclass(frozen=True, kw_only=True)
class EngineGateOptions:
    """Options of a gate on an engine: the ``candidate`` and those ``against`` which it is hunted (none: no hunt), the cases of
    the corpus, seconds for the candidate alone and the hunt together, and the folder for new cases.
    """

    candidate: Any
    against: tuple[Any, ...] = ()
    cases: tuple[Mapping[str, Any], ...] = ()
    allowed: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    max_examples: int | None = None
    max_time: float | None = 600.0
    report_dir: Path = Path("gate-report")


@dataclass
class EngineGate:
    """One gate on ``target``; ``entrant`` is the candidate alone, ``rows`` and ``failures`` what the checks came to."""

    target: Target[Any, Any]
    options: EngineGateOptions
    listeners: Sequence[Listener] = ()
    entrant: Entrant | None = None
    rows: list[ReportRow] = field(default_factory=list)
    failures: list[ReportRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ran: int = 0
    interrupted: bool = False

    def run(self) -> GateResult:
        """All checks, and the report.  After ``KeyboardInterrupt`` the report tells what was found until then."""
        began, candidate = time.monotonic(), self.options.candidate
        others = tuple(policy.name for policy in self.options.against)
        self._tell(GateStarted(candidate.name, others, (), self.options.seed, self.target.engine))
        try:
            if self._alone():
                self._corpus()
                self._hunt()
        except KeyboardInterrupt:
            self.interrupted = True
        report = self._report(time.monotonic() - began)
        self._tell(GateFinished(report["outcome"], report["exit_code"], report))
        return GateResult(report["exit_code"], report)

    def _alone(self) -> bool:
        """The candidate alone; whether it goes on to the other checks."""
        options, candidate, began = self.options, self.options.candidate, time.monotonic()
        self._tell(PhaseStarted("accept", 1, f"{candidate.name} alone"))
        session = self.target.session(keep=KEEP)
        try:
            self.entrant = entrant = accept(
                self.target,
                session,
                (candidate,),
                seed=options.seed,
                schedules=ALONE,
                until=began + (options.max_time or float("inf")) / 3,
                tries=TRIES,
                tell=self._tell,
            )
        finally:
            session.close()
        passed = entrant.standing in ("passes", "idle")
        self._tell(AcceptanceDone(candidate.name, passed, entrant.schedules, entrant.told))
        verdict = STOOD[entrant.standing]
        text = entrant.told or f"0 of {entrant.schedules} schedules"
        counts = {"schedules": entrant.schedules, "failing": entrant.failing}
        self.rows.append(row("alone", [candidate.name], verdict, text, time.monotonic() - began, **counts))
        if verdict == "single-policy":
            self.failures.append(self._failure((candidate.name,), None, entrant.told))
        # One that fails alone under few schedules is in no conflict by that: the others tell whether it is in one.
        return entrant.takes_part

    def _corpus(self) -> None:
        """Every case of this target with the candidate in the place of the policy of its kind."""
        options = self.options
        other = 0
        for case in options.cases:
            if case.get("target") != self.target.name:
                other += 1
                continue
            try:
                recipe = self.target.read(case, options.allowed)
            except FuzzkvError as error:
                self.notes.append(f"{case['id']}: {error.reason}")
                continue
            sets = [chosen for chosen in self._sets(recipe) if self.target.language.possible(chosen)]
            if not sets:
                other += 1
            for chosen in sets:
                self._replay(case, recipe, chosen)
        failing = sum(check["check"] == "corpus" and check["verdict"] == "conflict" for check in self.rows)
        self.notes.append(f"Corpus: {self.ran} replayed, {failing} still failing, {other} not applicable.")

    def _sets(self, recipe: SessionRecipe[Any, Any]) -> Iterator[tuple[Any, ...]]:
        """The set of a case with the candidate in each place of its kind."""
        candidate = self.options.candidate
        for place, policy in enumerate(recipe.policies):
            if policy.manifest.kind == candidate.manifest.kind:
                chosen = (*recipe.policies[:place], candidate, *recipe.policies[place + 1 :])
                yield tuple(sorted(chosen, key=lambda one: str(one.name)))

    def _replay(
        self, case: Mapping[str, Any], recipe: SessionRecipe[Any, Any], chosen: tuple[Any, ...]
    ) -> None:
        began, names = time.monotonic(), [policy.name for policy in chosen]
        self._tell(PhaseStarted("replay", 1, f"{case['id']} with {' + '.join(names)}"))
        target = self.target.configured_as(case)
        session = target.session(keep=KEEP)
        try:
            verdict = judged(session, session.run(chosen, recipe.schedule), recipe.schedule)
            filing = LiveFiling(
                target, session, self.options.report_dir, self.options.seed, self.listeners, TRIES
            )
            mine = self.options.candidate.name in verdict.whole.names
            if verdict.word == "conflict" and mine:
                fewer = filing.take(verdict, recipe.schedule, 1)
                filing.index()
                if fewer is not None:
                    # Under a schedule that is nearly the same fewer policies show it: what counts is what they come to.
                    verdict = judged(session, *fewer)
                    mine = self.options.candidate.name in verdict.whole.names
        finally:
            session.close()
        self.ran += 1
        word = verdict.word if mine and verdict.word in ("conflict", "single-policy") else "not-reproduced"
        text = f"{case['id']}: {verdict.text or _said(verdict)}"
        self.rows.append(row("corpus", names, word, text, time.monotonic() - began, schedules=1))
        if word != "not-reproduced":
            filed = next(iter(filing.filed.values()), None)
            self.failures.append(self._failure(verdict.whole.names, filed, _said(verdict), case["id"]))

    def _hunt(self) -> None:
        """The candidate in pairs with those that it is to run beside."""
        options = self.options
        if not options.against:
            self.notes.append("Not hunted: name what it is to run beside with --against.")
            return
        began = time.monotonic()
        wanted = LiveOptions(
            policies=(options.candidate, *options.against),
            seed=options.seed,
            max_examples=options.max_examples,
            max_time=options.max_time,
            strength=2,
            corpus=options.report_dir,
        )
        found = LiveHunt(wanted, self.target, self.listeners).run()
        self.interrupted = found.outcome == "interrupted"
        names = sorted(policy.name for policy in wanted.policies)
        mine = [case for case in found.cases if options.candidate.name in case["class"]["policies"]]
        verdict = (
            "conflict"
            if mine
            else {"clean": "none found", "conflict": "none found"}.get(found.outcome, "vacuous")
        )
        counts = {"schedules": int(found.report["schedules"]), "kinds": len(mine)}
        self.rows.append(row("hunt", names, verdict, "", time.monotonic() - began, **counts))
        self.failures += [
            self._failure(tuple(case["class"]["policies"]), case, case["title"]) for case in mine
        ]

    def _failure(
        self, names: Sequence[str], case: Mapping[str, Any] | None, title: str, shown_by: str = ""
    ) -> ReportRow:
        kind: Mapping[str, Any] = case["class"] if case is not None else {}
        known = BY_ID.get(str(kind.get("invariant", "")))
        path = str(self.options.report_dir / f"{case['id']}.json") if case is not None else ""
        return {
            "policies": list(names),
            "invariant": kind.get("invariant", ""),
            "name": known.name if known is not None else "acceptance",
            "rule": known.rule if known is not None else "",
            "action": kind.get("action", ""),
            "actor": kind.get("actor", ""),
            "title": case["title"] if case is not None else title,
            "events": len(case["schedule"]) if case is not None else 0,
            "event": case["violation"]["event"] if case is not None else -1,
            "clause": "",
            "refused_at": -1,
            "case_id": case["id"] if case is not None else "",
            "path": path,
            "explain": f"fuzzkv explain {path}" if path else "",
            "replay": f"fuzzkv replay {path}" if path else "",
            "corpus": [shown_by] if shown_by else [],
        }

    def _report(self, seconds: float) -> dict[str, Any]:
        candidate = self.options.candidate
        report: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "fuzzkv": __version__,
            "engine": self.target.engine,
            "candidate": candidate.name,
            "version": candidate.version,
            "kind": candidate.manifest.kind,
            "against": [policy.name for policy in self.options.against],
            "replaced": [],
            "seed": self.options.seed,
            "seconds": seconds,
            "checks": self.rows,
            "failures": self.failures,
            "errors": [],
            "notes": self.notes,
        }
        report["outcome"] = self._outcome()
        report["exit_code"] = EXIT_CODES[report["outcome"]]
        return report

    def _outcome(self) -> str:
        if self.interrupted:
            return "interrupted"
        if any(len(failure["policies"]) == 1 for failure in self.failures):
            return "single-policy"
        if self.failures:
            return "conflict"
        hunts = [check["verdict"] != "vacuous" for check in self.rows if check["check"] == "hunt"]
        # A hunt that was asked for and showed nothing isn't made up for by the corpus.
        proved = all(hunts) and (self.ran or hunts)
        return "clean" if proved else "vacuous"

    def _tell(self, event: Event) -> None:
        emit(self.listeners, event)


def _said(verdict: Verdict[Any]) -> str:
    if not verdict.whole.failed:
        return "nothing breaks"
    first = verdict.whole.outcome.failures[0]
    return f"{first.invariant} {first.action}: {first.text}".rstrip(": ")[:200]
