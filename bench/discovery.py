"""How fast planted conflicts are found blind: fuzzkv against its peers on the same model.

``python -m bench.discovery [--seeds 30] [--peer-seeds 3] [--cap 15] [--only NAME ...] [--json FILE]``.  Every
target of ``bench.targets`` with each tool: share of seeds that found it within the cap, median time (after
compilation) and primitive events to the first detection, and false alarms on the clean twins (and, where the
contract is the repair, with the contract enforced).
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.peers import PEERS
from bench.targets import Target, targets
from fuzzkv import __version__
from fuzzkv.core.files import atomic_write
from fuzzkv.simulator.bulk.engine import BulkEngine

LOOK = 200_000
"""Schedules in which a clean twin has to stay clean."""


def hit(target: Target, engine: BulkEngine) -> bool:
    """Whether the search has met the planted conflict."""
    return any(
        c.mask == target.full and target.matches(c.invariant, c.actor, c.primitive) for c in engine.classes
    )


def ours(name: str, seeds: int, cap: float) -> dict[str, Any]:
    """fuzzkv on one target: every seed, then the clean form."""
    target = next(t for t in targets() if t.name == name)
    began = time.perf_counter()
    engine = BulkEngine(target.policies, target.config)
    engine.search(1)
    ready = time.perf_counter() - began
    runs = []
    for seed in range(seeds):
        began = time.perf_counter()
        fresh = engine.again(seed=seed)
        chunk = 2
        while not hit(target, fresh) and time.perf_counter() - began < cap:
            fresh.search(chunk)
            chunk = min(2 * chunk, 4096)
        runs.append(
            {
                "found": hit(target, fresh),
                "seconds": round(time.perf_counter() - began, 6),
                "primitives": fresh.primitives,
                "runs": fresh.runs,
            }
        )
    clean = BulkEngine(target.twins or target.policies, target.config, seed=1, enforce=target.twins is None)
    clean.search(LOOK)
    return {
        "runs": runs,
        "compile_s": round(ready, 2),
        "clean_schedules": clean.drawn,
        "false_alarms": [f"{c.mask}:{c.invariant}:{c.actor}:{c.primitive}:{c.seen}" for c in clean.classes],
    }


def theirs(peer: str, name: str, seeds: int, cap: float) -> dict[str, Any]:
    """One peer on one target, each seed in a process of its own."""
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
    if tool == "fuzzkv":
        return tool, name, ours(name, options.seeds, options.cap)
    return tool, name, theirs(tool, name, options.peer_seeds, options.cap)


def median(runs: list[dict[str, Any]], cap: float, field: str = "seconds") -> float:
    """The median over all seeds; a run that found nothing counts as the cap, or as endless."""
    missing = cap if field == "seconds" else float("inf")
    return statistics.median(r[field] if r["found"] else missing for r in runs)


def shown(runs: list[dict[str, Any]], cap: float) -> str:
    """One cell: found of seeds, and the median time."""
    found = sum(r["found"] for r in runs)
    seconds = median(runs, cap)
    if found * 2 <= len(runs):
        return f"{found}/{len(runs)}  > {cap:.0f} s"
    return (
        f"{found}/{len(runs)}  {seconds * 1000:,.1f} ms"
        if seconds < 1
        else f"{found}/{len(runs)}  {seconds:.1f} s"
    )


def table_of(results: dict[str, dict[str, Any]], chosen: list[Target], cap: float) -> Table:
    """The results as a table, a row a target."""
    table = Table(title=f"first detection, median over seeds, cap {cap:.0f} s a run")
    for column in ("target", "breaks", "depth", "fuzzkv", "events", *PEERS, "false alarms"):
        table.add_column(column, justify="left" if column in ("target", "breaks") else "right")
    for target in chosen:
        found = results[target.name]
        events = median(found["fuzzkv"]["runs"], cap, "primitives")
        table.add_row(
            target.name,
            "/".join(target.invariants),
            str(target.depth or "?"),
            shown(found["fuzzkv"]["runs"], cap),
            f"{events:,.0f}",
            *(shown(found[peer]["runs"], cap) if peer in found else "-" for peer in PEERS),
            str(len(found["fuzzkv"]["false_alarms"])),
        )
    return table


def verdicts(results: dict[str, dict[str, Any]], chosen: list[Target], cap: float) -> list[str]:
    """What the benchmark asks for, each line with what was measured."""
    lines = []
    all_runs = [(t, results[t.name]["fuzzkv"]) for t in chosen]
    found = sum(r["found"] for _, f in all_runs for r in f["runs"])
    total = sum(len(f["runs"]) for _, f in all_runs)
    lines.append(f"found {found} of {total} runs of fuzzkv")
    for most, limit in ((4, 0.1), (8, 10.0)):
        slow = [t.name for t, f in all_runs if 0 < t.depth <= most and median(f["runs"], cap) >= limit]
        count = sum(0 < t.depth <= most for t in chosen)
        lines.append(
            f"depth <= {most}: {count - len(slow)} of {count} under {limit:g} s in the median; slower: {slow}"
        )
    alarms = {t.name: f["false_alarms"] for t, f in all_runs if f["false_alarms"]}
    lines.append(f"false alarms on clean twins: {alarms or 'none'}")
    behind = []
    for target, f in all_runs:
        for peer in PEERS:
            if peer in results[target.name]:
                theirs_median = median(results[target.name][peer]["runs"], cap)
                if theirs_median < median(f["runs"], cap):
                    behind.append(f"{target.name} ({peer})")
    lines.append(f"behind a peer in the median: {behind or 'nowhere'}")
    return lines


def main() -> None:
    """Run, print, and write the raw results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--peer-seeds", type=int, default=3)
    parser.add_argument("--cap", type=float, default=15.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", default="bench/results/discovery.json")
    options = parser.parse_args()
    began = time.monotonic()
    chosen = [t for t in targets() if not options.only or t.name in options.only]
    tools = ["fuzzkv"] if options.no_peers else ["fuzzkv", *PEERS]
    # One run compiles the core for all.
    BulkEngine(chosen[0].policies, chosen[0].config).search(1)
    results: dict[str, dict[str, Any]] = {t.name: {} for t in chosen}
    console = Console()
    with ProcessPoolExecutor(options.workers) as pool, Progress(console=console) as progress:
        task = progress.add_task("targets x tools", total=len(chosen) * len(tools))
        waiting = [pool.submit(one, tool, t.name, options) for tool in tools for t in chosen]
        for done in as_completed(waiting):
            tool, name, found = done.result()
            results[name][tool] = found
            progress.advance(task)
    console.print(table_of(results, chosen, options.cap))
    lines = verdicts(results, chosen, options.cap)
    minutes = (time.monotonic() - began) / 60
    for line in [*lines, f"{minutes:.1f} minutes on {options.workers} processes"]:
        console.print(line)
    raw = {
        "fuzzkv": __version__,
        "python": platform.python_version(),
        "seeds": options.seeds,
        "peer_seeds": options.peer_seeds,
        "cap_s": options.cap,
        "targets": {
            t.name: {"kind": t.kind, "invariants": t.invariants, "depth": t.depth, **results[t.name]}
            for t in chosen
        },
        "summary": lines,
    }
    atomic_write(Path(options.json), json.dumps(raw, indent=1, sort_keys=True).encode() + b"\n")


if __name__ == "__main__":
    main()
