"""Options, the command group that answers typos, and the console: shared by all commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fuzzkv.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 10.0
"""Seconds between two lines of progress where standard error is no terminal."""
Command = TypeVar("Command", bound=Callable[..., Any])


class Group(click.Group):
    """A command group that answers a typo with the nearest command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UsageError(
                code="FKV031",
                value=f"{ctx.command_path} {args[0]}",
                reason="there is no such command",
                cure=did_you_mean(args[0], self.list_commands(ctx)),
            )
        return super().resolve_command(ctx, args)


class Live:
    """Where a long command is, on standard error: a line that overwrites itself on a terminal, else one now and then."""

    def __init__(self) -> None:
        self.printed = time.monotonic()

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{text[:110]:<110}", nl=False, err=True)
        elif time.monotonic() - self.printed > EVERY:
            self.printed = time.monotonic()
            click.echo(text, err=True)

    def end(self) -> None:
        """Clear the line."""
        if sys.stderr.isatty():
            click.echo("\r" + " " * 110 + "\r", nl=False, err=True)


def no_color_option(command: Command) -> Command:
    """``--no-color``, on every command that prints."""
    return click.option("--no-color", is_flag=True, help="No colour (NO_COLOR does the same).")(command)


def allow_option(command: Command) -> Command:
    """``--policies`` of commands that read a case: code that the case names is imported only if it is named here."""
    return click.option(
        "--policies", default="", help="Allow policies that the case names: pkg.module:NAME."
    )(command)


def allowed(policies: str) -> Any:
    """The policies that ``--policies`` allows."""
    from fuzzkv.core.options import parse_policies
    from fuzzkv.policies.registry import resolve

    return resolve(parse_policies(policies)) if policies else ()


def corpus_option(command: Command) -> Command:
    """``--corpus``."""
    return click.option(
        "--corpus",
        type=click.Path(path_type=Path),
        default=Path("corpus"),
        envvar="FUZZKV_CORPUS",
        show_default=True,
        help="Folder of the case files.",
    )(command)


def database_option(command: Command) -> Command:
    """``--database``: where Hypothesis remembers schedules that failed."""

    def opened(ctx: click.Context, param: click.Parameter, value: str) -> Path | None:
        from fuzzkv.simulator.bulk.store import cache_folder

        if value == "none":
            return None
        return Path(value) if value else cache_folder() / "examples"

    return click.option(
        "--database",
        default="",
        envvar="FUZZKV_DATABASE",
        callback=opened,
        metavar="DIR",
        help="Hypothesis' example database: what failed before is tried first (none: off).  [default: in the cache]",
    )(command)


def observe_option(command: Command) -> Command:
    """``--observe``."""
    return click.option(
        "--observe",
        type=click.Path(path_type=Path),
        default=None,
        metavar="DIR",
        help="Write what Hypothesis generates there, in the schema of its observability.",
    )(command)


def console(no_color: bool) -> Console:
    """A console on standard output."""
    from fuzzkv.report.console import make_console

    return make_console(no_color=no_color)


def invariant_names() -> Mapping[str, str]:
    """Invariant ids to names, from the contract."""
    from fuzzkv.semantics.contract.invariants import BY_ID

    return {ident: invariant.name for ident, invariant in BY_ID.items()}
