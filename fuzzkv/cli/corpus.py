"""``fuzzkv corpus``: the case files of a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from fuzzkv.cli.pages import Group, examples
from fuzzkv.cli.shared import console, corpus_option, invariant_names, json_option, no_color_option
from fuzzkv.errors import EXIT_CLEAN, EXIT_USAGE


@click.group(cls=Group, epilog=examples("fuzzkv corpus ls", "fuzzkv corpus show S2"))
def corpus() -> None:
    """List, show and check case files."""


@corpus.command("ls", epilog=examples("fuzzkv corpus ls", "fuzzkv corpus ls --json | jq '.[].id'"))
@corpus_option
@json_option
@no_color_option
def corpus_ls(corpus: Path, as_json: bool, no_color: bool) -> None:
    """List the cases."""
    from fuzzkv.cases.corpus import scan_corpus
    from fuzzkv.report.listing import case_row, corpus_listing

    cases, errors = scan_corpus(corpus)
    if as_json:
        click.echo(json.dumps([case_row(case) for case in cases], indent=1))
    else:
        out = console(no_color)
        out.print(corpus_listing(cases, invariant_names(), width=out.width))
    for error in errors:
        click.echo(error.render(), err=True)
    sys.exit(EXIT_USAGE if errors else EXIT_CLEAN)


@corpus.command(
    "show", epilog=examples("fuzzkv corpus show S2", "fuzzkv corpus show fkv-d0663e7c9582 --json")
)
@click.argument("case")
@corpus_option
@json_option
@no_color_option
def corpus_show(case: str, corpus: Path, as_json: bool, no_color: bool) -> None:
    """Show one CASE: its schedule, its arms and its confirmations.

    With --json it is the canonical file itself.
    """
    from fuzzkv.cases.corpus import find_case
    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.report.listing import case_page

    found = find_case(case, corpus)
    if as_json:
        click.echo(file_bytes(found).decode("ascii"), nl=False)
    else:
        console(no_color).print(case_page(found, invariant_names()))


@corpus.command("check", epilog=examples("fuzzkv corpus check --corpus corpus"))
@corpus_option
def corpus_check(corpus: Path) -> None:
    """Check every file: schema, id, canonical form, index.

    Exit 2 if anything is wrong.
    """
    from fuzzkv.cases.corpus import problems, scan_corpus

    found = problems(corpus)
    for error in found:
        click.echo(error.render(), err=True)
    click.echo(f"{corpus}: {len(scan_corpus(corpus)[0])} cases, {len(found)} problems")
    sys.exit(EXIT_USAGE if found else EXIT_CLEAN)


@corpus.command("index", epilog=examples("fuzzkv corpus index"))
@corpus_option
def corpus_index(corpus: Path) -> None:
    """Write index.json anew.

    Exit 2 if a file is broken: it is named and left out.
    """
    from fuzzkv.cases.corpus import scan_corpus, write_index

    click.echo(f"wrote {write_index(corpus)}")
    errors = scan_corpus(corpus)[1]
    for error in errors:
        click.echo(error.render(), err=True)
    sys.exit(EXIT_USAGE if errors else EXIT_CLEAN)
