"""How fast planted conflicts are found blind: fuzzkv against its peers on the same model.

``python -m bench.discovery [--seeds 30] [--peer-seeds 3] [--cap 5] [--peer-cap 10] [--only NAME ...] [--tools TOOL ...] [--json FILE]``.
Every target of ``bench.targets`` with each tool: share of seeds that found it within the cap; seconds, schedules and
primitive events to the first detection; and false alarms on the clean twins (and, where the contract is the repair, with
the contract enforced).

All tools are counted alike: to the end of the schedule that shows the conflict, primitive events with those of the control
arms that were run after a failure.  Seconds begin when a tool is ready to draw; what it takes until then from empty caches
is measured once, apart.  fuzzkv and the uniform loop run the compiled machine (``COMPILED``), the other peers the
interpreted one.  ``python -m bench.discovery_page`` writes the tables of the documentation.

Results of other targets and tools that the file has already are kept, so that a long run can be made in pieces; those
that had other seeds or another cap are dropped.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.discovery_page import FUZZKV, UNIFORM, summary
from bench.peers import PEERS
from bench.targets import Target, targets
from bench.uniform import Uniform
from fuzzkv import __version__
from fuzzkv.core.files import atomic_write
from fuzzkv.simulator.bulk.engine import BulkEngine

COMPILED = (FUZZKV, UNIFORM)
LOOK = 200_000
"""Schedules in which a clean twin has to stay clean."""
STEPS = (4096, 64, 1)
"""Schedules of a round, from the rough to the exact look for the one that is first."""
READY = """
import time
began = time.perf_counter()
from bench.targets import targets
target = targets()[0]
imported = time.perf_counter()
{make}
print(imported - began, time.perf_counter() - imported)
"""
MAKE = {
    FUZZKV: "from bench.discovery import ready; ready(target)",
    UNIFORM: "from bench.uniform import Uniform; Uniform(target).run(0, 0.001)",
}


def ready(target: Target) -> BulkEngine:
    """fuzzkv's engine of a target, with everything compiled."""
    engine = BulkEngine(target.policies, target.config)
    engine.search(1)
    return engine


def compiling(tool: str) -> float:
    """Seconds that a compiled tool takes until its first schedule, with nothing compiled yet; imports aside."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", READY.format(make=MAKE[tool])]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "FUZZKV_CACHE": folder}
        )
    return float(done.stdout.split()[1])


def hit(target: Target, engine: BulkEngine) -> bool:
    """Whether the search has met the planted conflict."""
    return any(
        len(shown.policies) == len(target.policies)
        and target.matches(shown.invariant, shown.actor, shown.action)
        for shown in (found.failure_class for found in engine.classes)
    )


def first(target: Target, engine: BulkEngine, seed: int, cap: float) -> int:
    """The schedules until the first that shows the planted conflict, that one included; 0 if the cap comes before.

    The search is the same whatever its rounds: it is made again in ever smaller ones.
    """
    start = 0
    for step in STEPS:
        began = time.perf_counter()
        fresh = engine.again(seed=seed)
        fresh.search(start)
        while not hit(target, fresh):
            if time.perf_counter() - began > cap:
                return 0
            start = fresh.drawn
            fresh.search(step)
    return start + 1


def ours(target: Target, seeds: int, cap: float) -> dict[str, Any]:
    """fuzzkv on one target: every seed, then the clean form."""
    engine = ready(target)
    runs = []
    for seed in range(seeds):
        schedules = first(target, engine, seed, cap)
        fresh = engine.again(seed=seed)
        began = time.perf_counter()
        fresh.search(schedules)
        seconds = time.perf_counter() - began
        if schedules and not hit(target, fresh):
            raise RuntimeError(f"{target.name}: seed {seed} isn't the same when it is searched again")
        runs.append(
            {
                "found": schedules > 0,
                "seconds": round(seconds, 6) if schedules else cap,
                "schedules": schedules,
                "runs": fresh.runs,
                "primitives": fresh.primitives,
            }
        )
    clean = BulkEngine(target.twins or target.policies, target.config, seed=1, enforce=target.twins is None)
    clean.search(LOOK)
    return {
        "runs": runs,
        "clean_schedules": clean.drawn,
        "false_alarms": [f"{found.failure_class}: {found.seen}" for found in clean.classes],
    }


def theirs(peer: str, name: str, seeds: int, cap: float) -> dict[str, Any]:
    """One interpreted peer on one target, each seed in a process of its own."""
    runs = []
    for seed in range(seeds):
        command = [sys.executable, "-m", "bench.peers", peer, name, str(seed), str(cap)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=cap + 60, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise RuntimeError(f"{peer} on {name} gave no result: {done.stderr[-500:]}")
        runs.append(json.loads(lines[-1]))
    return {"runs": runs}


def one(tool: str, name: str, options: argparse.Namespace) -> tuple[str, str, dict[str, Any]]:
    """One tool on one target."""
    target = next(t for t in targets() if t.name == name)
    if tool == FUZZKV:
        return tool, name, ours(target, options.seeds, options.cap)
    if tool == UNIFORM:
        loop = Uniform(target)
        loop.run(0, 0)
        return tool, name, {"runs": [loop.run(seed, options.cap) for seed in range(options.seeds)]}
    return tool, name, theirs(tool, name, options.peer_seeds, options.peer_cap)


def settle(raw: dict[str, Any], options: argparse.Namespace) -> None:
    """Enter seeds and caps of the tools that are run; results of these tools that had others are dropped."""
    for tools, marks in (
        (COMPILED, {"seeds": options.seeds, "cap_s": options.cap}),
        (PEERS, {"peer_seeds": options.peer_seeds, "peer_cap_s": options.peer_cap}),
    ):
        if not set(tools) & set(options.tools):
            continue
        if any(raw.get(mark) != value for mark, value in marks.items()):
            for target in raw["targets"].values():
                for tool in tools:
                    target.pop(tool, None)
        raw |= marks


def main() -> None:
    """Run, print, and write the raw results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--peer-seeds", type=int, default=3)
    parser.add_argument("--cap", type=float, default=5.0, help="seconds of a run on the compiled machine")
    parser.add_argument(
        "--peer-cap", type=float, default=10.0, help="seconds of a run on the interpreted one"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--tools", nargs="*", default=[*COMPILED, *PEERS], choices=[*COMPILED, *PEERS])
    parser.add_argument("--json", default="bench/results/discovery.json")
    options = parser.parse_args()
    path, console = Path(options.json), Console()
    chosen = [t for t in targets() if not options.only or t.name in options.only]
    raw: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"compile_s": {}, "targets": {}}
    settle(raw, options)
    for tool in COMPILED:
        if tool in options.tools and (not options.only or tool not in raw["compile_s"]):
            raw["compile_s"][tool] = round(compiling(tool), 1)
    # One run compiles for all.
    ready(chosen[0])
    Uniform(chosen[0]).run(0, 0.001)
    for target in chosen:
        about = {"kind": target.kind, "invariants": list(target.invariants), "depth": target.depth}
        raw["targets"].setdefault(target.name, {}).update(about)
    with ProcessPoolExecutor(options.workers) as pool, Progress(console=console) as progress:
        task = progress.add_task("targets x tools", total=len(chosen) * len(options.tools))
        waiting = [pool.submit(one, tool, t.name, options) for tool in options.tools for t in chosen]
        for done in as_completed(waiting):
            tool, name, found = done.result()
            raw["targets"][name][tool] = found
            progress.advance(task)
    raw |= {"fuzzkv": __version__, "python": platform.python_version()}
    atomic_write(path, json.dumps(raw, indent=1, sort_keys=True).encode() + b"\n")
    for line in summary(raw):
        console.print(line)


if __name__ == "__main__":
    main()
