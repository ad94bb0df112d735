"""``fuzzkv replay`` and ``fuzzkv explain``: what is done with a case that was found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from fuzzkv.cli.shared import allow_option, allowed, console, corpus_option, invariant_names, no_color_option
from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT, EnvironmentFailure, UsageError


@click.command()
@click.argument("case")
@click.option("--target", type=click.Choice(["model", "vllm"]), default="model", show_default=True)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@allow_option
@corpus_option
@no_color_option
def replay(case: str, target: str, device: str, policies: str, corpus: Path, no_color: bool) -> None:
    """Run a CASE (id, file or folder) again: exit 1 if it still fails.

    Of a folder, cases that need other policies are named and left out (exit 3 if nothing else fails).
    """
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
            try:
                result = replay_case(
                    item, target, device=device, policies=chosen, listeners=session.listeners
                )
            except UsageError as error:
                # In a folder the others still run; what didn't proves nothing.
                if len(cases) == 1 or error.code != "FKV001":
                    raise
                session.line(f"{item['id']} not run: it needs other policies. {item['replay']}")
                codes.append(EXIT_ENVIRONMENT)
                continue
            session.line(f"{item['id']} on {target}: {result.verdict}. {result.detail}".rstrip(". ") + ".")
            codes.append(
                EXIT_ENVIRONMENT if result.fails is None else EXIT_CONFLICT if result.fails else EXIT_CLEAN
            )
    sys.exit(EXIT_CONFLICT if EXIT_CONFLICT in codes else max(codes, default=EXIT_CLEAN))


@click.command()
@click.argument("case")
@allow_option
@corpus_option
@no_color_option
def explain(case: str, policies: str, corpus: Path, no_color: bool) -> None:
    """Say which event broke what, and why.

    It names the clauses of the contract that would have refused it, and the weakest guard that would have.
    """
    from fuzzkv.corpus import find_case

    found = find_case(case, corpus)
    from fuzzkv.explain import explain as tell

    console(no_color).print(tell(found, allowed(policies)), markup=False)
