"""The command line: thin. It parses options, calls one function and prints what that returns.

Heavy modules are imported inside the commands, so that ``fuzzkv --help`` answers at once. Exit codes: 0
clean, 1 a conflict (or a case that still fails), 2 wrong use, 3 the environment failed or the run proves
nothing, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from fuzzkv import __version__
from fuzzkv.errors import (
    EXIT_CLEAN,
    EXIT_CONFLICT,
    EXIT_ENVIRONMENT,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EnvironmentFailure,
    FuzzkvError,
    UsageError,
    did_you_mean,
)

if TYPE_CHECKING:
    from rich.console import Console


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
    from fuzzkv.options import parse_policies
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


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fuzzkv")
def app() -> None:
    """Find where KV-cache policies, each passing alone, break together."""


@app.command()
@click.option(
    "--policies", default="offload,quant,evict", show_default=True, help="Names or pkg.module:NAME."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Same seed, same cases."
)
@click.option("--max-examples", type=click.IntRange(1), default=None, help="Schedules to search.")
@click.option("--max-time", default=None, help="Time to search: 90, 90s, 10m or 1h.")
@click.option("--contract", type=click.Choice(["observe", "enforce"]), default="observe", show_default=True)
@click.option("--no-confirm", is_flag=True, help="Do not confirm on a real engine.")
@click.option("--confirm-time", default="360s", show_default=True, help="Time for all confirmations.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option(
    "--report-dir", type=click.Path(path_type=Path), default=None, help="Write events.ndjson there."
)
@corpus_option
@no_color_option
def hunt(
    policies: str,
    seed: int,
    max_examples: int | None,
    max_time: str | None,
    contract: Any,
    no_confirm: bool,
    confirm_time: str,
    device: str,
    report_dir: Path | None,
    corpus: Path,
    no_color: bool,
) -> None:
    """Find, shrink, confirm and file conflicts."""
    from fuzzkv.options import HuntOptions, parse_policies, parse_seconds

    options = HuntOptions(
        policies=parse_policies(policies),
        seed=seed,
        max_examples=max_examples,
        max_time=parse_seconds(max_time) if max_time is not None else None,
        contract=contract,
        confirm=not no_confirm,
        confirm_time=parse_seconds(confirm_time, "--confirm-time"),
        device=device,
        corpus=corpus,
        report_dir=report_dir,
    )
    from fuzzkv.report.session import Session

    with Session(no_color=no_color, report_dir=report_dir, names=invariant_names()) as session:
        from fuzzkv.hunt import hunt as run

        try:
            result = run(options, session.listeners)
        except KeyboardInterrupt:
            session.interrupted()
            sys.exit(EXIT_INTERRUPTED)
        except FuzzkvError as error:
            session.failed(error)
            raise
    sys.exit(result.exit_code)


@app.command()
@click.argument("case")
@click.option("--target", type=click.Choice(["model", "vllm"]), default="model", show_default=True)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@allow_option
@corpus_option
@no_color_option
def replay(case: str, target: str, device: str, policies: str, corpus: Path, no_color: bool) -> None:
    """Run a CASE (id, file or folder) again: exit 1 if it still fails."""
    from fuzzkv.corpus import find_case, load_corpus
    from fuzzkv.report.session import Session

    if case.strip() and os.path.isdir(case):
        cases = load_corpus(case)
        if not cases:
            raise EnvironmentFailure(
                code="FKV016", value=case, reason="the folder has no case to replay", cure="Hunt first."
            )
    else:
        cases = [find_case(case, corpus)]
    codes = []
    chosen = allowed(policies)
    with Session(no_color=no_color, report_dir=None, names=invariant_names()) as session:
        from fuzzkv.confirming import replay_case

        for item in cases:
            result = replay_case(item, target, device=device, policies=chosen, listeners=session.listeners)
            session.line(f"{item['id']} on {target}: {result.verdict}. {result.detail}".rstrip(". ") + ".")
            codes.append(
                EXIT_ENVIRONMENT if result.fails is None else EXIT_CONFLICT if result.fails else EXIT_CLEAN
            )
    sys.exit(EXIT_CONFLICT if EXIT_CONFLICT in codes else max(codes, default=EXIT_CLEAN))


@app.command()
@click.argument("case")
@allow_option
@corpus_option
@no_color_option
def explain(case: str, policies: str, corpus: Path, no_color: bool) -> None:
    """Say which event broke what, and why.

    It names the clause of the contract that would have refused it.
    """
    from fuzzkv.corpus import find_case

    found = find_case(case, corpus)
    from fuzzkv.explain import explain as tell

    console(no_color).print(tell(found, allowed(policies)), markup=False)


@app.command()
@no_color_option
def policies(no_color: bool) -> None:
    """List the policies that are installed."""
    from fuzzkv.policies.registry import survey
    from fuzzkv.report.listing import policy_listing

    found, broken = survey()
    console(no_color).print(policy_listing(list(found.values())))
    for error in broken:
        click.echo(error.render(), err=True)


@app.command()
@click.option(
    "--policies", default="offload,quant,evict", show_default=True, help="Names or pkg.module:NAME."
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
@click.option(
    "--max-examples",
    type=click.IntRange(1),
    default=2_000_000,
    show_default=True,
    help="Schedules for each policy.",
)
@click.option("--no-engine", is_flag=True, help="On the model only.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("acceptance.json"),
    show_default=True,
    help="The file to write; the shipped one is fuzzkv/policies/acceptance.json.",
)
@no_color_option
def accept(
    policies: str, seed: int, max_examples: int, no_engine: bool, device: str, output: Path, no_color: bool
) -> None:
    """Try each policy alone, on the model and on the engine, and keep the result. Exit 1 if one fails."""
    from fuzzkv.acceptance import accept as run
    from fuzzkv.canonical import file_bytes
    from fuzzkv.contract.schedule import Config
    from fuzzkv.files import atomic_write
    from fuzzkv.options import parse_policies
    from fuzzkv.policies.registry import resolve
    from fuzzkv.report.session import Session

    chosen = resolve(parse_policies(policies))
    with Session(no_color=no_color, report_dir=None, names=invariant_names()) as session:
        found = run(
            chosen,
            Config(),
            seed=seed,
            schedules=max_examples,
            listeners=session.listeners,
            device=None if no_engine else device,
        )
        for name, entry in found["policies"].items():
            real = entry["engine"].get("decision", "not tried")
            alone = f"{entry['model']['failures']} failures in {entry['model']['schedules']} schedules"
            session.line(
                f"{name}: {'accepted' if entry['passed'] else 'fails alone'}: {alone}; on the engine: {real}"
            )
    atomic_write(output, file_bytes(found))
    click.echo(f"wrote {output}")
    sys.exit(EXIT_CLEAN if all(entry["passed"] for entry in found["policies"].values()) else EXIT_CONFLICT)


@app.group(cls=Group)
def corpus() -> None:
    """List, show and check case files."""


@corpus.command("ls")
@corpus_option
@no_color_option
def corpus_ls(corpus: Path, no_color: bool) -> None:
    """List the cases."""
    from fuzzkv.corpus import scan_corpus
    from fuzzkv.report.listing import corpus_listing

    cases, errors = scan_corpus(corpus)
    out = console(no_color)
    out.print(corpus_listing(cases, invariant_names(), width=out.width))
    for error in errors:
        click.echo(error.render(), err=True)
    sys.exit(EXIT_USAGE if errors else EXIT_CLEAN)


@corpus.command("show")
@click.argument("case")
@corpus_option
@click.option("--json", "as_json", is_flag=True, help="The canonical file itself.")
@no_color_option
def corpus_show(case: str, corpus: Path, as_json: bool, no_color: bool) -> None:
    """Show one CASE: its schedule, its arms and its confirmations."""
    from fuzzkv.canonical import file_bytes
    from fuzzkv.corpus import find_case
    from fuzzkv.report.listing import case_page

    found = find_case(case, corpus)
    if as_json:
        click.echo(file_bytes(found).decode("ascii"), nl=False)
    else:
        console(no_color).print(case_page(found, invariant_names()))


@corpus.command("check")
@corpus_option
def corpus_check(corpus: Path) -> None:
    """Check every file: schema, id, canonical form and the index. Exit 2 if anything is wrong."""
    from fuzzkv.corpus import problems, scan_corpus

    found = problems(corpus)
    for error in found:
        click.echo(error.render(), err=True)
    click.echo(f"{corpus}: {len(scan_corpus(corpus)[0])} cases, {len(found)} problems")
    sys.exit(EXIT_USAGE if found else EXIT_CLEAN)


@corpus.command("index")
@corpus_option
def corpus_index(corpus: Path) -> None:
    """Write index.json anew. Exit 2 if a file is broken: it is named and left out."""
    from fuzzkv.corpus import scan_corpus, write_index

    click.echo(f"wrote {write_index(corpus)}")
    errors = scan_corpus(corpus)[1]
    for error in errors:
        click.echo(error.render(), err=True)
    sys.exit(EXIT_USAGE if errors else EXIT_CLEAN)


@app.command()
@corpus_option
@no_color_option
def doctor(corpus: Path, no_color: bool) -> None:
    """Say what is installed, what is missing and how to get it. Exit 3 if something is broken."""
    from fuzzkv.doctor import diagnose
    from fuzzkv.report.listing import doctor_listing

    findings = diagnose(corpus=corpus)
    console(no_color).print(doctor_listing(findings))
    sys.exit(EXIT_ENVIRONMENT if any(finding.level == "problem" for finding in findings) else EXIT_CLEAN)


def console(no_color: bool) -> Console:
    """A console on standard output."""
    from fuzzkv.report.console import make_console

    return make_console(no_color=no_color)


def invariant_names() -> Mapping[str, str]:
    """Invariant ids to names, from the contract."""
    from fuzzkv.contract.invariants import BY_ID

    return {ident: invariant.name for ident, invariant in BY_ID.items()}


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
