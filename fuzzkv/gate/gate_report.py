"""The report of a gate as plain data: what was checked, what failed and how to run it again.

The table, JUnit and JSON are made from this one value, so they can't say different things. Verdict words:
``accepted``, ``single-policy``, ``conflict``, ``not-reproduced`` (the corpus' conflicts, with the candidate),
``none found``, ``vacuous``, ``not applicable`` and ``not run``.
"""

from __future__ import annotations

import shlex
from typing import Any, Final

from fuzzkv import __version__
from fuzzkv.cases.filing import Filed, order
from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT, EXIT_INTERRUPTED
from fuzzkv.explain.clauses import refusals
from fuzzkv.gate.checks import Gate
from fuzzkv.search.acceptance import Alone
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.targets.model.recipe import Recipe

SCHEMA_VERSION: Final = 1
EXIT_CODES: Final = {
    "clean": EXIT_CLEAN,
    "conflict": EXIT_CONFLICT,
    "single-policy": EXIT_CONFLICT,
    "vacuous": EXIT_ENVIRONMENT,
    "failed": EXIT_ENVIRONMENT,
    "interrupted": EXIT_INTERRUPTED,
}
ReportRow = dict[str, Any]


def as_report(run: Gate, *, standing: bool, seconds: float) -> dict[str, Any]:
    """The report of a run; ``standing`` says whether the candidate has a kept acceptance on an engine."""
    lineup = run.lineup
    filed = (
        sorted(
            run.filing.filed.values(),
            key=lambda done: order(done.failure_class, [p.name for p in lineup.policies]),
        )
        if run.filing
        else []
    )
    failures = [_failure(run, done) for done in filed]
    if run.fault or (run.alone is not None and run.alone.undeclared):
        reason = run.fault or (run.alone.reason if run.alone else "")
        failures.insert(0, _unnamed(lineup.candidate.name, reason))
    report: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "fuzzkv": __version__,
        "candidate": lineup.candidate.name,
        "version": lineup.candidate.version,
        "kind": lineup.candidate.manifest.kind,
        "against": [policy.name for policy in lineup.others],
        "replaced": [policy.name for policy in lineup.replaced],
        "seed": run.options.seed,
        "seconds": seconds,
        "checks": [_alone_row(run), *_corpus_rows(run), *(_hunt_row(run, mask) for mask in run.sets)],
        "failures": failures,
        "errors": _errors(run),
        "notes": _notes(run, standing),
    }
    report["outcome"] = _outcome(run, report)
    report["exit_code"] = EXIT_CODES[report["outcome"]]
    return report


def clause_of(recipe: Recipe, event: int) -> tuple[int, str]:
    """Where, and by which clause, the contract refuses what breaks at ``event``, or the first of what led to it;
    ``(-1, "")`` if no clause does.
    """
    direct = [(e, clause) for e, clause in refusals(recipe, from_event=event) if e == event]
    return next(iter(direct or refusals(recipe)), (-1, ""))


def _outcome(run: Gate, report: ReportRow) -> str:
    if run.interrupted:
        return "interrupted"
    if any(len(failure["policies"]) == 1 for failure in report["failures"]):
        return "single-policy"
    if report["failures"]:
        return "conflict"
    if report["errors"]:
        return "failed"
    idle = run.alone is not None and run.alone.idle
    return "vacuous" if idle or not any(run.met(mask) for mask in run.sets) else "clean"


def _names(run: Gate, mask: int) -> list[str]:
    return [policy.name for k, policy in enumerate(run.lineup.policies) if mask >> k & 1]


def row(
    check: str, policies: list[str], verdict: str, text: str = "", seconds: float = 0.0, **counts: int
) -> ReportRow:
    """One check of one policy set: what it came to, why, how long it took and what it counted."""
    return {
        "check": check,
        "policies": policies,
        "verdict": verdict,
        "text": text,
        "seconds": seconds,
        **counts,
    }


def _alone_row(run: Gate) -> ReportRow:
    name, seconds = [run.lineup.candidate.name], run.took.get("alone", 0.0)
    if run.fault:
        return row("alone", name, "single-policy", run.fault, seconds)
    if run.alone is None:
        return row("alone", name, "not run")
    alone: Alone = run.alone
    counts = {"schedules": alone.schedules, "failing": alone.failures}
    text = f"{alone.failures:,} of {alone.schedules:,} schedules"
    if alone.undeclared:
        text = alone.reason
    elif run.filing is not None and any(
        kind.policies == (run.lineup.candidate.name,) for kind in run.filing.filed
    ):
        later = "" if alone.failures else "; one of a later check"
        return row("alone", name, "single-policy", text + later, seconds, **counts)
    verdict = "single-policy" if not alone.passed else "vacuous" if alone.idle else "accepted"
    return row("alone", name, verdict, "it never acted" if alone.idle else text, seconds, **counts)


def _corpus_rows(run: Gate) -> list[ReportRow]:
    candidate = [run.lineup.candidate.name]
    if "corpus" not in run.took:
        return [row("corpus", candidate, "not run")]
    rows = []
    for mask in run.sets:
        replays = [
            replay for replay in run.replays if replay.mask == mask and replay.verdict != "not-applicable"
        ]
        failing = [replay for replay in replays if run.fails(replay)]
        if replays:
            verdict = "not-reproduced" if not failing else max(replay.verdict for replay in failing)
            text = f"{len(failing)} of {len(replays)} cases"
            counts = {"replayed": len(replays), "failing": len(failing)}
            rows.append(row("corpus", _names(run, mask), verdict, text, **counts))
    if not rows:
        text = f"none of {len(run.replays)} cases" if run.options.corpus is not None else "no corpus"
        return [row("corpus", candidate, "not applicable", text)]
    rows[0]["seconds"] = run.took["corpus"]
    return rows


def _hunt_row(run: Gate, mask: int) -> ReportRow:
    names, engine = _names(run, mask), run.searched.get(mask)
    if engine is None or engine.drawn == 0:
        return row("hunt", names, "not run")
    filed = run.filing.filed if run.filing else {}
    kinds = sum(kind.policies == tuple(names) and kind in run.hunted for kind in filed)
    verdict = "conflict" if kinds else "none found" if run.met(mask) else "vacuous"
    text = f"{kinds} kind{'' if kinds == 1 else 's'}, {engine.drawn:,} drawn"
    if verdict == "vacuous":
        text = f"they never touched each other in {engine.drawn:,} schedules"
    return row("hunt", names, verdict, text, run.seconds[mask], schedules=engine.drawn, kinds=kinds)


def _failure(run: Gate, done: Filed) -> ReportRow:
    case, kind = done.case, done.case["class"]
    paths = [spec for name, spec in run.lineup.paths.items() if name in kind["policies"]]
    flags = f" --policies {','.join(paths)}" if paths else ""
    refused_at, clause = clause_of(done.recipe, case["violation"]["event"])
    where = shlex.quote(str(done.path)) if done.path is not None else ""
    return {
        "policies": list(kind["policies"]),
        "invariant": kind["invariant"],
        "name": BY_ID[kind["invariant"]].name,
        "rule": BY_ID[kind["invariant"]].rule,
        "action": kind["action"],
        "actor": kind["actor"],
        "title": case["title"],
        "events": len(case["schedule"]),
        "event": case["violation"]["event"],
        "clause": clause,
        "refused_at": refused_at,
        "case_id": case["id"],
        "path": str(done.path) if done.path is not None else "",
        "explain": f"fuzzkv explain {where}{flags}" if where else "",
        "replay": f"fuzzkv replay {where}{flags}" if where else "",
        "corpus": _shown_by(run, done),
    }


def _unnamed(candidate: str, reason: str) -> ReportRow:
    """A failure of the candidate alone that no invariant names: its rule fails, or its manifest isn't true."""
    texts = ("invariant", "rule", "action", "actor", "clause", "case_id", "path", "explain", "replay")
    return {
        **dict.fromkeys(texts, ""),
        **dict.fromkeys(("event", "refused_at"), -1),
        "policies": [candidate],
        "name": "acceptance",
        "title": reason,
        "events": 0,
        "corpus": [],
    }


def _shown_by(run: Gate, done: Filed) -> list[str]:
    """The cases of the corpus that show this failure with the candidate standing in."""
    assert run.filing is not None
    return [
        replay.case_id
        for replay in run.replays
        if any(run.filing.of(witness.failure_class) is done for witness in replay.witnesses)
    ]


def _errors(run: Gate) -> list[ReportRow]:
    broken = run.filing.broken if run.filing is not None else []
    text = "the interpreters disagree on its schedule: please report this, it is a fault of fuzzkv"
    return [
        {"code": "FKV073", "policies": list(kind.policies), "invariant": kind.invariant, "text": text}
        for kind in broken
    ]


def _notes(run: Gate, standing: bool) -> list[str]:
    lineup, name = run.lineup, run.lineup.candidate.name
    notes = []
    if lineup.replaced:
        which = " and ".join(policy.name for policy in lineup.replaced)
        notes.append(
            f"{name} stands in the place of {which} (kind {lineup.candidate.manifest.kind}); they aren't run together."
        )
    if "corpus" in run.took and run.options.corpus is not None:
        ran = [replay for replay in run.replays if replay.verdict != "not-applicable"]
        still = sum(run.fails(replay) for replay in ran)
        other = len(run.replays) - len(ran)
        notes.append(
            f"Corpus {run.options.corpus}: {len(ran)} replayed, {still} still failing, {other} not applicable."
        )
    notes += [replay.reason for replay in run.replays if replay.reason]
    drawn = sum(engine.drawn for engine in run.searched.values())
    if run.budget and drawn < run.budget * len(run.searched) and not run.interrupted:
        notes.append(f"Time was up after {drawn:,} of {run.budget * len(run.searched):,} schedules.")
    without = sorted({" + ".join(kind.policies) or "the workload" for kind in run.without})
    if without:
        notes.append(f"Not counted, as it fails without {name} too: {', '.join(without)}.")
    if run.alone is not None and run.alone.passed and not standing:
        notes.append(
            f"On the model only: no acceptance of {name} on an engine is kept ('fuzzkv accept' makes one)."
        )
    return notes
