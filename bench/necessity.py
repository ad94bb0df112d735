"""Which fields of shared metadata the corpus needs: ``python -m bench.necessity`` writes ``docs/generated/necessity.json`` and
``docs/generated/necessity.md``: once for the cases of the default policies, as ``fuzzkv necessity`` prints it, and once for all.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich.console import Console

from fuzzkv.cases.corpus import load_corpus
from fuzzkv.core.canonical import file_bytes
from fuzzkv.core.files import atomic_write
from fuzzkv.metadata.fields import FIELDS, PRIVATE
from fuzzkv.metadata.metadata_report import judged, necessity
from fuzzkv.metadata.pairs import Bound
from fuzzkv.policies.registry import builtin
from fuzzkv.report.necessity import necessity_page
from tests.field.reports import REPORTS

PAGE = Path("docs/generated/necessity.md")
DATA = Path("docs/generated/necessity.json")
HEAD = "Written by `python -m bench.necessity`; [necessity.md](../necessity.md) says how to read it."


def printed(report: Mapping[str, Any]) -> str:
    """What the command prints of a report where it isn't a terminal."""
    out = io.StringIO()
    Console(file=out, width=100, no_color=True, highlight=False).print(necessity_page(report, width=100))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def mapping() -> str:
    """Which columns of the state carry each field, and why."""
    lines = []
    for part in FIELDS:
        lines += wrap(f"{part.name}: {part.why}.", 100)
        lines += wrap(", ".join(part.columns), 100, initial_indent="    ", subsequent_indent="    ")
    lines += wrap(f"in view: {', '.join(PRIVATE)}", 100, subsequent_indent="    ")
    return "\n".join(lines)


def page(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """The page of the tables: which columns carry each field, then each report as it is printed."""
    blocks = {
        "Columns": mapping(),
        "Default policies": printed(reports["default"]),
        "All cases": printed(reports["all"]),
    }
    parts = ["# Which shared metadata is needed: tables", "", HEAD]
    for title, content in blocks.items():
        parts += ["", f"## {title}", "", "```text", content, "```"]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Run both and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--print", action="store_true", help="only make the tables anew, from what was found about each case"
    )
    if parser.parse_args().print:
        kept = json.loads(DATA.read_text(encoding="utf-8"))["all"]
        whole = judged(kept["cases"], kept["left_out"], Bound(**kept["bound"]))
    else:
        field = [policy for report in REPORTS for policy in report.policies]
        whole = necessity(load_corpus("corpus"), allowed=field, tell=_tell)
    reports = both(whole)
    atomic_write(DATA, file_bytes(reports))
    atomic_write(PAGE, page(reports).encode())


def both(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report on all cases, and what the command says without the field's policies: each case stands for itself."""
    known = set(builtin())
    rows = [row for row in report["cases"] if set(row["policies"]) <= known]
    left = [{"id": row["id"], "why": "it needs other policies"} for row in report["cases"] if row not in rows]
    left = sorted([*left, *report["left_out"]], key=lambda row: str(row["id"]))
    return {"default": judged(rows, left, Bound(**report["bound"])), "all": report}


def _tell(case: str, done: int, of: int) -> None:
    if done == 0:
        print(case, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
