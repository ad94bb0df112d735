"""``fuzzkv corpus``: the case files of a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fuzzkv.cli.shared import Group, console, corpus_option, invariant_names, no_color_option
from fuzzkv.errors import EXIT_CLEAN, EXIT_USAGE


@click.group(cls=Group)
def corpus() -> None:
    """List, show and check case files."""


@corpus.command("ls")
@corpus_option
@no_color_option
def corpus_ls(corpus: Path, no_color: bool) -> None:
    """List the cases."""
    from fuzzkv.cases.corpus import scan_corpus
    from fuzzkv.report.listing import corpus_listing

    cases, errors = scan_corpus(corpus)
    out = console(no_color)
    out.print(corpus_listing(cases, invariant_names(), width=out.width))
    for error in errors:
        click.echo(error.render(), err=True)
    sys.exit(EXIT_USAGE if errors else EXIT_CLEAN)


@corpus.command("show")
@click.argument("case")
@corpus_option
@click.option("--json", "as_json", is_flag=True, help="The canonical file itself.")
@no_color_option
def corpus_show(case: str, corpus: Path, as_json: bool, no_color: bool) -> None:
    """Show one CASE: its schedule, its arms and its confirmations."""
    from fuzzkv.cases.corpus import find_case
    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.report.listing import case_page

    found = find_case(case, corpus)
    if as_json:
        click.echo(file_bytes(found).decode("ascii"), nl=False)
    else:
        console(no_color).print(case_page(found, invariant_names()))


@corpus.command("check")
@corpus_option
def corpus_check(corpus: Path) -> None:
    """Check every file: schema, id, canonical form and the index. Exit 2 if anything is wrong."""
    from fuzzkv.cases.corpus import problems, scan_corpus

    found = problems(corpus)
    for error in found:
        click.echo(error.render(), err=True)
    click.echo(f"{corpus}: {len(scan_corpus(corpus)[0])} cases, {len(found)} problems")
    sys.exit(EXIT_USAGE if found else EXIT_CLEAN)


@corpus.command("index")
@corpus_option
def corpus_index(corpus: Path) -> None:
    """Write index.json anew. Exit 2 if a file is broken: it is named and left out."""
    from fuzzkv.cases.corpus import scan_corpus, write_index

    click.echo(f"wrote {write_index(corpus)}")
    errors = scan_corpus(corpus)[1]
    for error in errors:
        click.echo(error.render(), err=True)
    sys.exit(EXIT_USAGE if errors else EXIT_CLEAN)
