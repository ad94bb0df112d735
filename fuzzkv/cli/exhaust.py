"""``fuzzkv exhaust``: every schedule of a small scope."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fuzzkv.cli.pages import examples
from fuzzkv.cli.shared import (
    Live,
    console,
    contract_option,
    corpus_option,
    invariant_names,
    max_time_option,
    no_color_option,
    output_options,
    policies_option,
    say,
)
from fuzzkv.policies import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from fuzzkv.modelcheck.exhaust import Conflict, ExhaustResult, SetResult
    from fuzzkv.modelcheck.results import Explored
    from fuzzkv.modelcheck.scope import Scope


@click.command(
    epilog=examples(
        "fuzzkv exhaust --pages 2 --requests 1", "fuzzkv exhaust --policies quant,evict --max-time 2m --file"
    )
)
@policies_option(",".join(DEFAULT[:2]))
@click.option(
    "--pages", type=int, metavar="N", default=3, show_default=True, help="Pages of a session, at most."
)
@click.option(
    "--requests", type=int, metavar="N", default=2, show_default=True, help="Sessions at once, at most."
)
@click.option(
    "--sessions", type=int, metavar="N", default=None, help="Sessions in all.  [default: as --requests]"
)
@click.option(
    "--steps",
    type=int,
    metavar="N",
    default=1,
    show_default=True,
    help="Steps in the place of each session at once, at most.",
)
@click.option(
    "--ticks",
    type=int,
    metavar="N",
    default=2,
    show_default=True,
    help="Times that the device idles, at most.",
)
@click.option(
    "--tick-sizes",
    metavar="LIST",
    default=None,
    help="For how long.  [default: one copy, and the longest age a policy waits for]",
)
@click.option(
    "--faults", type=int, metavar="N", default=0, show_default=True, help="Failed and late copies, at most."
)
@click.option(
    "--extra",
    type=int,
    metavar="N",
    default=1,
    show_default=True,
    help="Events of each kind that the policies ask for beyond the usual, at most.",
)
@click.option(
    "--device-frames", type=int, metavar="N", default=None, help="Device frames.  [default: as a hunt]"
)
@click.option("--host-frames", type=int, metavar="N", default=None, help="Host frames.  [default: as a hunt]")
@contract_option
@click.option(
    "--memory", metavar="SIZE", default="800M", show_default=True, help="Memory of the whole process."
)
@click.option(
    "--depth",
    type=click.IntRange(1, 400),
    metavar="N",
    default=None,
    help="Events of a schedule, at most.  [default: no bound]",
)
@max_time_option("10m", "Time for all sets together")
@click.option("--file", "file_cases", is_flag=True, help="File the conflicts in the corpus.")
@corpus_option
@no_color_option
@output_options
def exhaust(
    policies: str,
    pages: int,
    requests: int,
    sessions: int | None,
    steps: int,
    ticks: int,
    tick_sizes: str | None,
    faults: int,
    extra: int,
    device_frames: int | None,
    host_frames: int | None,
    contract: str,
    memory: str,
    depth: int | None,
    max_time: str,
    file_cases: bool,
    corpus: Path,
    no_color: bool,
) -> None:
    """Go through every schedule of a small scope.

    Prints the shortest schedule of every class of conflict, or says that there is none. Nothing is written unless
    --file says so. Exit 0: all schedules pass; 1: a conflict; 3: a bound ended the search before it found one, or a
    policy never acted.

    The scope that is set for two default policies is exhausted in a minute or two. One more step or idle time makes it
    ten times as large and more; if the time or the memory ends a search, bounded(k) is about every schedule of up to k
    events.
    """
    from fuzzkv.core.options import parse_policies, parse_seconds
    from fuzzkv.modelcheck.exhaust import exhaust as run
    from fuzzkv.modelcheck.exhaust import parse_memory, parse_sizes
    from fuzzkv.modelcheck.scope import Scope, default_ticks, extras_of
    from fuzzkv.policies.registry import resolve
    from fuzzkv.semantics.schedule import Config

    frames = {"device_frames": device_frames, "host_frames": host_frames}
    config = Config(**{name: count for name, count in frames.items() if count is not None})
    chosen = resolve(parse_policies(policies))
    scope = Scope(
        pages=pages,
        requests=requests,
        sessions=requests if sessions is None else sessions,
        steps=steps,
        ticks=ticks,
        tick_sizes=default_ticks(chosen, config) if tick_sizes is None else parse_sizes(tick_sizes),
        faults=faults,
        extra=extra,
    )
    limit, seconds = parse_memory(memory), parse_seconds(max_time)
    live, out = Live(), console(no_color)

    def heard(names: tuple[str, ...], explored: Explored) -> None:
        live(f"{_set_text(names)}: depth {explored.depth}, {_numbers(explored)}")

    say(out, f"every schedule of {_scope_text(scope)}; contract {contract}, {memory} of memory, {max_time}")
    say(out, _events_text(scope, extras_of(chosen)))
    result = run(
        chosen,
        config,
        scope,
        enforce=contract == "enforce",
        memory=limit,
        depth=depth,
        seconds=seconds,
        corpus=corpus if file_cases else None,
        tell=heard,
    )
    live.end()
    _print(out, result)
    sys.exit(result.exit_code)


def _scope_text(scope: Scope) -> str:
    idle = " or ".join(str(size) for size in scope.tick_sizes)
    parts = [
        f"up to {_many(scope.sessions, 'session')} ({scope.requests} at once) of up to {_many(scope.pages, 'page')}",
        f"{_many(scope.steps, 'step')} each",
        f"{_many(scope.ticks, 'idle time')} of {idle} ticks",
        _many(scope.faults, "fault"),
    ]
    return ", ".join(parts)


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _events_text(scope: Scope, extras: Sequence[int]) -> str:
    kinds = [name if most is None else f"{name} ({most})" for name, most in scope.budgets(extras).items()]
    asked = "" if extras else "; the policies ask for no others"
    pages = f"; steps ask about the first {_many(scope.reach(extras), 'page')}"
    return f"events, with how many of each at most: {', '.join(kinds)}{pages}{asked}"


def _set_text(names: tuple[str, ...]) -> str:
    return " + ".join(names) or "full cache"


def _numbers(explored: Explored) -> str:
    classes = len(explored.witnesses)
    found = "1 class" if classes == 1 else f"{classes} classes"
    return f"{explored.states:,} states, {explored.rate:,.0f} states/s, {found}"


def _print(out: Console, result: ExhaustResult) -> None:
    for found in result.sets:
        say(out, _line(found))
        for conflict in found.conflicts:
            say(out, _conflict(conflict))
    if result.interrupted:
        say(out, "Interrupted: what is above stands, the rest was not searched.")


def _line(found: SetResult) -> str:
    explored = found.explored
    how = f"{explored.merged:,} merged, {explored.checked:,} of these tried out"
    if not explored.relative:
        how = "taken exactly, because these policies tell merged states apart"
    remarks = []
    if explored.ending == "memory":
        remarks.append(f"the memory holds {explored.capacity:,} states")
    elif explored.ending in ("time", "depth"):
        remarks.append(f"the {explored.ending} ended it")
    if found.idle:
        remarks.append(f"{' and '.join(found.idle)} never acted: this shows nothing about it")
    if len(found.policies) == 1 and found.conflicts:
        remarks.append("single-policy: it fails alone")
    parts = [f"depth {explored.depth}, {_numbers(explored)}", how, *remarks]
    return f"{_set_text(found.policies)}: {found.verdict}: {'; '.join(parts)}"


def _conflict(conflict: Conflict) -> str:
    kind = conflict.finding.failure_class
    schedule = conflict.recipe.schedule
    rows = [f"{name} {' '.join(str(x) for x in rest)}" for name, *rest in schedule.as_json()]
    head = f"  {kind.invariant} ({invariant_names()[kind.invariant]}) in {len(rows)} events: {conflict.title}"
    filed = [f"    filed as {conflict.case['id']}"] if conflict.case else []
    return "\n".join([head, f"    {'; '.join(rows)}", *filed])
