"""``fuzzkv audit``: compares what a real cache attends with the session's transcript."""

from __future__ import annotations

import sys

import click

from fuzzkv.cli.pages import Group, examples
from fuzzkv.cli.shared import (
    Live,
    console,
    json_option,
    max_time_option,
    no_color_option,
    output_options,
    seed_option,
)


@click.group(cls=Group, epilog=examples("fuzzkv audit rollback --engine vllm --model tiny"))
def audit() -> None:
    """Audit real caches: does a session attend what its transcript says?"""


@audit.command(
    epilog=examples(
        "fuzzkv audit rollback --engine vllm --model tiny", "fuzzkv audit rollback --json > cells.json"
    )
)
@click.option(
    "--engine",
    type=click.Choice(["transformers", "vllm", "both"]),
    default="both",
    show_default=True,
    help="Whose caches.",
)
@click.option(
    "--model",
    type=click.Choice(["tiny", "smollm2", "both"]),
    default="both",
    show_default=True,
    help="On which models.",
)
@seed_option(1)
@max_time_option("10m", "Time for all engines together")
@json_option
@no_color_option
@output_options
def rollback(engine: str, model: str, seed: int, max_time: str, as_json: bool, no_color: bool) -> None:
    """Same tokens, other cache: does a session's cache remember what was aborted?

    A branch is tried and aborted, and the session goes on from its committed tokens. The next decision on the
    retained cache is compared with the one on a cache rebuilt from these tokens alone: transformers' cache
    objects, reused as they are and in the ways meant to be safe, and vLLM's prefix cache. Exit 0: as expected;
    1: a cache that is meant to be safe differs; 3: an engine failed, or nothing can be claimed. See
    docs/audit.md.
    """
    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.core.options import parse_seconds
    from fuzzkv.report.rollback import rollback_page
    from fuzzkv.targets.vllm.audit.rollback import ENGINES, MODELS
    from fuzzkv.targets.vllm.audit.rollback import audit as run

    live = Live()
    report = run(
        ENGINES if engine == "both" else (engine,),
        MODELS if model == "both" else (model,),
        seed=seed,
        seconds=parse_seconds(max_time),
        tell=live,
    )
    live.end()
    if as_json:
        click.echo(file_bytes(report).decode("ascii"), nl=False)
    else:
        out = console(no_color)
        out.print(rollback_page(report, width=out.width))
    sys.exit(report["exit_code"])
