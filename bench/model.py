"""How fast the model is: primitive events/s and schedules/s of the readers with all oracles on, with policies in
ordinary Python in the loop, with a process a core, and the time to the first conflict.

One core but for the last ratio.  Rates are medians of several runs within this one process; the ratio between the readers is what
compares machines.  Prints a table and, with ``--json FILE``, writes the numbers.

``--cold`` measures the first start of a fresh install instead: ``fuzzkv hunt`` with nothing compiled yet, from the start of
the process to the first conflict on the screen and to the end of compiling.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from typing import Any

from fuzzkv.policies.registry import resolve
from fuzzkv.search.workers import Task, cores, search_together
from fuzzkv.semantics.layout import COLUMNS
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.interpreters import python_apply
from fuzzkv.simulator.start import first_state

RUNS = 5
PYTHON_SCHEDULES = 300
COMPILED_SCHEDULES = 100_000
FREE_SCHEDULES = 1_000
ROUNDS = 8
NAMES = ("offload", "quant", "evict")


def python_rates(engine: BulkEngine) -> tuple[float, float, float]:
    """Median primitive events/s, schedule events/s and schedules/s of the written-out Python interpreter on one
    policy set.
    """
    apply = python_apply(engine.policies)
    schedules = [engine.schedule(number).events for number in range(PYTHON_SCHEDULES)]
    first = first_state(engine.config, engine.policies)
    full = (1 << len(engine.policies)) - 1
    rates = []
    for _ in range(RUNS):
        primitives = events = 0
        began = time.perf_counter()
        for schedule in schedules:
            s = first[:]
            for e, (op, a, b) in enumerate(schedule):
                s[COLUMNS["EVENT"]] = e
                apply(s, op, a, b, full)
            primitives += s[COLUMNS["PRIMS"]]
            events += len(schedule)
        seconds = time.perf_counter() - began
        rates.append((primitives / seconds, events / seconds, len(schedules) / seconds))
    return tuple(statistics.median(column) for column in zip(*rates, strict=True))  # type: ignore[return-value]


def compiled_rates(engine: BulkEngine) -> tuple[float, float]:
    """Median primitive events/s and schedules/s (control arms included) of the compiled search."""
    rates = []
    for seed in range(RUNS):
        fresh = engine.again(seed=seed)
        began = time.perf_counter()
        fresh.search(COMPILED_SCHEDULES)
        seconds = time.perf_counter() - began
        rates.append((fresh.primitives / seconds, fresh.runs / seconds))
    return statistics.median(r[0] for r in rates), statistics.median(r[1] for r in rates)


def free_rate(engine: BulkEngine, name: str) -> float:
    """Median primitive events/s of the same search with one policy called back in Python."""
    policies = [replace(policy, free=policy.name == name) for policy in engine.policies]
    free = BulkEngine(policies, engine.config)
    rates = []
    for seed in range(RUNS):
        fresh = free.again(seed=seed)
        began = time.perf_counter()
        fresh.search(FREE_SCHEDULES)
        rates.append(fresh.primitives / (time.perf_counter() - began))
    return statistics.median(rates)


def together(engine: BulkEngine, workers: int) -> float:
    """Schedules/s (drawn) of so many processes, from the first results on."""
    task = Task(given=NAMES, names=engine.names, config=engine.config, enforce=False, seed=0, strength=2)
    rounds = search_together(task, workers, workers * ROUNDS * COMPILED_SCHEDULES, COMPILED_SCHEDULES)
    first = next(rounds).drawn
    began = time.perf_counter()
    *_, last = rounds
    return (last.drawn - first) / (time.perf_counter() - began)


def first_conflict(engine: BulkEngine) -> tuple[float, float]:
    """Median milliseconds and schedules until the first conflict of at least two policies, over seeds."""
    times, counts = [], []
    for seed in range(RUNS):
        fresh = engine.again(seed=seed)
        began = time.perf_counter()
        while not any(len(c.failure_class.policies) > 1 for c in fresh.classes):
            fresh.search(1)
        times.append(1000 * (time.perf_counter() - began))
        counts.append(fresh.drawn)
    return statistics.median(times), statistics.median(counts)


def cold_start() -> tuple[float, float, str]:
    """A hunt with nothing compiled: seconds until the first conflict is on the screen and until everything is compiled, and
    the conflict's line.
    """
    conflict = compiled = float("inf")
    line = "none"
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-u",
            "-m",
            "fuzzkv",
            "hunt",
            "--policies",
            ",".join(NAMES),
            "--no-confirm",
        ]
        command += ["--max-examples", "1000", "--corpus", f"{folder}/corpus"]
        began = time.perf_counter()
        with subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, env={**os.environ, "FUZZKV_CACHE": folder}
        ) as hunt:
            assert hunt.stdout is not None
            for told in hunt.stdout:
                if conflict == float("inf") and told.strip().startswith("conflict"):
                    conflict, line = time.perf_counter() - began, told.strip()
                if "passes alone" in told:
                    # The first policy is tried with the compiled machine, which takes about a second.
                    compiled = time.perf_counter() - began
                    hunt.terminate()
                    break
    return conflict, compiled, line


def main() -> None:
    """Measure and print."""
    if "--cold" in sys.argv:
        conflict, compiled, line = cold_start()
        print(f"first conflict on the screen                 {conflict:10.2f} s  {line}")
        print(f"everything compiled, one policy accepted     {compiled:10.2f} s")
        return
    began = time.perf_counter()
    engine = BulkEngine(resolve(NAMES), Config())
    engine.search(1)
    ready = time.perf_counter() - began
    python_primitives, python_events, python_schedules = python_rates(engine)
    primitives, schedules = compiled_rates(engine)
    free = free_rate(engine, "quant")
    milliseconds, drawn = first_conflict(engine)
    alone, all_cores = together(engine, 1), together(engine, cores())
    found: dict[str, Any] = {
        "start_s": f"{ready:.2f}",
        "python_primitives_per_s": round(python_primitives),
        "python_events_per_s": round(python_events),
        "python_schedules_per_s": round(python_schedules),
        "compiled_primitives_per_s": round(primitives),
        "compiled_schedules_per_s": round(schedules),
        "ratio": f"{primitives / python_primitives:.0f}",
        "free_primitives_per_s": round(free),
        "workers": cores(),
        "workers_ratio": f"{all_cores / alone:.2f}",
        "first_conflict_ms": f"{milliseconds:.2f}",
        "first_conflict_schedules": round(drawn),
    }
    print(f"ready (compiled, or loaded from the cache)   {ready:10.2f} s")
    print(
        f"Python interpreter, all oracles on           {python_primitives:10,.0f} primitive events/s  {python_schedules:9,.0f} schedules/s"
    )
    print(
        f"compiled interpreter, all oracles and arms   {primitives:10,.0f} primitive events/s  {schedules:9,.0f} schedules/s"
    )
    print(f"compiled to Python                           {primitives / python_primitives:10.0f} times")
    print(f"one policy in Python, the others compiled     {free:10,.0f} primitive events/s")
    print(
        f"{cores()} processes                                  {all_cores:10,.0f} schedules/s, {all_cores / alone:.2f} times one"
    )
    print(
        f"first conflict (median of {RUNS} seeds)            {milliseconds:10.2f} ms after {drawn:.0f} schedules"
    )
    if "--json" in sys.argv:
        path = sys.argv[sys.argv.index("--json") + 1]
        with open(path, "w") as file:
            json.dump(found, file, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
