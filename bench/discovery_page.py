"""The tables of ``docs/discovery.md`` and of the README from what ``bench.discovery`` kept: ``python -m bench.discovery_page``.

Each stands between two marks, ``<!-- discovery -->`` and ``<!-- /discovery -->``.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.peers import PEERS
from fuzzkv.core.files import atomic_write

FUZZKV, UNIFORM = "fuzzkv", "uniform loop"
PAGE, README, DATA = Path("docs/discovery.md"), Path("README.md"), Path("bench/results/discovery.json")
FACTOR = 1.5
"""How many times as many schedules as the uniform loop's are still as good as those."""
FEW = ("vllm#48412", "vllm#53505", "sglang PR 27631", "LMCache#1034", "S1", "S3", "S7", "mutant of I16")
"""Targets of the README's table: the plainest, the deepest, and the one on which the uniform loop is strongest."""
ORDER = {"field": 0, "design": 1, "mutant": 2}

Results = Mapping[str, Any]


def median(results: Results, field: str) -> float:
    """The median over the seeds of a tool on a target; a run that found nothing counts as endless."""
    return statistics.median(run[field] if run["found"] else float("inf") for run in results["runs"])


def amount(value: float) -> str:
    """A number of schedules or events."""
    return "-" if value == float("inf") else f"{value:,.0f}"


def time_of(raw: Results, target: Results, tool: str) -> str:
    """The median time of a tool, or that it didn't find the conflict in half of its runs."""
    if tool not in target:
        return "not run"
    results, cap = target[tool], raw["cap_s" if tool in (FUZZKV, UNIFORM) else "peer_cap_s"]
    seconds, found = median(results, "seconds"), sum(run["found"] for run in results["runs"])
    if seconds == float("inf"):
        return f"> {cap:.0f} s ({found}/{len(results['runs'])})"
    return f"{1000 * seconds:,.2f} ms" if seconds < 1 else f"{seconds:.1f} s"


def ratio(target: Results, field: str) -> float:
    """How many times as much fuzzkv takes as the uniform loop does."""
    mine, other = median(target[FUZZKV], field), median(target[UNIFORM], field)
    return 0.0 if other == float("inf") > mine else mine / other


def rows(raw: Results, names: list[str], tools: tuple[str, ...]) -> list[str]:
    """A table: schedules and primitive events to the first detection on the compiled machine, and everyone's time."""
    heads = [
        "target",
        "breaks",
        "events",
        "schedules: fuzzkv",
        "uniform",
        "primitive events: fuzzkv",
        "uniform",
    ]
    heads += [f"time: {tool}" for tool in tools]
    lines = [f"| {' | '.join(heads)} |", "|---|---|" + "---:|" * (len(heads) - 2)]
    for name in names:
        target = raw["targets"][name]
        cells = [name, "/".join(target["invariants"]), str(target["depth"])]
        for field in ("schedules", "primitives"):
            cells += [amount(median(target[tool], field)) for tool in (FUZZKV, UNIFORM)]
        cells += [time_of(raw, target, tool) for tool in tools]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def summary(raw: Results) -> list[str]:
    """What the benchmark asks for, each line with what was measured."""
    chosen = {name: t for name, t in raw["targets"].items() if FUZZKV in t}
    runs = [run for target in chosen.values() for run in target[FUZZKV]["runs"]]
    lines = [f"fuzzkv found the planted conflict in {sum(run['found'] for run in runs)} of {len(runs)} runs"]
    alarms = {name: t[FUZZKV]["false_alarms"] for name, t in chosen.items() if t[FUZZKV]["false_alarms"]}
    lines.append(f"false alarms on clean twins: {alarms or 'none'}")
    both = {name: t for name, t in chosen.items() if UNIFORM in t}
    words = {"schedules": "schedules", "primitives": "primitive events", "seconds": "seconds"}
    for field, word in words.items():
        ratios = {name: ratio(target, field) for name, target in both.items()}
        as_good = sum(value <= FACTOR for value in ratios.values())
        ahead = sum(value < 1 for value in ratios.values())
        beyond = ", ".join(f"{n} ({v:.1f})" for n, v in sorted(ratios.items()) if v > FACTOR)
        lines.append(
            f"by {word}: ahead of the compiled uniform loop on {ahead} of {len(both)}, ahead or within a factor of "
            f"{FACTOR} on {as_good}; beyond that on {beyond or 'none'}"
        )
    for peer in (UNIFORM, *PEERS):
        found = [run["found"] for t in chosen.values() if peer in t for run in t[peer]["runs"]]
        if found:
            lines.append(f"{peer} found it in {sum(found)} of {len(found)} runs")
    return lines


def in_order(raw: Results) -> list[str]:
    """The names of all targets: the field's reports, the design's rows, the mutants."""

    def key(name: str) -> tuple[int, list[int], str]:
        return ORDER[raw["targets"][name]["kind"]], [int(n) for n in re.findall(r"\d+", name)], name

    return sorted(raw["targets"], key=key)


def between(path: Path, lines: list[str]) -> None:
    """Put lines between the marks of a page."""
    text = path.read_text(encoding="utf-8")
    block = "<!-- discovery -->\n" + "\n".join(lines) + "\n<!-- /discovery -->"
    made, count = re.subn(r"<!-- discovery -->.*?<!-- /discovery -->", lambda _: block, text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{path} has {count} places between discovery marks, not one")
    atomic_write(path, made.encode())


def main() -> None:
    """Write the pages."""
    raw = json.loads(DATA.read_text(encoding="utf-8"))
    compiling = ", ".join(f"{tool} {seconds:.1f} s" for tool, seconds in raw["compile_s"].items())
    notes = [
        "",
        f"Medians of {raw['seeds']} seeds (interpreted peers: {raw['peer_seeds']}), up to {raw['cap_s']:.0f} s a run "
        f"({raw['peer_cap_s']:.0f} s). fuzzkv and the "
        "uniform loop run the compiled machine; the state machine, the random loop and Atheris the interpreted one, so their "
        "times say what a user of these tools meets, not how good their draws are. Compiled once, before these times begin: "
        f"{compiling}.",
        "",
        *(f"- {line}" for line in raw["summary"]),
    ]
    between(PAGE, rows(raw, in_order(raw), (FUZZKV, UNIFORM, *PEERS)) + notes)
    between(README, rows(raw, [name for name in FEW if name in raw["targets"]], (FUZZKV, UNIFORM, *PEERS)))


if __name__ == "__main__":
    main()
