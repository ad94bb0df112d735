"""``docs/generated/solver.md`` from what ``bench.solver`` kept: ``python -m bench.solver_page``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.depths import SIZES
from bench.solver import SOLVER, against, answered, known
from fuzzkv.core.files import atomic_write

PAGE, DATA = Path("docs/generated/solver.md"), Path("bench/results/solver.json")
HEAD = (
    "| pair | pages | form | shortest | solver, s | search, few, s | ahead | search, all, s | ahead | clauses | Z3, MB |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)
FIRST = 5
"""The event from which on the solver's time is compared with that of the event before: less is a matter of overhead."""


def seconds(result: Mapping[str, Any]) -> str:
    """How long it took, or that it had no answer by then."""
    took = float(result["seconds"])
    return f"{took:.1f}" if answered(dict(result)) else f"> {took:.0f}"


def ahead(solver: dict[str, Any], other: dict[str, Any]) -> str:
    """Who wins, by how many times."""
    who, _ = against(solver, other)
    if who == "neither":
        return "open"
    slow, fast = (other, solver) if who == "solver" else (solver, other)
    more = "" if answered(slow) else "more than "
    return f"{who} {more}{slow['seconds'] / fast['seconds']:.1f}x"


def row(scope: Mapping[str, Any]) -> str:
    """One scope and form."""
    solver = scope["results"][SOLVER]
    few, every = (scope["results"][which] for which in SIZES)
    asked = [question for depth in solver["depths"] for question in depth["questions"]]
    cells = (
        scope["name"],
        str(scope["requests"] * scope["pages"]),
        scope["form"],
        known(solver),
        seconds(solver),
        seconds(few),
        ahead(solver, few),
        seconds(every),
        ahead(solver, every),
        f"{max(question['clauses'] for question in asked) / 1e6:.1f} M",
        str(max(question["z3_mb"] for question in asked)),
    )
    return f"| {' | '.join(cells)} |"


def growth(raw: Mapping[str, Any]) -> tuple[float, float]:
    """How many times as long one event more takes on clean scopes: the least and the most."""
    ratios = []
    for scope in raw["scopes"]:
        if scope["form"] == "clean":
            ends = [0.0, *(depth["so_far_s"] for depth in scope["results"][SOLVER]["depths"])]
            took = [after - before for before, after in pairwise(ends)]
            ratios += [took[n] / took[n - 1] for n in range(FIRST - 1, len(took)) if took[n - 1] > 0]
    return min(ratios), max(ratios)


def section(raw: Mapping[str, Any]) -> str:
    """The table and what is below it."""
    least, most = growth(raw)
    before, after = raw["load"]
    return "\n".join(
        (
            HEAD,
            *map(row, raw["scopes"]),
            "",
            "Both name the same shortest depth wherever both answer.  On clean scopes one more event takes the solver "
            f"{least:.1f} to {most:.1f} times as long (from event {FIRST} on).",
            f"From `bench/results/solver.json`: {raw['cores']} cores, load {before} before and {after} after; only ratios "
            "within the run mean anything.",
        )
    )


def page(raw: Mapping[str, Any]) -> str:
    """The whole page."""
    head = "# The solver and the explicit-state search on the same scopes\n\n"
    return (
        head
        + "Written by `make bench-solver`; [solver.md](../solver.md) says what was asked.\n\n"
        + section(raw)
        + "\n"
    )


def main() -> None:
    """Write the page."""
    atomic_write(PAGE, page(json.loads(DATA.read_text(encoding="utf-8"))).encode())


if __name__ == "__main__":
    main()
