"""A whole hunt on the model: admission, search, shrinking, filing, confirmation.

What is found is filed at once, so an interrupt or a kill loses nothing; confirmations are added to the filed
cases as they come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuzzkv import __version__
from fuzzkv.cases.filing import Filing
from fuzzkv.core.options import HuntOptions
from fuzzkv.events import Event, HuntFinished, HuntStarted, Listener, Outcome, PhaseStarted, emit
from fuzzkv.oracles.conflict import part_of_known
from fuzzkv.oracles.thresholds import default_thresholds
from fuzzkv.policies.registry import resolve
from fuzzkv.search.admission import Admission
from fuzzkv.search.confirming import EngineConfirmer, engine_name
from fuzzkv.search.first_look import compiling_beside, first_look
from fuzzkv.search.loop import Search, found_event
from fuzzkv.search.outcome import flags_of, judge
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.tally import Tally
from fuzzkv.targets.base import Confirmer


@dataclass(frozen=True)
class HuntResult:
    """The result of a hunt: exit code, the filed cases, the names of policies that failed alone."""

    exit_code: int
    cases: tuple[dict[str, Any], ...]
    single_policy: tuple[str, ...]
    outcome: Outcome


@dataclass
class _Hunt:
    options: HuntOptions
    listeners: Sequence[Listener]
    admission: Admission
    search: Search | None = None
    confirmed: int = 0

    def tell(self, event: Event) -> None:
        emit(self.listeners, event)

    @property
    def cases(self) -> list[dict[str, Any]]:
        """The filed cases; a case that couldn't be written is among them."""
        return [dict(done.case) for done in self.search.filing.filed.values()] if self.search else []

    def run(self, policies: Sequence[Policy]) -> None:
        sound = self.admission.sound(policies)
        early = []
        with compiling_beside(self.options.policies):
            for witness in first_look(sound, self.admission.config, self.options):
                early.append(witness)
                self.tell(found_event(witness))
        self.admission.admit(sound)
        if self.admission.engine is not None:
            # Their masks and schedules are of all these policies.
            if len(self.admission.engine.names) < len(sound):
                early = []
            self.search = Search(self.options, self.admission.engine, self.listeners, early=early)
            self.search.run()
            self.shrink_all(self.search)
            if self.options.confirm and self.cases:
                self.confirm_all(self.search.filing)

    def shrink_all(self, search: Search) -> None:
        """One case a kind.  What one policy does alone is no conflict, though it may explain a larger set's."""
        found = search.found()
        kinds = {witness.failure_class for witness in found}
        wanted = [
            w
            for w in found
            if len(w.failure_class.policies) > 1 and not part_of_known(w.failure_class, kinds)
        ]
        self.tell(PhaseStarted("shrink", len(wanted), "classes of failures to their shortest schedule"))
        search.filing.settle(wanted, kinds)

    def confirm_all(self, filing: Filing) -> None:
        """Add what a real engine says to each case, those first that the design names."""
        ranked = sorted(
            filing.filed.values(), key=lambda done: (done.case["label"] == "", done.case["label"])
        )
        confirmer: Confirmer = EngineConfirmer(
            self.listeners,
            device=self.options.device,
            policies=filing.engine.policies,
            seconds=self.options.confirm_time,
        )
        engine = engine_name()
        where = f"on {engine}, with a real language model" if engine != "none" else "no engine is installed"
        self.tell(PhaseStarted("confirm", len(ranked), where))
        for done in ranked:
            entries = confirmer.confirm(done.case)
            if entries:
                shown = any(entry["verdict"] == "confirmed" for entry in entries)
                status = "confirmed" if shown else done.case["status"]
                filing.file(replace(done, case={**done.case, "status": status, "confirmations": entries}))
        self.confirmed = sum(
            any(c["verdict"] == "confirmed" for c in case["confirmations"]) for case in self.cases
        )

    def finish(self, began: float, interrupted: bool) -> HuntResult:
        if self.search is not None:
            self.search.filing.index()
        cases, tally = self.cases, self.search.tally if self.search else Tally()
        end = judge(self.admission, self.search, conflict=bool(cases), interrupted=interrupted)
        unconfirmed = tuple(case["id"] for case in cases if not case["confirmations"])
        self.tell(
            HuntFinished(
                end.outcome,
                end.exit_code,
                time.monotonic() - began,
                tally.runs,
                tally.primitives,
                len(cases),
                self.confirmed,
                unconfirmed,
                tally.refused,
                end.text,
                flags_of(self.options),
            )
        )
        return HuntResult(end.exit_code, tuple(cases), tuple(self.admission.single), end.outcome)


def hunt(options: HuntOptions, listeners: Sequence[Listener] = ()) -> HuntResult:
    """Run a whole hunt.

    Raises ``UsageError`` for bad options; anything that a worker does is a result.  On ``KeyboardInterrupt``
    the summary is told and the result has exit code 130.
    """
    began = time.monotonic()
    policies = resolve(options.policies)
    run = _Hunt(options, listeners, Admission(Config(), options.seed, listeners))
    run.tell(
        HuntStarted(
            tuple(p.name for p in policies),
            options.seed,
            options.contract,
            engine_name() if options.confirm else "none",
            __version__,
            default_thresholds().digest,
        )
    )
    interrupted = False
    try:
        run.run(policies)
    except KeyboardInterrupt:
        interrupted = True
        if run.search is not None:
            run.search.filing.interrupted()
    return run.finish(began, interrupted)
