"""Schedules to the first detection where runs are slow: what hunts drew before, Hypothesis alone, and both as hunts draw now.

``python -m bench.generation [toy] [field] [engine] [NAME ...]`` measures these parts, or these cases of them, prints the
table and writes it into ``bench/results/generation.json`` beside what is there of others; without a part it measures all
three.  ``--missing``: only what isn't there yet.  A run that doesn't find the fault within its cap counts as one schedule
more than that in a median.

``before``: the portfolio on ``random.Random`` for live engines, the compiled generator with its pool of changes for policies
in Python.  ``hypothesis``: its own ways alone.  ``both``: its own ways and the others by number, half and half.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from fuzzkv.oracles.conflict import smallest_failing
from fuzzkv.search.live.generating import Novelty, drawn, scores_of
from fuzzkv.semantics.contract.minimal import subsets
from fuzzkv.semantics.schedule import Schedule
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.strategies.generation import failures
from fuzzkv.strategies.model import model_space
from fuzzkv.strategies.ways import generated
from fuzzkv.targets.base import Arm
from fuzzkv.targets.environments import here
from fuzzkv.targets.vllm.language import EngineLanguage
from fuzzkv.targets.vllm.policies import LivePolicy, resolve
from fuzzkv.targets.vllm.portfolio import EnginePortfolio
from fuzzkv.targets.vllm.schedule import LiveSchedule
from fuzzkv.targets.vllm.session import EngineSession
from fuzzkv.targets.vllm.target import BASE, Engines, EngineTarget
from tests.field.report import Report
from tests.field.reports import REPORTS

SEEDS: Final = range(5)
CAPS: Final = {"toy": 400, "field": 2000, "engine": 120}
"""Most schedules of a run."""
METHODS: Final = ("before", "hypothesis", "both")
RESULTS: Final = Path(__file__).parent / "results" / "generation.json"
LANGUAGE: Final = EngineLanguage()
Find = Callable[[int], int | None]
"""Schedules to the first detection for a seed; none within the cap."""


# -- live engines -----------------------------------------------------------------------------------------


@dataclass
class LiveProperty:
    """The fault doesn't show in a run of the set."""

    session: EngineSession
    policies: tuple[LivePolicy, ...]
    invariants: Collection[str]
    portfolio: EnginePortfolio
    name: str = "planted"
    ran: int = 0
    found: int | None = None
    reached: Novelty = field(default_factory=Novelty)
    arm: Arm[LivePolicy] = field(init=False)

    def fails(self, schedule: LiveSchedule) -> bool:
        """Run it."""
        self.ran += 1
        self.arm = self.session.run(self.policies, schedule)
        if self.reached.new(LANGUAGE.states(self.arm)):
            self.portfolio.keep(schedule)
        shown = any(v.invariant in self.invariants for v in self.arm.outcome.failures)
        if shown and self.found is None:
            self.found = self.ran
        return shown

    def repeats(self, schedule: LiveSchedule) -> bool:
        """Only the first detection counts."""
        return True

    def scores(self) -> Mapping[str, float]:
        """As in a hunt."""
        return scores_of(self.arm, LANGUAGE.states(self.arm))

    def over(self) -> bool:
        """Once it is found."""
        return self.found is not None


def live_finders(
    session: EngineSession, policies: tuple[LivePolicy, ...], invariants: Collection[str], cap: int
) -> dict[str, Find]:
    """The methods for a set of live policies."""

    def property_of(seed: int) -> LiveProperty:
        names = " ".join(policy.name for policy in policies)
        return LiveProperty(session, policies, invariants, LANGUAGE.portfolio(policies, f"{seed} {names}"))

    def before(seed: int) -> int | None:
        asked = property_of(seed)
        while asked.ran < cap and not asked.fails(asked.portfolio.draw()):
            pass
        return asked.found

    def through(strategy: Callable[[EnginePortfolio], st.SearchStrategy[LiveSchedule]]) -> Find:
        def find(seed: int) -> int | None:
            asked = property_of(seed)
            for _ in failures(asked, strategy(asked.portfolio), seed=asked.portfolio.seed, most=cap):
                break
            return asked.found

        return find

    own = through(lambda portfolio: generated(portfolio.form.space))
    return {"before": before, "hypothesis": own, "both": through(drawn)}


def toy_cases(names: Collection[str]) -> Iterator[tuple[str, dict[str, Find]]]:
    """Faults of the toy engine."""
    from tests.targets.vllm.toy import ToyLife

    pair = ("vllm:offload-lru", "vllm:prefix-cache")
    four = (*pair, "vllm:preempt", "vllm:chunked-prefill")
    rows: tuple[tuple[str, Sequence[str], dict[str, bool], set[str]], ...] = (
        ("a block given away while it is stored, pair", pair, {"fault": True}, {"I4"}),
        ("the same, set of four", four, {"fault": True}, {"I4"}),
        ("dies at the second abort during a store", pair, {"deadly": True}, {"I13"}),
        ("a load that fails counts as done, tier alone", pair[:1], {"alone": True}, {"I16"}),
    )
    for name, policies, faults, invariants in rows:
        if names and name not in names:
            continue
        start = partial(ToyLife, **faults)
        target = EngineTarget(start, lambda policies, schedule, history: history.failures, "toy")
        with closing(target.session(keep=2)) as session:
            yield name, live_finders(session, resolve(policies), invariants, CAPS["toy"])


def engine_cases(names: Collection[str]) -> Iterator[tuple[str, dict[str, Find]]]:
    """Planted faults of a host tier on a real engine, under pool pressure."""
    from tests.targets.vllm.test_planted import FAULTS, Calm, planted

    for name, invariants in FAULTS.items():
        if names and name not in names:
            continue
        with Engines("cpu", here()) as engines:
            target = replace(engines.target(BASE), start=lambda config: Calm(engines.start(config)))
            policies = (planted(name), *resolve(["vllm:preempt"]))
            with closing(target.session(keep=2)) as session:
                yield name, live_finders(session, policies, invariants, CAPS["engine"])


# -- policies in Python -----------------------------------------------------------------------------------


@dataclass
class ModelProperty:
    """The report's conflict doesn't show under a schedule."""

    engine: BulkEngine
    report: Report
    name: str = "report"
    ran: int = 0
    found: int | None = None
    acted: int = 0

    def fails(self, schedule: Schedule) -> bool:
        """Run the set, and the others if it fails."""
        self.ran += 1
        if not schedule.events or self.found is not None:
            return False
        full = (1 << len(self.report.policies)) - 1
        arms = {full: self.engine.outcome(schedule.events, full)}
        self.acted = arms[full].acted
        wanted = (self.report.invariant, *self.report.also)
        if any(violation.invariant in wanted for violation in arms[full].failures):
            arms.update({sub: self.engine.outcome(schedule.events, sub) for sub in subsets(full)})
            if full in smallest_failing(arms):
                self.found = self.ran
        return self.found is not None

    def repeats(self, schedule: Schedule) -> bool:
        """Only the first detection counts."""
        return True

    def scores(self) -> Mapping[str, float]:
        """As in a hunt."""
        return {"policies that acted": float(self.acted.bit_count())}

    def over(self) -> bool:
        """Once it is found."""
        return self.found is not None


def field_cases(names: Collection[str]) -> Iterator[tuple[str, dict[str, Find]]]:
    """The field's reports and the design's rows, as policies in ordinary Python."""
    for report in REPORTS:
        if names and report.name not in names:
            continue
        policies = tuple(replace(policy, free=True) for policy in report.policies)
        yield report.name, model_finders(report, BulkEngine(policies, report.config), CAPS["field"])


def model_finders(report: Report, engine: BulkEngine, cap: int) -> dict[str, Find]:
    """The methods for a report."""
    workload = sorted({name for policy in report.policies for name in policy.workload})
    space = model_space(engine.names, workload)

    def before(seed: int) -> int | None:
        search = engine.again(seed=seed)
        for number in range(1, cap + 1):
            search.search(1)
            if any(
                c.failure_class.policies == engine.names
                and c.failure_class.invariant in (report.invariant, *report.also)
                for c in search.classes
            ):
                return number
        return None

    def through(strategy: Callable[[BulkEngine], st.SearchStrategy[Schedule]]) -> Find:
        def find(seed: int) -> int | None:
            asked = ModelProperty(engine.again(seed=seed), report)
            for _ in failures(asked, strategy(asked.engine), seed=f"{seed} {report.name}", most=cap):
                break
            return asked.found

        return find

    return {
        "before": before,
        "hypothesis": through(lambda engine: generated(space)),
        "both": through(lambda engine: generated(space, numbered=engine.schedule)),
    }


# -- the table --------------------------------------------------------------------------------------------


def line(part: str, name: str, row: Mapping[str, Sequence[int | None]]) -> str:
    """A case as a line of the table."""
    return f"{part:7}{name[:48]:50}" + "".join(f"{told(part, row[method]):>12}" for method in METHODS)


def median(part: str, runs: Sequence[int | None]) -> float:
    """The median, a run without a detection as the cap."""
    return statistics.median(CAPS[part] + 1 if run is None else run for run in runs)


def told(part: str, runs: Sequence[int | None]) -> str:
    """The median as text."""
    middle = median(part, runs)
    return f">{CAPS[part]}" if middle > CAPS[part] else f"{middle:.0f}"


def summary(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """In how many cases each method comes first (ties count for all)."""
    lines = []
    for part, rows in parts.items():
        firsts = dict.fromkeys(METHODS, 0)
        for row in (row for row in rows.values() if len(row) == len(METHODS)):
            best = min(median(part, row[method]) for method in METHODS)
            for method in METHODS:
                firsts[method] += median(part, row[method]) == best <= CAPS[part]
        runs = {m: sum(r is not None for row in rows.values() for r in row.get(m, ())) for m in METHODS}
        told = ", ".join(f"{m} {firsts[m]} ({runs[m]} runs found it)" for m in METHODS)
        lines.append(f"{part}: first in the median of {len(SEEDS)} seeds, of {len(rows)} cases: {told}")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parts = [word for word in sys.argv[1:] if word in CAPS] or list(CAPS)
    names = [word for word in sys.argv[1:] if word not in CAPS and word != "--missing"]
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"parts": {}}
    results.update({"caps": CAPS, "seeds": len(SEEDS)})
    print(f"{'':57}" + "".join(f"{method:>12}" for method in METHODS))
    for part in parts:
        rows = results["parts"].setdefault(part, {})
        for name, finders in {"toy": toy_cases, "field": field_cases, "engine": engine_cases}[part](names):
            row = rows.setdefault(name, {})
            for method, find in finders.items():
                if "--missing" in sys.argv and method in row:
                    continue
                row[method] = [find(seed) for seed in SEEDS]
                RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            print(line(part, name, row), flush=True)
    print(summary(results["parts"]))


if __name__ == "__main__":
    main()
