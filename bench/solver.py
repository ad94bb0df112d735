"""Depth against seconds: the solver and the compiled explicit-state search on the same scopes, 2 to 16 pages.

``python -m bench.solver [--quick] [--json FILE]``.  Each scope is asked in two forms, ``refuted`` (a pair that breaks an
invariant within the depth) and ``clean`` (its repair, about the same class).  Both run the pair alone; what they find
counts once the Python interpreter has run it with every smaller set beside it.  Exits with 1 if they name different shortest
depths, or if either finds something in a clean form.

Both speak of schedules of the same events: sessions of up to so many pages that open and end, steps, acts, fading pages,
what the policies ask for, and time that passes, without faults.  What differs:

- The solver takes every idle time of 1 to 32 ticks as one number.  The search tries a few sizes; it is run twice, with
  the sizes that ``fuzzkv exhaust`` chooses by itself (fewer schedules than the solver's), and with all 32 (the same ones).
- The search has budgets of each kind of event.  They are beyond every depth here, but it keeps states with other use of
  them apart.
- The search looks for all classes at once, the solver for the one that is named.

One question or one search at a time, so that the ratios are of one core each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.depths import SIZES, Subject, search, solve, subjects
from fuzzkv import __version__
from fuzzkv.core.files import atomic_write

SPARE = 1.0
"""Times the solver's seconds that the search of every idle time may take."""
MOST = 80.0
"""Seconds that it may take at most."""
SOLVER, CHOSEN, EVERY = "solver", *SIZES


def answered(result: dict[str, Any]) -> bool:
    """Whether there is an answer: a shortest schedule, or none within the depth."""
    return result["shortest"] is not None or result["ending"] in ("depth", "exhausted")


def against(solver: dict[str, Any], other: dict[str, Any]) -> tuple[str, str]:
    """Who wins, and by how much in words."""
    mine, theirs = solver["seconds"], other["seconds"]
    if (not answered(solver) and not answered(other)) or min(mine, theirs) <= 0:
        return "neither", "no answer"
    more = "" if answered(solver) and answered(other) else "more than "
    if answered(solver) and other["ending"] == "memory":
        return "solver", "the solver, for the search had no memory left"
    if answered(solver) and theirs >= mine:
        return "solver", f"the solver, {more}{theirs / mine:.1f} times as fast"
    if answered(other) and mine > theirs:
        return "search", f"the search, {more}{mine / theirs:.1f} times as fast"
    return "neither", "one had no answer, and too little time to say that it is slower"


def faults(subject: Subject, results: dict[str, dict[str, Any]]) -> list[str]:
    """What is wrong with the answers: all that there are must agree, and a refuted scope needs the solver's and one more."""
    where = f"{subject.name}, {subject.requests} x {subject.pages} pages, {subject.form}"
    lengths = {who: result["shortest"] for who, result in results.items() if answered(result)}
    found = []
    if subject.form == "refuted" and not {SOLVER, CHOSEN} <= set(lengths):
        found.append(f"{where}: no answer in time by {', '.join({SOLVER, CHOSEN} - set(lengths))}")
    if len(set(lengths.values())) > 1:
        found.append(f"{where}: different shortest depths: {lengths}")
    planted = subject.form == "refuted"
    if any((length is not None and length > 0) != planted for length in lengths.values()):
        found.append(f"{where}: not as planted: {lengths}")
    return found


def table_of(subject: Subject, results: dict[str, dict[str, Any]]) -> Table:
    """Depth against seconds of one subject; the seconds of each depth count what came before."""
    title = f"{subject.name}, {subject.requests} x {subject.pages} pages, {subject.form}"
    table = Table(title=title, title_justify="left")
    chosen = ", ".join(str(size) for size in results["chosen"]["sizes"])
    heads = (
        "events",
        "build",
        "question",
        "clauses",
        "Z3 MB",
        "solver, s",
        f"search ({chosen}), s",
        "states",
    )
    for head in (*heads, "search (1 to 32), s", "states"):
        table.add_column(head, justify="right")
    for depth in range(1, subject.depth + 1):
        mine = next((row for row in results["solver"]["depths"] if row["depth"] == depth), None)
        cells = [str(depth), *["-"] * 5]
        if mine is not None:
            asked = mine["questions"]
            cells[1:] = [
                f"{sum(each['build_s'] for each in asked):.2f}",
                f"{sum(each['question_s'] for each in asked):.2f}",
                f"{max(each['clauses'] for each in asked):,}",
                f"{max(each['z3_mb'] for each in asked)}",
                f"{mine['so_far_s']:.2f}",
            ]
        for which in SIZES:
            row = next((row for row in results[which]["depths"] if row["depth"] == depth), None)
            cells += ["-", "-"] if row is None else [f"{row['so_far_s']:.2f}", f"{row['states']:,}"]
        table.add_row(*cells)
    return table


def known(result: dict[str, Any]) -> str:
    """What one of them says."""
    if result["shortest"] is not None:
        return f"{result['shortest']}"
    depths = [row["depth"] for row in result["depths"]]
    return f"none in {max(depths, default=0)}"


def verdict(subject: Subject, results: dict[str, dict[str, Any]]) -> str:
    """One line: what they say, and who wins."""
    said = ", ".join(known(results[who]) for who in (SOLVER, CHOSEN, EVERY))
    few, all_ = (against(results[SOLVER], results[which])[1] for which in SIZES)
    what = "shortest (solver, search, search of every idle time)"
    return (
        f"{subject.name}, {subject.requests * subject.pages} pages, {subject.form}: {what}: {said}; "
        f"chosen idle times: {few}; every idle time: {all_}"
    )


def tally(kept: list[dict[str, Any]]) -> list[str]:
    """Where each wins, in a line for each way to run the search."""
    lines = []
    for which, what in ((CHOSEN, "idle times as it chooses them"), (EVERY, "every idle time, as the solver")):
        wins: dict[str, list[str]] = {"solver": [], "search": [], "neither": []}
        for one in kept:
            who = against(one["results"][SOLVER], one["results"][which])[0]
            wins[who].append(f"{one['name']} {one['requests']} x {one['pages']} {one['form']}")
        told = [f"{who} ahead: {', '.join(scopes)}" for who, scopes in wins.items() if scopes]
        lines.append(f"search with {what}: {'; '.join(told)}")
    return lines


def main() -> None:
    """Run, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the two small scopes only, about a minute")
    parser.add_argument("--cap", type=float, default=240.0, help="seconds of the solver a scope and form")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    began, console = time.monotonic(), Console(width=150)
    load = [f"{os.getloadavg()[0]:.1f}"]
    kept, lines, wrong = [], [], []
    with console.status("") as status:
        for subject in subjects(options.quick):

            def hear(what: str, name: str = f"{subject.name}, {subject.form}") -> None:
                status.update(f"{name}: {what}")

            results = {SOLVER: solve(subject, options.cap, hear)}
            results[CHOSEN] = search(subject, CHOSEN, options.cap, hear)
            results[EVERY] = search(subject, EVERY, min(MOST, SPARE * results[SOLVER]["seconds"]), hear)
            console.print(table_of(subject, results))
            lines.append(verdict(subject, results))
            console.print(lines[-1], markup=False, highlight=False, soft_wrap=True)
            wrong += faults(subject, results)
            facts = ("name", "form", "requests", "pages", "target", "depth", "enforce")
            kept.append(
                {**{fact: getattr(subject, fact) for fact in facts}, "results": results, "verdict": lines[-1]}
            )
    load.append(f"{os.getloadavg()[0]:.1f}")
    ends = tally(kept)
    ends.append("WRONG: " + "; ".join(wrong) if wrong else "both name the same shortest depth everywhere")
    minutes = (time.monotonic() - began) / 60
    ends.append(f"{minutes:.1f} minutes on {os.cpu_count()} cores, load {load[0]} before and {load[1]} after")
    for line in ends:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if options.json:
        raw = {
            "fuzzkv": __version__,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": load,
            "scopes": kept,
            "summary": [*lines, *ends],
        }
        atomic_write(Path(options.json), json.dumps(raw, indent=1, sort_keys=True).encode() + b"\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
