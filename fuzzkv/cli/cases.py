"""``fuzzkv replay``: a case that was found runs again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from fuzzkv.cli.pages import examples
from fuzzkv.cli.shared import (
    allow_option,
    allowed,
    corpus_option,
    device_option,
    invariant_names,
    no_color_option,
    output_options,
    verbosity,
)
from fuzzkv.errors import (
    EXIT_CLEAN,
    EXIT_CONFLICT,
    EXIT_ENVIRONMENT,
    EnvironmentFailure,
    FuzzkvError,
    UsageError,
)


@click.command(
    epilog=examples(
        "fuzzkv replay fkv-d0663e7c9582", "fuzzkv replay S2 --target vllm", "fuzzkv replay corpus/"
    )
)
@click.argument("case")
@click.option(
    "--target",
    default=None,
    help="As of hunt.  [default: where the case is from: the model, or a live engine of that release]",
)
@device_option
@click.option(
    "--keep-log",
    is_flag=True,
    help="Of cases of a live engine that still fail: write the page-event log into the case's file.",
)
@allow_option
@corpus_option
@no_color_option
@output_options
def replay(
    case: str,
    target: str | None,
    device: str,
    keep_log: bool,
    policies: str,
    corpus: Path,
    no_color: bool,
) -> None:
    """Run a CASE again: an id, a file, a label or a folder.

    Exit 1 if it still fails, 0 if it doesn't. Of a folder, cases that can't be run here (they need other policies, or an
    engine) are named with the reason and left out (exit 3 if nothing else fails).
    """
    from fuzzkv.cases.corpus import find_case, find_path, is_live, load_corpus
    from fuzzkv.report.session import ReportSession

    whole = bool(case.strip()) and os.path.isdir(case)
    if whole:
        cases = load_corpus(case)
        if not cases:
            raise EnvironmentFailure(
                code="FKV016", value=case, reason="the folder has no case to replay", cure="Hunt first."
            )
    else:
        cases = [find_case(case, corpus)]
    folder = None
    if keep_log:
        folder = Path(case) if whole else find_path(case, corpus).parent
    codes = []
    chosen = () if all(is_live(item) for item in cases) else allowed(policies)
    with ReportSession(
        no_color=no_color, report_dir=None, names=invariant_names(), verbosity=verbosity()
    ) as session:
        from fuzzkv.search.confirming import replay_case

        for item in cases:
            try:
                if is_live(item):
                    codes.append(_replay_live(item, target, device, policies, session.line, folder))
                    continue
                result = replay_case(
                    item, target or "model", device=device, policies=chosen, listeners=session.listeners
                )
            except FuzzkvError as error:
                # In a folder the others still run; what didn't proves nothing.
                if not whole:
                    raise
                session.line(f"{item['id']} not run: {_why(item, error)}")
                codes.append(EXIT_ENVIRONMENT)
                continue
            session.line(
                f"{item['id']} on {target or 'model'}: {result.verdict}. {result.detail}".rstrip(". ") + "."
            )
            codes.append(_code(result.fails))
    sys.exit(EXIT_CONFLICT if EXIT_CONFLICT in codes else max(codes, default=EXIT_CLEAN))


def _why(case: Mapping[str, Any], error: FuzzkvError) -> str:
    """Why a case of a folder wasn't run, in a sentence."""
    if error.code == "FKV001":
        return f"it needs other policies. {case['replay']}"
    return f"{error.reason} ({error.code}). {error.cure}".rstrip()


def _code(fails: bool | None) -> int:
    return EXIT_ENVIRONMENT if fails is None else EXIT_CONFLICT if fails else EXIT_CLEAN


def _replay_live(
    case: Mapping[str, Any],
    target: str | None,
    device: str,
    policies: str,
    say: Callable[[str], None],
    keep_in: Path | None,
) -> int:
    if target == "model":
        raise UsageError(
            code="FKV101",
            value=str(case["id"]),
            reason="it is a case of a live engine, which the model can't run",
            cure="Leave --target out.",
        )
    from fuzzkv.cli.live import replay_one

    text, fails, kept = replay_one(case, target, device, policies)
    if keep_in is not None and kept:
        from fuzzkv.cases.corpus import save_case, write_index

        save_case({**case, **kept}, keep_in)
        if (keep_in / "index.json").exists():
            write_index(keep_in)
    say(f"{case['id']} on {text}".rstrip(". ") + ".")
    return _code(fails)
