"""One whole run of a gate: the checks that a team runs before it lets a policy in, and the report of what they found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fuzzkv.cases.corpus import load_corpus
from fuzzkv.events import GateFinished, GateStarted, Listener
from fuzzkv.gate.checks import Gate
from fuzzkv.gate.gate_report import as_report
from fuzzkv.gate.lineup import GateOptions, choose
from fuzzkv.search.acceptance import load_acceptance, stands
from fuzzkv.semantics.schedule import Config


@dataclass(frozen=True)
class GateResult:
    """The result of a gate: the exit code, and the report as plain data."""

    exit_code: int
    report: dict[str, Any]


def gate(options: GateOptions, listeners: Sequence[Listener] = ()) -> GateResult:
    """Run a whole gate.

    Raises ``UsageError`` for bad options and for a broken file of the corpus.  On ``KeyboardInterrupt`` the report
    tells what was found until then, and the exit code is 130.
    """
    began = time.monotonic()
    lineup = choose(options)
    cases = load_corpus(options.corpus) if options.corpus is not None else []
    standing = stands(load_acceptance(), lineup.candidate, Config())
    run = Gate(options, lineup, listeners)
    others = tuple(policy.name for policy in lineup.others)
    replaced = tuple(policy.name for policy in lineup.replaced)
    run.tell(GateStarted(lineup.candidate.name, others, replaced, options.seed))
    try:
        run.run(cases)
    except KeyboardInterrupt:
        run.interrupted = True
        if run.filing is not None:
            run.filing.interrupted()
            run.filing.index()
    report = as_report(run, standing=standing, seconds=time.monotonic() - began)
    run.tell(GateFinished(report["outcome"], report["exit_code"], report))
    return GateResult(report["exit_code"], report)
