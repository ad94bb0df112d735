"""``fuzzkv necessity``: which fields of shared metadata the known conflicts need."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fuzzkv.cli.pages import examples
from fuzzkv.cli.shared import (
    Live,
    allow_option,
    allowed,
    console,
    corpus_option,
    json_option,
    no_color_option,
    output_options,
)
from fuzzkv.errors import EXIT_CLEAN, EXIT_ENVIRONMENT


@click.command(epilog=examples("fuzzkv necessity", "fuzzkv necessity --json > necessity.json"))
@allow_option
@corpus_option
@json_option
@no_color_option
@output_options
def necessity(policies: str, corpus: Path, as_json: bool, no_color: bool) -> None:
    """Say which shared metadata the known conflicts need.

    For each piece: whether policies with rules of their own, which can't see it, could refuse every act that breaks
    something and allow every harmless one. A piece is needed if there are two traces in which a policy sees the same and
    has to refuse in one what it has to allow in the other; these are printed. Takes a few minutes; nothing is
    written. Exit 3 if no case could be looked at. See docs/necessity.md.
    """
    from fuzzkv.cases.corpus import load_corpus
    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.metadata.metadata_report import necessity as run
    from fuzzkv.report.necessity import necessity_page

    cases = load_corpus(corpus)
    live = Live()
    seen: list[str] = []

    def tell(case: str, done: int, of: int) -> None:
        if case not in seen:
            seen.append(case)
        live(f"case {len(seen)} of at most {len(cases)}, {case}: {100 * done // max(of, 1)} %")

    report = run(cases, allowed=allowed(policies), tell=tell)
    live.end()
    if as_json:
        click.echo(file_bytes(report).decode("ascii"), nl=False)
    else:
        out = console(no_color)
        out.print(necessity_page(report, width=out.width))
    sys.exit(EXIT_CLEAN if report["cases"] else EXIT_ENVIRONMENT)
