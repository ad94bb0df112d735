"""``fuzzkv gate``: one policy in front of the policies that it is to run beside."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fuzzkv.cli.live import ENGINE_TIME, gate_live
from fuzzkv.cli.pages import examples
from fuzzkv.cli.shared import (
    device_option,
    invariant_names,
    max_examples_option,
    max_time_option,
    no_color_option,
    output_options,
    seed_option,
    verbosity,
)
from fuzzkv.core.budgets import BUDGET, FREE
from fuzzkv.errors import UsageError, did_you_mean
from fuzzkv.policies import DEFAULT

if TYPE_CHECKING:
    from fuzzkv.events import Listener

FORMATS = ("junit", "json", "ndjson")


@click.command(
    epilog=examples(
        "fuzzkv gate evict --against offload --max-time 60s",
        "fuzzkv gate my_module:MyPolicy --report junit=gate.xml",
    )
)
@click.argument("policy")
@click.option(
    "--against",
    default=None,
    metavar="LIST",
    help=f"What it is to run beside; a policy of its own kind makes room for it.  [default: {','.join(DEFAULT)}]",
)
@seed_option()
@max_examples_option(
    "Schedules to search.",
    otherwise=f"{BUDGET:,}; {FREE} times fewer with a policy in Python; no bound with --max-time",
)
@max_time_option(None, "Time to search", otherwise="no bound")
@click.option(
    "--corpus",
    type=click.Path(path_type=Path),
    default=None,
    envvar="FUZZKV_CORPUS",
    metavar="DIR",
    help="Folder of the cases to replay.  [default: corpus, if it is there]",
)
@click.option(
    "--report-dir",
    type=click.Path(path_type=Path),
    default=Path("gate-report"),
    show_default=True,
    metavar="DIR",
    help="Folder for the cases of what is found.",
)
@click.option(
    "--target",
    default=None,
    help="Where engine code of your own is gated: as of hunt.  [default: the model; of vllm:NAME: vllm]",
)
@device_option
@click.option("--report", multiple=True, metavar="FORMAT=PATH", help="Write a report: junit, json or ndjson.")
@no_color_option
@output_options
def gate(
    policy: str,
    against: str | None,
    seed: int,
    max_examples: int | None,
    max_time: str | None,
    corpus: Path | None,
    report_dir: Path,
    target: str | None,
    device: str,
    report: tuple[str, ...],
    no_color: bool,
) -> None:
    """Say whether POLICY may be let in beside others.

    It runs alone, in the place of its kind through the corpus, and in a hunt beside the others, on the model. Exit
    1 if it fails alone or is in a conflict, 3 if the run proves nothing.

    A policy of a live engine (vllm:NAME, or with --target vllm your own engine class by path) is gated on the engine:
    alone, in the place of its kind through the corpus's cases of that engine, and in a hunt of pairs with those that
    --against names.
    """
    from fuzzkv.core.options import parse_policies, parse_seconds

    names = invariant_names()
    wanted = [parse_report(text) for text in report]
    from fuzzkv.gate.lineup import GateOptions
    from fuzzkv.gate.run import gate as run
    from fuzzkv.report.session import ReportSession

    usual = Path("corpus")
    folder = corpus if corpus is not None else usual if usual.is_dir() else None
    if (target or "model") != "model" or policy.startswith("vllm:"):
        beside = parse_policies(against, "--against") if against is not None else ()
        seconds = parse_seconds(max_time) if max_time is not None else ENGINE_TIME
        with ExitStack() as stack:
            written = listeners_for(wanted, stack)
            session = stack.enter_context(
                ReportSession(no_color=no_color, report_dir=None, names=names, verbosity=verbosity())
            )
            code = gate_live(
                policy,
                beside,
                (*session.listeners, *written),
                target=target or "vllm",
                device=device,
                seed=seed,
                max_examples=max_examples,
                max_time=seconds,
                corpus=folder,
                report_dir=report_dir,
            )
        sys.exit(code)
    options = GateOptions(
        candidate=policy,
        against=parse_policies(against, "--against") if against is not None else None,
        seed=seed,
        max_examples=max_examples,
        max_time=parse_seconds(max_time) if max_time is not None else None,
        corpus=folder,
        report_dir=report_dir,
    )
    with ExitStack() as stack:
        written = listeners_for(wanted, stack)
        session = stack.enter_context(
            ReportSession(no_color=no_color, report_dir=None, names=names, verbosity=verbosity())
        )
        result = run(options, (*session.listeners, *written))
    sys.exit(result.exit_code)


def parse_report(text: str) -> tuple[str, Path]:
    """``"junit=out.xml"`` to its parts. FKV031 for an unknown format, FKV030 where no file is named."""
    form, _, path = text.partition("=")
    if form not in FORMATS:
        cure = did_you_mean(form, FORMATS)
        raise UsageError(code="FKV031", value=f"--report {text}", reason="there is no such format", cure=cure)
    if not path:
        cure = f"Write --report {form}=PATH."
        raise UsageError(code="FKV030", value=f"--report {text}", reason="it names no file", cure=cure)
    return form, Path(path)


def listeners_for(wanted: Sequence[tuple[str, Path]], stack: ExitStack) -> list[Listener]:
    """A listener for each report; ``stack`` closes what stays open."""
    from fuzzkv.report.junit import junit_bytes
    from fuzzkv.report.ndjson import NdjsonReport
    from fuzzkv.report.written import WrittenReport, json_bytes

    names = invariant_names()

    def junit(found: Mapping[str, object]) -> bytes:
        return junit_bytes(found, names)

    made: list[Listener] = []
    for form, path in wanted:
        if form == "ndjson":
            made.append(stack.enter_context(NdjsonReport(path)))
        else:
            made.append(WrittenReport(path, junit if form == "junit" else json_bytes))
    return made
