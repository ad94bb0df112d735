"""``fuzzkv audit``: compares what a real cache attends with the session's transcript."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fuzzkv.cli.shared import Group, Live, console, no_color_option


@click.group(cls=Group)
def audit() -> None:
    """Audit real caches: is what a session attends what its transcript says?"""


@audit.command()
@click.option(
    "--engine", type=click.Choice(["transformers", "vllm", "both"]), default="both", show_default=True
)
@click.option("--model", type=click.Choice(["tiny", "smollm2", "both"]), default="both", show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
@click.option(
    "--max-time", default="10m", show_default=True, help="Time for all engines together: 90s, 10m or 1h."
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), default=None, help="Write the raw cells here."
)
@no_color_option
def rollback(
    engine: str, model: str, seed: int, max_time: str, json_file: Path | None, no_color: bool
) -> None:
    """Same tokens, other cache: does a session's cache remember what was aborted?

    A branch is tried and aborted, and the session goes on from its committed tokens. The next decision on the
    retained cache is compared with the one on a cache rebuilt from these tokens alone: transformers' cache
    objects, reused as they are and in the ways meant to be safe, and vLLM's prefix cache. Exit 0: as expected;
    1: a cache that is meant to be safe differs; 3: an engine failed, or nothing can be claimed. See
    docs/audit.md.
    """
    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.core.files import atomic_write
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
    out = console(no_color)
    out.print(rollback_page(report, width=out.width))
    if json_file is not None:
        atomic_write(json_file, file_bytes(report))
    sys.exit(report["exit_code"])
