"""``fuzzkv replay`` and ``fuzzkv explain``: what is done with a case that was found."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from fuzzkv.cli.shared import allow_option, allowed, console, corpus_option, invariant_names, no_color_option
from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT, EnvironmentFailure, UsageError


@click.command()
@click.argument("case")
@click.option(
    "--target",
    type=click.Choice(["model", "vllm"]),
    default=None,
    help="[default: where the case is from: the model, or a live engine]",
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@allow_option
@corpus_option
@no_color_option
def replay(case: str, target: str | None, device: str, policies: str, corpus: Path, no_color: bool) -> None:
    """Run a CASE (id, file, label or folder) again: exit 1 if it still fails.

    Of a folder, cases that need other policies are named and left out (exit 3 if nothing else fails).
    """
    from fuzzkv.cases.corpus import find_case, is_live, load_corpus
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
    chosen = () if all(is_live(item) for item in cases) else allowed(policies)
    with Session(no_color=no_color, report_dir=None, names=invariant_names()) as session:
        from fuzzkv.search.confirming import replay_case

        for item in cases:
            if is_live(item):
                codes.append(_replay_live(item, target, device, policies, session.line))
                continue
            try:
                result = replay_case(
                    item, target or "model", device=device, policies=chosen, listeners=session.listeners
                )
            except UsageError as error:
                # In a folder the others still run; what didn't proves nothing.
                if len(cases) == 1 or error.code != "FKV001":
                    raise
                session.line(f"{item['id']} not run: it needs other policies. {item['replay']}")
                codes.append(EXIT_ENVIRONMENT)
                continue
            session.line(
                f"{item['id']} on {target or 'model'}: {result.verdict}. {result.detail}".rstrip(". ") + "."
            )
            codes.append(_code(result.fails))
    sys.exit(EXIT_CONFLICT if EXIT_CONFLICT in codes else max(codes, default=EXIT_CLEAN))


def _code(fails: bool | None) -> int:
    return EXIT_ENVIRONMENT if fails is None else EXIT_CONFLICT if fails else EXIT_CLEAN


def _replay_live(
    case: Mapping[str, Any], target: str | None, device: str, policies: str, say: Callable[[str], None]
) -> int:
    if target == "model":
        raise UsageError(
            code="FKV101",
            value=str(case["id"]),
            reason="it is a case of a live engine, which the model can't run",
            cure="Leave --target out.",
        )
    from fuzzkv.cli.live import replay_one

    text, fails = replay_one(case, device, policies)
    say(f"{case['id']} on {text}".rstrip(". ") + ".")
    return _code(fails)


@click.command()
@click.argument("case")
@allow_option
@corpus_option
@no_color_option
def explain(case: str, policies: str, corpus: Path, no_color: bool) -> None:
    """Say which event broke what, and why.

    It names the clauses of the contract that would have refused it, and the weakest guard that would have.
    """
    from fuzzkv.cases.corpus import find_case

    found = find_case(case, corpus)
    from fuzzkv.explain import explain as tell

    console(no_color).print(tell(found, allowed(policies)), markup=False)
