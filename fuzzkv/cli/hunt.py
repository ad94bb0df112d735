"""``fuzzkv hunt``: search for conflicts on the model or on a live engine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from fuzzkv.cli.pages import examples
from fuzzkv.cli.shared import (
    contract_option,
    corpus_option,
    database_option,
    device_option,
    invariant_names,
    max_examples_option,
    max_time_option,
    no_color_option,
    observe_option,
    output_options,
    policies_option,
    seed_option,
    verbosity,
)
from fuzzkv.core.budgets import BUDGET, ENFORCED, FREE
from fuzzkv.errors import EXIT_INTERRUPTED, FuzzkvError
from fuzzkv.policies import DEFAULT

EXAMPLES = (
    f"{BUDGET:,}; {FREE} times fewer with a policy in Python, {ENFORCED} times more with --contract enforce"
)
STRENGTH = "Plans cover all pairs (2) or triples (3) of options; 3 on an engine."
SOLVER = "Events up to which the solver looks first; each costs twice the time of the one before; 0: none."
STOP_RISK = "Stop once a new kind is less likely than this.  [default: never]"
TARGET = (
    "Where schedules run: model, or a live engine: vllm, or another release (vllm@0.31.0; see 'fuzzkv targets'). "
    "An engine's policies are vllm:NAME, all of them by default."
)


@click.command(
    epilog=examples(
        "fuzzkv hunt --no-confirm --max-time 60s",
        "fuzzkv hunt --policies offload,my_module:MyPolicy --seed 7",
        "fuzzkv hunt --target vllm --policies vllm:offload-lru,vllm:preempt",
    )
)
@click.option("--target", default="model", show_default=True, help=TARGET)
@policies_option(",".join(DEFAULT))
@seed_option()
@max_examples_option("Schedules to search; on an engine, schedules a set.", otherwise=EXAMPLES)
@max_time_option(None, "Time to search", otherwise="no bound on the model, 10m on an engine")
@click.option(
    "--workers",
    default="1",
    show_default=True,
    metavar="N",
    help="Processes that search, or auto: one a core.",
)
@click.option("--strength", type=click.Choice(["2", "3"]), default="2", show_default=True, help=STRENGTH)
@click.option("--stop-risk", type=click.FloatRange(0, 1, min_open=True), default=None, help=STOP_RISK)
@click.option("--solver-depth", type=click.IntRange(0, 12), default=4, show_default=True, help=SOLVER)
@contract_option
@click.option("--no-confirm", is_flag=True, help="Do not confirm on a real engine.")
@click.option(
    "--confirm-time", default="360s", show_default=True, metavar="TIME", help="Time for all confirmations."
)
@device_option
@click.option(
    "--report-dir",
    type=click.Path(path_type=Path),
    default=None,
    metavar="DIR",
    help="Write events.ndjson there.",
)
@corpus_option
@database_option
@observe_option
@no_color_option
@output_options
def hunt(
    target: str,
    policies: str,
    seed: int,
    max_examples: int | None,
    max_time: str | None,
    workers: str,
    strength: str,
    stop_risk: float | None,
    solver_depth: int,
    contract: Any,
    no_confirm: bool,
    confirm_time: str,
    device: str,
    report_dir: Path | None,
    corpus: Path,
    database: Path | None,
    observe: Path | None,
    no_color: bool,
) -> None:
    """Search policies for conflicts; shrink, confirm and file what is found.

    On the model the policies run alone first, then in all sets; what breaks is shrunk, filed in the corpus at once, and
    confirmed on a real engine where one is installed. With --target vllm the engine's own features are the policies.
    """
    if target != "model":
        from fuzzkv.cli.live import hunt_live

        hunt_live(
            target=target,
            policies=policies,
            seed=seed,
            max_examples=max_examples,
            max_time=max_time,
            strength=strength,
            device=device,
            report_dir=report_dir,
            corpus=corpus,
            database=database,
            observe=observe,
            no_color=no_color,
        )
    from fuzzkv.core.options import HuntOptions, parse_policies, parse_seconds, parse_workers
    from fuzzkv.search.workers import cores

    options = HuntOptions(
        policies=parse_policies(policies),
        seed=seed,
        max_examples=max_examples,
        max_time=parse_seconds(max_time) if max_time is not None else None,
        workers=parse_workers(workers, cores()),
        strength=int(strength),
        stop_risk=stop_risk,
        solver_depth=solver_depth,
        contract=contract,
        confirm=not no_confirm,
        confirm_time=parse_seconds(confirm_time, "--confirm-time"),
        device=device,
        corpus=corpus,
        report_dir=report_dir,
        database=database,
    )
    from fuzzkv.report.session import ReportSession
    from fuzzkv.strategies.observing import observed

    with (
        observed(observe),
        ReportSession(
            no_color=no_color, report_dir=report_dir, names=invariant_names(), verbosity=verbosity()
        ) as session,
    ):
        from fuzzkv.search.hunt import hunt as run

        try:
            result = run(options, session.listeners)
        except KeyboardInterrupt:
            session.interrupted()
            sys.exit(EXIT_INTERRUPTED)
        except FuzzkvError as error:
            session.failed(error)
            raise
    sys.exit(result.exit_code)
