"""The screen of the metadata report: a row for each field, a pair of traces for each that is needed, and a row for
each case.

It is made from the plain report (see :mod:`fuzzkv.metadata.metadata_report`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from textwrap import wrap as _wrap
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

wrap = partial(_wrap, break_on_hyphens=False)

VERDICTS: Final = {
    "needed": "bold red",
    "needed, any neighbour": "bold red",
    "one of several": "magenta",
    "replaceable (bounded)": "green",
    "no part": "dim",
}
"""Verdicts and how they look."""


def necessity_page(report: Mapping[str, Any], *, width: int = 100) -> RenderableType:
    """The whole page."""
    labels = {case["id"]: case["label"] or case["id"] for case in report["cases"]}
    parts: list[RenderableType] = [_pieces(report, labels), Text()]
    for piece in report["pieces"]:
        if piece["pair"]:
            parts += [Text(line) for line in pair_lines(piece, width)] + [Text()]
    parts += [_cases(report), Text()]
    return Group(*parts, *(Text(line) for line in closing(report, width)))


def _table(*columns: str) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold"
    )
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _pieces(report: Mapping[str, Any], labels: Mapping[str, str]) -> Table:
    table = _table("piece", "verdict", "shown in", "takes part in, but is not missed: seen instead")
    for piece in report["pieces"]:
        shown = ", ".join(labels[ident] for ident in piece["shown"])
        table.add_row(
            Text(piece["name"], style="bold"),
            Text(piece["verdict"], style=VERDICTS[piece["verdict"]]),
            Text(shown),
            Text("; ".join(_told(piece, labels))),
        )
    return table


def _told(piece: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[str]:
    """What tells the acts apart in the cases in which a piece takes part and is not needed, each once."""
    by_text: dict[str, list[str]] = {}
    for told in piece["told"]:
        text = told["text"].split(":")[0]
        by_text.setdefault(f"{text} ({told['piece']})" if told["piece"] else text, []).append(
            labels[told["case"]]
        )
    for text, cases in by_text.items():
        yield f"{', '.join(dict.fromkeys(cases))}: {text}"


def pair_lines(piece: Mapping[str, Any], width: int) -> list[str]:
    """The two traces that prove that a piece is needed."""
    pair = piece["pair"]
    call = f"{pair['primitive']}({', '.join(map(str, pair['arguments']))})"
    others = [name for name in pair["pieces"] if name != piece["name"]]
    but = f" but {' and '.join(pair['pieces'])}" if others else f" but {piece['name']}"
    head = f"{piece['name']}: {pair['policy']} is about to {call} and sees the same in both traces of {pair['case']}{but}"
    lines = wrap(head, width, subsequent_indent="  ")
    for which, word in (("refused", "refuse"), ("allowed", "allow")):
        trace = pair[which]
        text = schedule_text(trace["schedule"], trace["event"])
        lines += wrap(text, width, initial_indent=f"  {word:<8}", subsequent_indent=" " * 10)
        if trace["others"]:
            beside = "; ".join(f"{name} {how}" for name, how in trace["others"])
            lines += wrap(f"where {beside}", width, initial_indent=" " * 10, subsequent_indent=" " * 10)
    differ = "; ".join(f"{name} {a} / {b}" for name, a, b in pair["differ"])
    lines += wrap(
        differ or "in no simple fact", width, initial_indent="  differ  ", subsequent_indent=" " * 10
    )
    return lines


def schedule_text(schedule: Sequence[Sequence[Any]], at: int) -> str:
    """A schedule on one line, the event of the act marked."""
    rows = []
    for i, (op, a, b) in enumerate(schedule):
        text = f"{op} {a}" if op in ("act", "tick", "finish", "pause") else f"{op} {a} {b}"
        rows.append(f"[{text}]" if i == at else text)
    return "; ".join(rows)


def _cases(report: Mapping[str, Any]) -> Table:
    table = _table("case", "conflict", "acts", "to be told, or seen anyway")
    for case in report["cases"]:
        who = f" by {case['actor']}" if case["actor"] else ""
        conflict = f"{' + '.join(case['policies'])} {case['invariant']} {case['action']}{who}"
        name = f"{case['id']} {case['label']}".strip()
        table.add_row(name, conflict, f"{case['refused']} / {case['allowed']}", Text("; ".join(_needs(case))))
    return table


def _needs(case: Mapping[str, Any]) -> Iterator[str]:
    for pair in case["pairs"]:
        yield f"told: {' or '.join(pair['pieces'])}"
    for pair in case["strange"]:
        yield f"told, any neighbour: {' or '.join(pair['pieces'])}"
    if not (case["pairs"] or case["strange"]):
        for fact in case["facts"]:
            yield f"no pair; {fact['piece'] or 'seen'}: {fact['text']}"
    if not (case["pairs"] or case["strange"] or case["facts"]):
        yield "no pair, and no simple fact" if case["refused"] else "no act was met that breaks it by itself"


def closing(report: Mapping[str, Any], width: int) -> list[str]:
    """What it comes to, within which bound, and what was left out."""
    counts = {name: sum(case[name] for case in report["cases"]) for name in ("looked", "refused")}
    bound = report["bound"]
    least = " or ".join(", ".join(chosen) for chosen in report["least"]) or "nothing"
    lines = [
        f"To be shared at least, so that every pair is told apart: {least}.",
        f"{len(report['cases'])} cases, {counts['looked']:,} schedules near them (seed {bound['seed']}), "
        f"{counts['refused']:,} acts that have to be refused. What is bounded, and what is seen anyway, holds for these schedules; "
        "the pairs are proofs.",
    ]
    by_why: dict[str, list[str]] = {}
    for left in report["left_out"]:
        by_why.setdefault(left["why"], []).append(left["id"])
    lines += [f"{len(ids)} left out ({why}): {', '.join(ids)}." for why, ids in by_why.items()]
    return [row for line in lines for row in wrap(line, width)]
