"""The screen of a gate: a row for every check and policy set, then every failure with its clause, its case and the
commands that run it again.

It is made from the plain report of a gate (see :mod:`fuzzkv.gate.gate_report`).
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fuzzkv.core.glossary import counted
from fuzzkv.report.summary import policy_text

STYLES: Final = {
    "accepted": "green",
    "none found": "green",
    "not-reproduced": "green",
    "conflict": "bold red",
    "single-policy": "bold red",
}
CLOSING: Final = {
    "clean": ("No conflict found", "bold green"),
    "conflict": ("{classes} of conflict with {candidate}", "bold red"),
    "single-policy": ("{candidate} fails alone, so it is not let in", "bold red"),
    "vacuous": (
        "Vacuous: {candidate} was not exercised beside the others, so this proves nothing",
        "bold magenta",
    ),
    "failed": ("The gate could not finish", "bold magenta"),
    "interrupted": ("Interrupted. {classes} of failures found so far", "bold magenta"),
}


def gate_page(report: Mapping[str, Any], *, width: int = 100) -> RenderableType:
    """The whole page, to be printed without cropping: a command is one line, however long, to be pasted."""
    parts: list[RenderableType] = [check_table(report), Text()]
    for failure in report["failures"]:
        parts += [*_failure(failure, width, on_model="engine" not in report), Text()]
    for error in report["errors"]:
        parts.append(
            Text(
                f"{error['code']}: {error['invariant']} of {policy_text(error['policies'])}: {error['text']}."
            )
        )
    parts += [Text(str(note)) for note in report["notes"]]
    return Group(*parts, closing(report))


def check_table(report: Mapping[str, Any]) -> Table:
    """One row for every check and policy set."""
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold"
    )
    table.add_column("check", no_wrap=True)
    table.add_column("policies", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("failing", overflow="fold")
    table.add_column("time", justify="right", no_wrap=True)
    for row in report["checks"]:
        time = f"{row['seconds']:.1f} s" if row["seconds"] else ""
        verdict = Text(row["verdict"], style=STYLES.get(row["verdict"], "magenta"))
        table.add_row(row["check"], policy_text(row["policies"]), verdict, Text(row["text"]), time)
    return table


def closing(report: Mapping[str, Any]) -> Text:
    """The last line: what came out, how long it took, and the exit code."""
    words, style = CLOSING[report["outcome"]]
    count = len(report["failures"])
    said = words.format(candidate=report["candidate"], classes=counted(count, "class"))
    return Text.assemble(
        (said, style), f" ({report['seconds']:.0f} s, seed {report['seed']}; exit {report['exit_code']})"
    )


def _failure(failure: Mapping[str, Any], width: int, *, on_model: bool) -> list[RenderableType]:
    who = policy_text(failure["policies"])
    if not failure["invariant"]:
        return [Text.assemble((who, "bold"), f" is not accepted: {failure['title']}")]
    breaks = "breaks" if len(failure["policies"]) == 1 else "break"
    head = Text.assemble(
        (failure["case_id"], "bold"),
        f" {who} {breaks} {failure['invariant']} {failure['name']} in {failure['events']} events",
    )
    said = [failure["title"]] if len(failure["policies"]) > 1 else []
    if failure["clause"]:
        said.append(
            f"the contract would have refused it at event {failure['refused_at']} by the clause '{failure['clause']}'"
        )
    elif on_model:
        said.append("no clause of the contract refuses it")
    if failure["corpus"]:
        said.append(f"shown by {', '.join(failure['corpus'])} with the candidate standing in")
    lines: list[RenderableType] = [head]
    lines += [Text(f"  {line}") for text in said for line in wrap(text, max(30, width - 2))]
    commands = [failure["explain"], failure["replay"]] if failure["path"] else ["its case could not be filed"]
    lines += [Text(f"  {command}", style="italic", no_wrap=True, overflow="ignore") for command in commands]
    return lines
