"""Options, progress and the console: shared by all commands, so that the same flag means the same thing."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 10.0
"""Seconds between two lines of progress where standard error is no terminal."""
VERBOSITY: Final = "fuzzkv.verbosity"
"""Where the context of a command keeps what ``-q`` and ``-v`` say."""
Command = TypeVar("Command", bound=Callable[..., Any])


class Live:
    """Progress of a long command on standard error: on a terminal a line that overwrites itself, else one now and then.

    With ``-q`` there is none; with ``-v`` every step is a line of its own.
    """

    def __init__(self) -> None:
        self.printed = time.monotonic()
        self.verbosity = verbosity()
        self.redrawn = sys.stderr.isatty() and self.verbosity == 0
        self.width = shutil.get_terminal_size().columns - 1

    def __call__(self, text: str) -> None:
        if self.verbosity < 0:
            return
        if self.redrawn:
            click.echo(f"\r{text[: self.width]:<{self.width}}", nl=False, err=True)
        elif self.verbosity > 0 or time.monotonic() - self.printed > EVERY:
            self.printed = time.monotonic()
            click.echo(text, err=True)

    def end(self) -> None:
        """Clear the line."""
        if self.redrawn:
            click.echo("\r" + " " * self.width + "\r", nl=False, err=True)


def verbosity() -> int:
    """-1 with ``-q``, 1 with ``-v``, else 0; given before or after the command's name."""
    context = click.get_current_context(silent=True)
    return 0 if context is None else int(context.meta.get(VERBOSITY, 0))


def output_options(command: Command) -> Command:
    """``-q`` and ``-v``, on every command that shows progress; :func:`verbosity` reads them."""

    def kept(value: int) -> Callable[[click.Context, click.Parameter, bool], None]:
        def keep(ctx: click.Context, param: click.Parameter, given: bool) -> None:
            if given:
                ctx.meta[VERBOSITY] = value

        return keep

    quiet = click.option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=kept(-1),
        help="Results only, no progress.",
    )
    verbose = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=kept(1),
        help="Every step of the progress.",
    )
    return quiet(verbose(command))


def no_color_option(command: Command) -> Command:
    """``--no-color``, on every command that prints."""
    return click.option("--no-color", is_flag=True, help="No colour (NO_COLOR does the same).")(command)


def json_option(command: Command) -> Command:
    """``--json``, on every command whose result is data."""
    return click.option("--json", "as_json", is_flag=True, help="The result as JSON instead of text.")(
        command
    )


def seed_option(default: int = 0) -> Callable[[Command], Command]:
    """``--seed``."""

    def checked(ctx: click.Context, param: click.Parameter, value: int) -> int:
        if not 0 <= value < 2**63:
            raise click.BadParameter(f"{value} is not in the range 0 to 2**63 - 1.", ctx, param)
        return value

    return click.option(
        "--seed",
        type=int,
        callback=checked,
        default=default,
        show_default=True,
        metavar="N",
        help="Same seed, same schedules.",
    )


def max_time_option(default: str | None, help: str, *, otherwise: str = "") -> Callable[[Command], Command]:
    """``--max-time``; ``help`` says what it is the time of, ``otherwise`` what holds without it if there is no default."""
    return click.option(
        "--max-time",
        default=default,
        show_default=True,
        metavar="TIME",
        help=f"{help}: 90s, 10m or 1h." + (f"  [default: {otherwise}]" if otherwise else ""),
    )


def max_examples_option(help: str, *, otherwise: str) -> Callable[[Command], Command]:
    """``--max-examples``; ``otherwise`` says how many there are without it."""
    return click.option(
        "--max-examples",
        type=click.IntRange(1),
        default=None,
        metavar="N",
        help=f"{help}  [default: {otherwise}]",
    )


def device_option(command: Command) -> Command:
    """``--device``."""
    return click.option(
        "--device",
        type=click.Choice(["cpu", "cuda"]),
        default="cpu",
        show_default=True,
        help="What the engine runs on.",
    )(command)


def contract_option(command: Command) -> Command:
    """``--contract``."""
    return click.option(
        "--contract",
        type=click.Choice(["observe", "enforce"]),
        default="observe",
        show_default=True,
        help="Only watch what the policies do, or refuse what breaks the contract.",
    )(command)


def policies_option(default: str) -> Callable[[Command], Command]:
    """``--policies``: who takes part."""
    return click.option(
        "--policies",
        default=default,
        show_default=True,
        metavar="LIST",
        help="Names, or pkg.module:NAME, between commas.",
    )


def allow_option(command: Command) -> Command:
    """``--policies`` of commands that read a case: code that the case names is imported only if it is named here."""
    return click.option(
        "--policies",
        default="",
        metavar="LIST",
        help="Allow policies that the case names: pkg.module:NAME.  [default: those of fuzzkv]",
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
        metavar="DIR",
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


def say(out: Console, text: str) -> None:
    """Print plain lines: whole into a file or pipe, with hanging indents on a terminal."""
    from fuzzkv.report.summary import hanging

    out.print(hanging(text, out.width) if out.is_terminal else text, markup=False, soft_wrap=True)


def invariant_names() -> Mapping[str, str]:
    """Invariant ids to names, from the contract."""
    from fuzzkv.semantics.contract.invariants import BY_ID

    return {ident: invariant.name for ident, invariant in BY_ID.items()}
