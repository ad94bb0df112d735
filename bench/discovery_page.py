"""The tables of ``docs/discovery.md`` and of the README from what ``bench.discovery`` kept: ``python -m bench.discovery_page``.

Each stands between two marks, ``<!-- discovery -->`` and ``<!-- /discovery -->``; a README without marks is left alone.
Prints the tables too.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers import LONGEST, PEERS
from fuzzkv.core.files import atomic_write

FUZZKV, UNIFORM = "fuzzkv", "uniform loop"
PAGE, README, DATA = Path("docs/discovery.md"), Path("README.md"), Path("bench/results/discovery.json")
FACTOR = 1.5
"""How many times as many schedules as the uniform loop's are still as good as those."""
FEW = ("vllm#48412", "vllm#53505", "sglang PR 27631", "LMCache#1034", "S1", "S3", "S7", "mutant of I16")
"""Targets of the README's table: the plainest, the deepest, and the one on which the uniform loop is strongest."""
DEEP = ("S1", "S3", "S7", "vllm#53505")
"""Targets that a few uniform events don't show."""
FIELDS = {"schedules": "schedules", "primitives": "primitive events", "seconds": "time"}
"""What is counted until the first detection, and its heading."""
ORDER = {"field": 0, "design": 1, "mutant": 2}

Results = Mapping[str, Any]


def median(results: Results, field: str) -> float:
    """The median over the seeds of a tool on a target; a run that found nothing counts as endless."""
    return statistics.median(run[field] if run["found"] else float("inf") for run in results["runs"])


def cell(results: Results, field: str, cap: float) -> str:
    """The median of a tool on a target in words; if half of its runs found nothing, that it is beyond the cap, and how
    many found it.
    """
    value, found = median(results, field), sum(run["found"] for run in results["runs"])
    if value == float("inf"):
        spent = f"> {cap:.0f} s" if field == "seconds" else "none"
        return f"{spent} ({found}/{len(results['runs'])})"
    if field != "seconds":
        return f"{value:,.0f}"
    return f"{1000 * value:,.2f} ms" if value < 1 else f"{value:.1f} s"


def ratio(target: Results, field: str) -> float:
    """How many times as much fuzzkv takes as the uniform loop does."""
    mine, other = median(target[FUZZKV], field), median(target[UNIFORM], field)
    return 0.0 if other == float("inf") > mine else mine / other


def depth_gain(target: Results) -> str:
    """How many times as many schedules the uniform loop takes as fuzzkv does, at least if it doesn't find the conflict."""
    mine, other = median(target[FUZZKV], "schedules"), median(target[UNIFORM], "schedules")
    if other < float("inf"):
        return f"{other / mine:,.0f} times"
    drawn = statistics.median(run["schedules"] for run in target[UNIFORM]["runs"])
    return f"more than {drawn / mine:,.0f} times"


def rows(raw: Results, names: list[str], columns: Sequence[tuple[str, str]]) -> list[str]:
    """A table: a row a target, a column for each (tool, field)."""
    one = len({field for _, field in columns}) == 1
    heads = ["target", "breaks", "events"]
    heads += [tool if one else f"{tool}, {FIELDS[field]}" for tool, field in columns]
    lines = [f"| {' | '.join(heads)} |", "|---|---|" + "---:|" * (len(heads) - 2)]
    for name in names:
        target = raw["targets"][name]
        cells = [name, "/".join(target["invariants"]), str(target["depth"])]
        for tool, field in columns:
            cap = raw["cap_s" if tool in (FUZZKV, UNIFORM) else "peer_cap_s"]
            cells.append(cell(target[tool], field, cap) if tool in target else "not run")
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
    for field, word in FIELDS.items():
        ratios = {name: ratio(target, field) for name, target in both.items()}
        as_good = sum(value <= FACTOR for value in ratios.values())
        ahead = sum(value < 1 for value in ratios.values())
        beyond = ", ".join(f"{n} ({v:.1f})" for n, v in sorted(ratios.items()) if v > FACTOR)
        lines.append(
            f"by {word}: ahead of the compiled uniform loop on {ahead} of {len(both)}, ahead or within a factor of "
            f"{FACTOR} on {as_good}; beyond that on {beyond or 'none'}"
        )
    deep = ", ".join(f"{name} {depth_gain(both[name])}" for name in DEEP if name in both)
    lines.append(f"the compiled uniform loop's schedules to fuzzkv's where depth is: {deep}")
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


def page(raw: Results) -> list[str]:
    """All targets and all tools: a table of schedules, of primitive events and of time."""
    lines = [f"- {line}" for line in summary(raw)]
    for field, word in FIELDS.items():
        columns = [(tool, field) for tool in (FUZZKV, UNIFORM, *PEERS)]
        lines += ["", f"### {word.capitalize()} to the first detection", ""]
        lines += rows(raw, in_order(raw), columns)
    return [*lines, "", *notes(raw)]


def short(raw: Results) -> list[str]:
    """The README's: some of the targets, and fuzzkv beside the uniform loop but for the time."""
    columns = [(tool, field) for field in ("schedules", "primitives") for tool in (FUZZKV, UNIFORM)]
    columns += [(tool, "seconds") for tool in (FUZZKV, UNIFORM, *PEERS)]
    return [*rows(raw, [name for name in FEW if name in raw["targets"]], columns), "", *notes(raw)]


def notes(raw: Results) -> list[str]:
    """What the numbers are, and what each tool ran."""
    compiling = ", ".join(f"{tool} {seconds:.1f} s" for tool, seconds in raw["compile_s"].items())
    peers = f"the {', the '.join(PEERS[:-1])} and {PEERS[-1].capitalize()}"
    return [
        f"Medians to the first detection: {raw['seeds']} seeds and up to {raw['cap_s']:.0f} s a run of fuzzkv and the "
        f"uniform loop, both on the compiled machine; {raw['peer_seeds']} seeds and up to {raw['peer_cap_s']:.0f} s of "
        f"{peers}, on the interpreted one, so their times say what a user of these tools meets, not how good their draws "
        f"are. Compiling, once, isn't in the times: {compiling}. Control arms count as primitive events, for all alike. A "
        f"schedule has up to {LONGEST} events; fuzzkv runs all of them, the others stop at the first failure. (n/m): n of m "
        "runs found it.",
    ]


def between(path: Path, lines: list[str]) -> bool:
    """Put lines between the marks of a page; returns whether there are any."""
    text = path.read_text(encoding="utf-8")
    block = "<!-- discovery -->\n" + "\n".join(lines) + "\n<!-- /discovery -->"
    made, count = re.subn(r"<!-- discovery -->.*?<!-- /discovery -->", lambda _: block, text, flags=re.DOTALL)
    if count > 1:
        raise SystemExit(f"{path} has {count} places between discovery marks, not one")
    if made != text:
        atomic_write(path, made.encode())
    return count == 1


def main() -> None:
    """Print the tables and write the pages."""
    raw = json.loads(DATA.read_text(encoding="utf-8"))
    print("\n".join(page(raw)))
    for path, lines in ((PAGE, page(raw)), (README, short(raw))):
        done = between(path, lines)
        print(f"{path}: {'its table is up to date' if done else 'has no place for the table'}")


if __name__ == "__main__":
    main()
