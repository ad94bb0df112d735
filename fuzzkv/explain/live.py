"""Explains a case of live vLLM from the page-event log that it carries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuzzkv.core.glossary import counted, joined
from fuzzkv.errors import UsageError
from fuzzkv.explain.graph import CausalChain, Explanation, HistoryNode, make_graph
from fuzzkv.explain.lanes import live_stage
from fuzzkv.explain.links import chain, completed
from fuzzkv.explain.live_run import BREAKS, MISCOPIED, LiveRun
from fuzzkv.explain.page_rows import PageRow, rows_of, said
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.targets.vllm.policies import BY_NAME


def explain_live(case: Mapping[str, Any]) -> Explanation:
    """The explanation of a live case.  Raises ``UsageError`` (FKV105) for one that carries no log."""
    if "history" not in case:
        raise UsageError(
            code="FKV105",
            value=str(case["id"]),
            reason="it carries no page-event log to explain it from",
            cure=f"Where the engine is installed: fuzzkv replay {case['id']} --keep-log.",
        )
    names = tuple(case["class"]["policies"])
    exercised = {name: BY_NAME[name].exercised if name in BY_NAME else ("stores", "loads") for name in names}
    rows, broke = _with_breach(
        rows_of(case["history"]["log"], case["schedule"], exercised), case["violation"]
    )
    run = LiveRun(rows)
    invariant = BY_ID[case["class"]["invariant"]]
    links = run.links
    found, apart = completed(
        links, chain(links, broke, invariant.id, None), broke, lambda n: rows[n].actor, names
    )
    listed = {broke, *(n for link in found for n in (link.first, link.then))}
    listed |= {n for n in range(broke) if rows[n].what in ("arrive", "abort", "reset")}
    listed |= {max((n for n in range(broke) if rows[n].actor == name), default=broke) for name in apart}
    # The oracle counts the blocks of a request; a number alone is a block of the pool here.
    text = re.sub(r"^block (\d+) of", r"logical block \1 of", str(case["violation"].get("text", "")))
    ties = [run.tie(link) for link in found]
    acts = [_act(row, text) for row in rows]
    graph = make_graph(acts, [run.tie(link) for link in links])
    told = {
        name: thing for name, thing in run.names.things.items() if thing in {run.page_of(x) for x in found}
    }
    hosts = frozenset(int(link.about[-1]) for link in found if "host" in link.about)
    return Explanation(
        case=str(case["id"]),
        headline=f"{joined([n.removeprefix('vllm:') for n in names])} break {invariant.id} ({invariant.name}) together "
        f"in {case['engine']}",
        invariant=invariant.id,
        rule=invariant.rule,
        names=tuple(run.names.bound),
        graph=graph,
        chain=CausalChain(broke, tuple(sorted(listed)), tuple(ties), tuple(apart)),
        clash=f"at ({sorted(listed).index(broke) + 1}) it is found otherwise ({text})",
        controls=tuple(_control(arm) for arm in case["history"]["arms"] if len(arm["policies"]) < len(names)),
        unit="step",
        stage=live_stage(run, told, hosts, broke),
    )


def _with_breach(rows: Sequence[PageRow], violation: Mapping[str, Any]) -> tuple[list[PageRow], int]:
    """The rows with one more where the violation was seen: after the last row of its engine step."""
    step = int(violation["step"]) - 1
    last = max((row.number for row in rows if row.step <= step), default=len(rows) - 1)
    if violation["primitive"] == "token":
        ends = [
            r.number
            for r in rows
            if r.what in ("finish", "abort") and r.numbers[:1] == (violation["request"],)
        ]
        last = ends[0] if ends else len(rows) - 1
    before = rows[last]
    name = MISCOPIED if violation["primitive"] == MISCOPIED else BREAKS
    seen = PageRow(
        last + 1, name, (int(violation["request"]), int(violation["page"])), before.event, before.step, ""
    )
    later = [replace(row, number=row.number + 1) for row in rows[last + 1 :]]
    return [*rows[: last + 1], seen, *later], last + 1


def _act(row: PageRow, text: str) -> HistoryNode:
    if row.what in (BREAKS, MISCOPIED):
        request, page = row.numbers
        who = f"request {request}" if request >= 0 else "the engine"
        where = f"{'host page' if row.what == MISCOPIED else 'block'} {page}"
        what = f"{who} meets {where} as it shouldn't be ({text})" if page >= 0 else text
        return HistoryNode(
            row.number, row.event, row.step, "", row.what, what, lane=_lane(row), short="reads"
        )
    return HistoryNode(
        row.number, row.event, row.step, row.actor, row.what, said(row), lane=_lane(row), short=_short(row)
    )


def _lane(row: PageRow) -> str:
    if row.what in (
        "arrive",
        "abort",
        "finish",
        "alloc",
        "hit",
        "free",
        "window",
        "preempt",
        BREAKS,
        MISCOPIED,
    ):
        return f"request {row.numbers[0]}" if row.numbers[0] >= 0 else "engine"
    return "engine"


def _short(row: PageRow) -> str:
    return (
        f"{row.what[:-1]} {row.numbers[0]} ends"
        if row.what in ("store-", "load-")
        else _SHORT.get(row.what, row.what)
    )


_SHORT = {
    "window": "frees",
    "free": "frees",
    "alloc": "gets blocks",
    "offer": "announces",
    "store+": "stores",
    "load+": "loads",
}


def _control(arm: Mapping[str, Any]) -> str:
    names = [str(name) for name in arm["policies"]]
    who = (
        "the plain engine"
        if not names
        else f"{joined(names)}{' alone' if len(names) == 1 else ' without the rest'}"
    )
    acted = [counted(n, name.replace("_", " ").removesuffix("s")) for name, n in arm["counters"].items()]
    did = f" ({', '.join(acted)})" if acted else ""
    return (
        f"{who}: {counted(arm['requests'], 'request')} with {counted(arm['tokens'], 'token')} in "
        f"{counted(arm['steps'], 'step')}{did}, each token that of an isolated run and every page as it should be"
    )
