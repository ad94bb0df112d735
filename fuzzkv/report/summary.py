"""The screen of cases: the summary table, one line per case, and the closing sentence.

Colours are the terminal's own red, green and magenta with bold, which read on light and dark grounds; every
colour repeats what a word says already, so nothing is lost without colour. All text of ours is ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import TextWrapper, wrap
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fuzzkv.core.glossary import counted
from fuzzkv.events import HuntFinished

Case = Mapping[str, Any]

WIDE: Final = 90
"""Columns below which the table becomes a list."""

STYLES: Final = {
    "confirmed": "bold red",
    "not-reproduced": "magenta",
    "worker-failed": "magenta",
    "underpowered": "magenta",
    "numeric-tie": "magenta",
    "single-policy": "magenta",
    "not confirmed": "magenta",
}


def policy_text(policies: Sequence[str]) -> str:
    """``"evict + offload"``; the empty set is the control arm ``"full cache"``."""
    return " + ".join(policies) if policies else "full cache"


def hanging(text: str, width: int) -> str:
    """The text in ``width`` columns: what goes on in a further line stands under the words of the first, right of a number or
    mark such as ``(3)`` that they begin with.
    """
    lines = []
    for line in text.splitlines():
        begin = re.match(r" *(?:\(\d+\) |- )?", line)
        indent = len(begin[0]) if begin else 0
        if indent and not line[:indent].strip():
            indent += 2
        lines += TextWrapper(width, subsequent_indent=" " * indent, break_on_hyphens=False).wrap(line) or [""]
    return "\n".join(lines)


def arms_text(case: Case) -> tuple[str, str]:
    """What the model's arms said: ``("fails", "3 of 3 pass")`` for the whole set and for its proper
    subsets.
    """
    whole = set(case["class"]["policies"])
    controls = [arm for arm in case.get("arms", ()) if set(arm["policies"]) != whole]
    sets = [arm for arm in case.get("arms", ()) if set(arm["policies"]) == whole]
    together = (
        "fails" if sets and all(arm["verdict"] == "fail" for arm in sets) else "passes" if sets else "not run"
    )
    passed = sum(arm["verdict"] == "pass" for arm in controls)
    return together, f"{passed} of {len(controls)} pass" if controls else "not run"


def engine_text(case: Case) -> str:
    """``"confirmed"`` if one confirmation says so, else the word of the latest, or ``"not confirmed"``."""
    confirmations = case.get("confirmations") or ()
    if not confirmations:
        return "not confirmed"
    words = [str(entry["verdict"]) for entry in confirmations]
    return "confirmed" if "confirmed" in words else words[-1]


def invariant_text(case: Case, names: Mapping[str, str]) -> str:
    """``"I1 authority"``."""
    invariant = str(case["class"]["invariant"])
    return f"{invariant} {names.get(invariant, '')}".rstrip()


def case_table(cases: Sequence[Case], names: Mapping[str, str]) -> Table:
    """One row a case, sorted as given. The whole set fails in each, unless its row says otherwise."""
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold"
    )
    table.add_column("case", no_wrap=True)
    labelled = any(case.get("label") for case in cases)
    if labelled:
        table.add_column("kind", no_wrap=True)
    table.add_column("policies", overflow="fold")
    table.add_column("breaks", overflow="fold")
    table.add_column("events", justify="right")
    table.add_column("controls", overflow="fold")
    table.add_column("real engine", overflow="fold")
    for case in cases:
        engine = engine_text(case)
        style = STYLES.get(engine, "")
        together, controls = arms_text(case)
        table.add_row(
            Text(str(case["id"]), style="bold"),
            *([str(case.get("label") or "")] if labelled else []),
            policy_text(case["class"]["policies"]),
            invariant_text(case, names),
            str(len(case.get("schedule", ()))),
            controls if together == "fails" else f"{together} together, {controls}",
            Text(engine, style=style),
        )
    return table


def case_lines(cases: Sequence[Case], names: Mapping[str, str]) -> Table:
    """The same facts as :func:`case_table`, one below the other, for narrow terminals."""
    grid = Table.grid(padding=(0, 1))
    for case in cases:
        together, controls = arms_text(case)
        label = f"  {case['label']}" if case.get("label") else ""
        grid.add_row(Text.assemble((str(case["id"]), "bold"), label))
        grid.add_row(f"  {policy_text(case['class']['policies'])}")
        grid.add_row(
            f"  break {invariant_text(case, names)} in {counted(len(case.get('schedule', ())), 'event')}"
        )
        grid.add_row(f"  together {together}, controls {controls}")
        grid.add_row(Text(f"  real engine: {engine_text(case)}"))
    return grid


def summary(
    finished: HuntFinished, cases: Sequence[Case], names: Mapping[str, str], *, width: int = 100
) -> RenderableType:
    """The end of a hunt: the table, the replay commands, what was refused or not confirmed, and the
    outcome.
    """
    parts: list[RenderableType] = []
    if cases:
        table = case_table(cases, names) if width >= WIDE else case_lines(cases, names)
        parts += [table, Text()]
        parts.append(Text("To run one again, or to read why it fails:", style="bold"))
        for case in cases:
            replay = f"  {case.get('replay') or 'fuzzkv replay ' + str(case['id'])}{finished.flags}"
            title = str(case.get("title") or "")
            if len(replay) + len(title) + 4 <= width:
                said = f"  # {title}" if title else ""
            else:
                # Every line of a comment is one, so that the block can be pasted.
                said = "".join(f"\n    # {line}" for line in wrap(title, max(20, width - 6)))
            parts.append(Text.assemble(replay, (said, "italic"), overflow="fold"))
        parts += [Text(f"  fuzzkv explain {cases[0]['id']}{finished.flags}"), Text()]
    if finished.refused:
        refused = ", ".join(f"{count} x {what}" for what, count in sorted(finished.refused.items()))
        parts.append(Text(f"Refused by the contract: {refused}"))
    if finished.unconfirmed:
        count = len(finished.unconfirmed)
        which = ", ".join(finished.unconfirmed) if count <= 3 else f"{count} of {len(cases)} cases"
        parts.append(Text(f"Not confirmed on a real engine: {which}", style="magenta"))
        parts.append(
            Text(f"  To try one: fuzzkv replay {finished.unconfirmed[0]} --target vllm{finished.flags}")
        )
        parts.append(Text("  'fuzzkv doctor' says whether an engine is there, and how to get one."))
    if finished.text:
        parts.append(Text(finished.text))
    parts.append(closing(finished))
    return Group(*parts)


def closing(finished: HuntFinished) -> Text:
    """The last line: what came out, after how much work, and the exit code."""
    kinds = f"{counted(finished.classes, 'class')} of conflict"
    says = {
        "clean": ("No conflict found", "bold green"),
        "conflict": (f"{kinds} found, {finished.confirmed} confirmed on a real engine", "bold red"),
        "vacuous": (
            "Vacuous: the goals of the hunt were not reached, so this proves nothing",
            "bold magenta",
        ),
        "interrupted": (f"Interrupted. {kinds} found so far, all filed", "bold magenta"),
        "failed": ("The hunt could not finish", "bold magenta"),
    }
    words, style = says[finished.outcome]
    work = f"{counted(finished.schedules, 'schedule')}, {counted(finished.primitive_events, 'event')}, {finished.seconds:.0f} s"
    return Text.assemble((words, style), f" ({work}; exit {finished.exit_code})")
