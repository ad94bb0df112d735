"""The exact minimal case of every target: ``python -m bench.minimal`` writes ``tests/quality/minimal.json``, and
files the field's reports and the design's rows that have policies of their own into ``corpus/``.

Each is searched blind from seed 0, and its best witness shrunk, over events and over the set of policies.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench.targets import MINIMAL, Target, targets
from fuzzkv.cases.casebook import make_case
from fuzzkv.cases.corpus import save_case, write_index
from fuzzkv.cases.shrink import shrink
from fuzzkv.core.files import atomic_write
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Event, Schedule
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.bulk.tally import FoundClass
from fuzzkv.targets.model.recipe import Recipe
from tests.field import reports
from tests.field.report import Report

LOOK = 100_000
"""Schedules of the search."""
CORPUS = Path("corpus")


def search(target: Target) -> tuple[BulkEngine, list[FoundClass]]:
    """The engine and the classes that are the planted conflict, most often seen first."""
    engine = BulkEngine(target.policies, target.config, seed=0)
    engine.search(LOOK)
    found = []
    for c in engine.classes:
        shown = c.failure_class
        planted = target.matches(shown.invariant, shown.actor, shown.action)
        if shown.policies == engine.names and planted:
            found.append(c)
    return engine, found


def minimal(name: str) -> dict[str, Any]:
    """The shortest shrunk witness of one target, as plain data."""
    target = next(t for t in targets() if t.name == name)
    engine, found = search(target)
    best: tuple[Event, ...] = ()
    kind = None
    for c in found:
        wanted = c.failure_class
        shrunk = shrink(engine, wanted, c.events)
        if shrunk is not None and not shrunk[1].consequence and (not best or len(shrunk[0]) < len(best)):
            best, kind = shrunk[0], wanted
    if kind is None:
        raise RuntimeError(f"{name}: not found in {LOOK} schedules")
    names = tuple(policy.name for policy in target.policies)
    return {
        "name": name,
        "policies": list(names),
        "invariant": kind.invariant,
        "actor": kind.actor,
        "primitive": kind.action,
        "events": Schedule(names, best).as_json(),
        "schedules": engine.drawn,
    }


def path_of(report: Report, policy: Policy) -> str:
    """Where a report's policy is: ``module:NAME``."""
    import importlib

    for name in vars(reports):
        found = getattr(reports, name)
        if found is report:
            module = next(
                m for m in map(importlib.import_module, _modules()) if getattr(m, "REPORT", None) is report
            )
            attribute = next(key for key, value in vars(module).items() if value is policy)
            return f"{module.__name__}:{attribute}"
    raise LookupError(policy.name)


def _modules() -> list[str]:
    folder = Path(reports.__file__).parent
    return [f"tests.field.{path.stem}" for path in sorted(folder.glob("*_*.py")) if "test_" not in path.stem]


def file_case(report: Report, found: dict[str, Any]) -> str:
    """File one report's minimal case with its report, its controls and its twin; returns the id."""
    from fuzzkv.semantics.schedule import schedule_from_json

    names = tuple(policy.name for policy in report.policies)
    schedule = schedule_from_json(names, found["events"])
    case = make_case(
        Recipe(schedule, report.policies, report.config),
        found["invariant"],
        seed=0,
        schedules=found["schedules"],
    )
    if case is None:
        raise RuntimeError(f"{report.name}: the Python interpreter doesn't see it")
    twin = Recipe(schedule, report.twins, report.config).histories()
    if any(history.outcome.failed for history in twin.values()):
        raise RuntimeError(f"{report.name}: its twin fails")
    ((replaced, repaired),) = report.repaired.items()
    paths = ",".join(path_of(report, policy) for policy in report.policies)
    case["status"] = "reported" if report.url else "candidate"
    case["label"] = report.name
    case["title"] = report.title
    case["references"] = [report.url] if report.url else []
    case["twin"] = {
        "replaces": replaced,
        "version": repaired.version,
        "policy": path_of(report, repaired),
        "verdict": "pass",
    }
    case["replay"] = f"fuzzkv replay {case['id']} --policies {paths}"
    return str(save_case(case, CORPUS).case["id"])


def main() -> None:
    """Find, shrink, write and file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--no-corpus", action="store_true")
    options = parser.parse_args()
    chosen = [t.name for t in targets() if not options.only or t.name in options.only]
    kept = json.loads(MINIMAL.read_text()) if options.only and MINIMAL.exists() else {}
    with ProcessPoolExecutor(options.workers) as pool:
        for found in pool.map(minimal, chosen):
            kept[found["name"]] = found
            print(f"{found['name']}: {found['invariant']} in {len(found['events'])} events", flush=True)
    atomic_write(MINIMAL, json.dumps(kept, indent=1, sort_keys=True).encode() + b"\n")
    if not options.no_corpus:
        for report in reports.REPORTS:
            if report.name in chosen:
                print(f"{report.name}: filed {file_case(report, kept[report.name])}")
        write_index(CORPUS)


if __name__ == "__main__":
    main()
