"""``fuzzkv accept --target vllm``: whether a user's class that plugs into vLLM keeps the rules, called alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fuzzkv.cli.shared import console
from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT, UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from fuzzkv.targets.vllm.plugin.check import Checked

EXAMPLES = 3000
"""Sequences of calls, if nothing else is said."""


def accept_code(policies: str, *, seed: int, examples: int | None, no_color: bool) -> int:
    """Exercise each class of a comma list and print a table of its rules; the exit code.

    Raises ``UsageError`` for a name that is no path to a class (FKV003).
    """
    from fuzzkv.core.options import parse_policies
    from fuzzkv.targets.vllm.plugin.check import check_code
    from fuzzkv.targets.vllm.plugin.loading import is_engine_path, load

    names = parse_policies(policies)
    for name in names:
        if not is_engine_path(name):
            raise UsageError(
                code="FKV003",
                value=repr(name),
                reason="is no path to a class of your own, and only such code is called alone",
                cure="Write pkg.module:Class or path/to/file.py:Class; the engine's own policies are tried by a hunt.",
            )
    codes = []
    for name in names:
        code = load(name)
        checked = check_code(code, seed=seed, examples=EXAMPLES if examples is None else examples)
        console(no_color).print(_table(f"{name} ({code.kind})", checked, code.kind))
        words = ("kept", "broken", "not exercised")
        click.echo(f"{name}: " + ", ".join(f"{checked.count(word)} rules {word}" for word in words))
        if checked.unsteady:
            click.echo("Equal calls got different answers, so rules that compare two objects weren't tested.")
        if code.kind == "KVConnector":
            click.echo(
                "A connector can't be called alone: watch it in an engine of yours (docs/engine-code.md)."
            )
        for one in checked.judged:
            if one.broken is not None:
                click.echo(f"\n{one.rule.id} ({one.rule.invariant}): {one.broken.violation.text}")
                click.echo(f"stated in vllm/{one.rule.module}, {one.rule.symbol or 'the module'}; the calls:")
                for line in one.broken.calls:
                    click.echo(f"    {line}")
        codes.append(_exit_code(checked))
    return EXIT_CONFLICT if EXIT_CONFLICT in codes else max(codes)


def _exit_code(checked: Checked) -> int:
    if checked.count("broken"):
        return EXIT_CONFLICT
    return EXIT_CLEAN if checked.count("kept") else EXIT_ENVIRONMENT


def _table(title: str, checked: Checked, kind: str) -> Table:
    """A row a rule; what vLLM's own manager around a cache policy keeps goes without saying."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in ("rule", "verdict", "tested", "what it asks"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "tested" else "left")
    styles = {"kept": "green", "broken": "bold red", "not exercised": "yellow"}
    for one in checked.judged:
        if kind == "CachePolicy" and one.rule.keeper != kind and one.verdict != "broken":
            continue
        verdict = f"[{styles[one.verdict]}]{one.verdict}[/]"
        text = one.rule.text + ("" if one.rule.said else " (relied on, nowhere stated)")
        table.add_row(one.rule.id, verdict, f"{one.times:,}", text)
    return table
