"""An explanation as text, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuzzkv.core.glossary import joined
from fuzzkv.explain.graph import Explanation, Tie, all_ties

SCHEMA_VERSION = 1


def as_text(found: Explanation) -> str:
    """Plain text: names are bound, what happened is numbered, each thing comes before another because of something,
    however ... a contradiction.
    """
    lines = [f"{found.case}: {found.headline}.", "", _names(found), *_listed(found, "  ({n}) "), ""]
    lines += found.sentences()
    lines += [*_apart(found), _however(found), "", "Each part passes under the same schedule:"]
    lines += [f"  {line}." for line in found.controls]
    for part in (found.refusing, found.guard):
        if part:
            lines += ["", *part]
    return "\n".join(lines)


def as_markdown(found: Explanation) -> str:
    """The same with headings and lists."""
    lines = [f"## {found.case}: {found.headline}", "", _names(found), "", *_listed(found, "{n}. "), ""]
    lines += [f"- {line}" for line in found.sentences()]
    lines += [f"- {line}" for line in _apart(found)]
    lines += ["", f"**{_however(found)}**", "", "Each part passes under the same schedule:", ""]
    lines += [f"- {line}." for line in found.controls]
    for title, part in (("What would have refused it", found.refusing), ("Guard", found.guard)):
        if part:
            lines += ["", f"### {title}", "", *[f"- {line.strip()}" for line in part]]
    return "\n".join(lines) + "\n"


def as_json(found: Explanation) -> dict[str, Any]:
    """Nodes, edges with their witnesses, the chain, its sentences, the arms, the refusing clauses and the guard."""
    numbers = found.numbers
    chosen = set(found.chain.ties)
    return {
        "schema_version": SCHEMA_VERSION,
        "id": found.case,
        "headline": found.headline,
        "invariant": found.invariant,
        "rule": found.rule,
        "names": [{"name": name, "is": what} for name, what in found.names],
        "nodes": [{**found.act(n).as_json(), "listed": numbers.get(n, 0)} for n in sorted(found.graph)],
        "edges": [{**_edge(found, tie), "in_chain": tie in chosen} for tie in all_ties(found.graph)],
        "chain": {
            "broke": found.chain.broke,
            "event": found.act(found.chain.broke).event,
            "listed": list(found.chain.listed),
            "edges": [_edge(found, tie) for tie in found.chain.ties],
            "apart": list(found.chain.apart),
        },
        "sentences": [*found.sentences(), _however(found)],
        "arms": list(found.controls),
        "refusing": None if found.refusing is None else list(found.refusing),
        "guard": None if found.guard is None else list(found.guard),
    }


def _edge(found: Explanation, tie: Tie) -> dict[str, Any]:
    first, then = found.act(tie.first), found.act(tie.then)
    return {
        "from": tie.first,
        "to": tie.then,
        "kind": tie.kind,
        "about": tie.about,
        "witness": [first.event, then.event],
        "cells": list(tie.cells),
    }


def _names(found: Explanation) -> str:
    """``Let p and q be pages 1 and 3 of session 0, and u be page 0 of session 1. Then:``"""
    of: dict[str, list[tuple[str, str]]] = {}
    for name, what in found.bound:
        noun, number, whose = what.split(" ", 2)
        of.setdefault(f"{noun} {whose}", []).append((name, number))
    said = []
    for what, bound in of.items():
        noun, whose = what.split(" ", 1)
        names, numbers = joined([name for name, _ in bound]), joined([number for _, number in bound])
        said.append(f"{names} be {noun}{'s' if len(bound) > 1 else ''} {numbers} {whose}")
    return f"Let {joined(said)}. Then:" if said else "What happened:"


def _listed(found: Explanation, form: str) -> Sequence[str]:
    lines = []
    for n, number in found.numbers.items():
        act = found.act(n)
        when = f"{found.unit} {act.time}" if act.time >= 0 else f"before the first {found.unit}"
        lines.append(f"{form.format(n=number)}event {act.event}, {when}: {act.text}.")
    return lines


def _apart(found: Explanation) -> list[str]:
    number = found.numbers[found.chain.broke]
    return [
        f"No dependency of this run leads from what {name} did to ({number}); that it takes part is shown by the arms below."
        for name in found.chain.apart
    ]


def _however(found: Explanation) -> str:
    return f"However, {found.because}: a contradiction."
