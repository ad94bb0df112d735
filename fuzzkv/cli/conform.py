"""``fuzzkv conform``: the same schedules on an engine and on the model."""

from __future__ import annotations

import sys
from typing import Any

import click

from fuzzkv.cli.pages import examples
from fuzzkv.cli.shared import (
    Live,
    console,
    json_option,
    max_time_option,
    no_color_option,
    output_options,
    seed_option,
)


@click.command(
    epilog=examples(
        "fuzzkv conform --max-time 60s", "fuzzkv conform --policies vllm:offload-arc,vllm:prefix-cache"
    )
)
@click.option("--target", default="vllm", show_default=True, help="vllm, or another release (vllm@0.31.0).")
@click.option(
    "--policies",
    default="",
    metavar="LIST",
    help="The engine's policies; all sets of up to three are run.  [default: those of docs/conformance.md]",
)
@max_time_option("60s", "Time for all sets together, starts of engines apart")
@seed_option()
@json_option
@no_color_option
@output_options
def conform(target: str, policies: str, max_time: str, seed: int, as_json: bool, no_color: bool) -> None:
    """Hold an engine's page events against the model.

    Random small schedules run on a live engine; its page-event log is made again on the model, act by act, and after
    every step both say where every page is. Differences that a known gap of the model explains are counted under its
    name; all others are shown with the shrunk schedule. Exit 0: everything is explained; 1: something isn't; 3: the
    engine can't start, or a set was never looked at. See docs/conformance.md.
    """
    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.core.options import parse_policies, parse_seconds
    from fuzzkv.targets.environments import find
    from fuzzkv.targets.vllm.conform import conformance as way
    from fuzzkv.targets.vllm.pool.fork_server import ForkServer
    from fuzzkv.targets.vllm.pool.process import EngineProcess

    chosen = way.chosen(parse_policies(policies) if policies else way.USUAL)
    seconds = parse_seconds(max_time)
    environment = find(target)
    engine = environment.required("cpu")
    live = Live()
    fork_server = ForkServer(environment.interpreter)

    def start(config: Any) -> EngineProcess:
        command = fork_server.command() if fork_server.ready() else None
        return EngineProcess(
            config, watchers=(way.LOOKING,), interpreter=environment.interpreter, command=command
        )

    try:
        rows = way.conformance(chosen, start, seed=seed, seconds=seconds, tell=live)
    finally:
        fork_server.close()
    live.end()
    report = way.report(rows, engine=engine, seed=seed)
    if as_json:
        click.echo(file_bytes(report).decode("ascii"), nl=False)
    else:
        show(report, rows, console(no_color))
    sys.exit(report["exit_code"])


def show(report: dict[str, Any], rows: Any, out: Any) -> None:
    """A table of the sets, one of the known gaps, and what nothing explains."""
    from rich.table import Table

    from fuzzkv.core.glossary import counted
    from fuzzkv.targets.vllm.conform.differences import CLASSES

    table = Table(title=f"{report['engine']} against the model")
    table.add_column("set", min_width=14)
    for column in ("runs", "events", "looks", "cut", *CLASSES, "not explained"):
        table.add_column(column, justify="right")
    for row in rows:
        by_class = [row.of_class(kind) for kind in CLASSES]
        numbers = (row.schedules, row.events, row.looks, row.cut.total(), *by_class, len(row.unexplained))
        table.add_row(row.name, *map(str, numbers))
    out.print(table)
    gaps = Table("known gap", "class", "met", "why", title="Explained differences")
    for gap in report["gaps"]:
        gaps.add_row(gap["name"], gap["class"], str(gap["met"]), gap["reason"])
    out.print(gaps)
    for row in rows:
        for one in row.unexplained:
            out.print(
                f"{row.name}: {one['class']} ({one['what']}) at step {one['step']}: {one['text']}",
                markup=False,
            )
            out.print(f"  {one['schedule']}", markup=False)
    total = f"{report['explained']} differences explained, {report['unexplained']} not."
    out.print(
        f"{counted(report['schedules'], 'schedule')}, {counted(report['page_events'], 'page event')}. {total}"
    )
