"""Which fields of shared metadata the corpus needs: ``python -m bench.necessity`` writes ``docs/necessity.json`` and the tables of
``docs/necessity.md``: once for the cases of the default policies, as ``fuzzkv necessity`` prints it, and once for all.
"""

from __future__ import annotations

import argparse
import io
import json
import re
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

PAGE = Path("docs/necessity.md")
DATA = Path("docs/necessity.json")


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


def page_with(text: str, reports: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with the tables of some reports in their places (```` ```text NAME ````)."""
    blocks = {"pieces": mapping(), **{name: printed(report) for name, report in reports.items()}}
    for name, content in blocks.items():
        block = f"```text {name}\n{content}\n```"
        text = re.sub(rf"```text {name}\n.*?```", lambda _, block=block: block, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


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
    atomic_write(PAGE, page_with(PAGE.read_text(encoding="utf-8"), reports).encode())


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
