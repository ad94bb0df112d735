"""The command line: thin. Each command parses options, calls one function and prints what that returns.

One module a group of commands; heavy modules are imported inside the commands, so that ``fuzzkv --help``
answers at once. Exit codes: 0 clean, 1 a conflict (or a case that still fails), 2 wrong use, 3 the environment
failed or the run proves nothing, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from fuzzkv import __version__
from fuzzkv.cli import (
    audit,
    cases,
    conform,
    corpus,
    exhaust,
    explaining,
    gate,
    hunt,
    necessity,
    policies,
    targets,
    verify,
)
from fuzzkv.cli.pages import Sections, examples
from fuzzkv.cli.shared import output_options
from fuzzkv.errors import (
    EXIT_CLEAN,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EnvironmentFailure,
    FuzzkvError,
    UsageError,
)


@click.group(
    cls=Sections,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "fuzzkv hunt --no-confirm --max-time 60s",
        "fuzzkv corpus ls",
        "fuzzkv explain S2",
        "fuzzkv COMMAND --help",
    ),
)
@output_options
@click.version_option(__version__, prog_name="fuzzkv")
def app() -> None:
    """Find where KV-cache policies, each passing alone, break together.

    Exit codes: 0 nothing found; 1 a conflict, or a case that still fails; 2 wrong use; 3 the environment failed or the run
    proves nothing; 130 Ctrl-C.
    """


for command in (
    hunt.hunt,
    gate.gate,
    exhaust.exhaust,
    verify.verify,
    verify.shrink,
    necessity.necessity,
    cases.replay,
    explaining.explain,
    audit.audit,
    conform.conform,
    policies.policies,
    policies.accept,
    corpus.corpus,
    targets.targets,
    policies.doctor,
):
    app.add_command(command)


def main() -> NoReturn:
    """Entry point of ``fuzzkv``: turns every error into one line on standard error and an exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app.main(standalone_mode=False, prog_name="fuzzkv")
        code = EXIT_CLEAN
    except FuzzkvError as error:
        click.echo(error.render(), err=True)
        code = error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = EXIT_USAGE
    except click.ClickException as error:
        click.echo(_as_ours(error).render(), err=True)
        code = EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted.", err=True)
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_CLEAN
    except Exception as error:  # a fault of fuzzkv itself: one line too
        if os.environ.get("FUZZKV_DEBUG") == "1":
            click.echo(traceback.format_exc(), err=True, nl=False)
        fault = _internal(error)
        click.echo(fault.render(), err=True)
        code = fault.exit_code
    sys.exit(code)


def _internal(error: Exception) -> FuzzkvError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:300]
    return EnvironmentFailure(
        code="FKV090",
        value=f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}",
        reason=f"an internal fault of fuzzkv{f' ({text})' if text else ''}",
        cure="Please report it with the command and what FUZZKV_DEBUG=1 shows.",
    )


def _as_ours(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "fuzzkv"
    parameter = getattr(error, "param", None)
    value = f"{path} {parameter.opts[0]}" if parameter is not None and parameter.opts else path
    reason = error.format_message().replace("\n", " ")
    return UsageError(code="FKV030", value=value, reason=reason, cure=f"See '{path} --help'.")


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
