"""``fuzzkv explain``: why a case fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fuzzkv.cli.pages import examples
from fuzzkv.cli.shared import (
    allow_option,
    allowed,
    console,
    corpus_option,
    json_option,
    no_color_option,
)


@click.command(
    epilog=examples(
        "fuzzkv explain fkv-d0663e7c9582",
        "fuzzkv explain S2 --no-guards",
        "fuzzkv explain S2 --format svg > S2.svg",
    )
)
@click.argument("case")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "md", "svg"]),
    default="text",
    show_default=True,
    help="svg is a figure: time to the right, a lane for each policy, tier, transfer and request.",
)
@json_option
@click.option("--no-guards", is_flag=True, help="Don't ask the solver what would have refused it (seconds).")
@allow_option
@corpus_option
@no_color_option
def explain(
    case: str, form: str, as_json: bool, no_guards: bool, policies: str, corpus: Path, no_color: bool
) -> None:
    """Say which event of a CASE broke what, and why.

    Of a case of the model it names the clauses of the contract that would have refused it, and the weakest guard that would
    have. A case of a live engine is explained from the page-event log that it carries; one without a log runs first.
    """
    from fuzzkv.cases.corpus import find_case
    from fuzzkv.explain import formats
    from fuzzkv.explain.explanation import explained, fixed

    form = "json" if as_json else form
    told = _with_log(find_case(case, corpus), policies)
    found = explained(
        told, () if "target" in told else allowed(policies), guards=not no_guards and form != "svg"
    )
    if found is None:
        click.echo(fixed(told))
    elif form == "json":
        click.echo(json.dumps(formats.as_json(found), indent=1, ensure_ascii=False))
    elif form == "svg":
        from fuzzkv.explain.figure import as_svg

        click.echo(as_svg(found), nl=False)
    elif form == "md":
        click.echo(formats.as_markdown(found), nl=False)
    else:
        from fuzzkv.report.summary import hanging

        out = console(no_color)
        out.print(hanging(formats.as_text(found), out.width), markup=False)


def _with_log(case: Mapping[str, Any], policies: str) -> Mapping[str, Any]:
    """The case, with the log of a run on the engine if it is a live one that carries none."""
    if "target" not in case or "history" in case:
        return case
    from fuzzkv.cli.live import replay_one

    text, _, kept = replay_one(
        case, None, str(case["config"].get("engine", {}).get("device", "cpu")), policies
    )
    if not kept:
        click.echo(f"{case['id']} on {text}", err=True)
    return {**case, **kept}
