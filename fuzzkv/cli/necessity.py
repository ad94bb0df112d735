"""``fuzzkv necessity``: which fields of shared metadata the known conflicts need."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from fuzzkv.cli.shared import allow_option, allowed, console, corpus_option, no_color_option
from fuzzkv.errors import EXIT_CLEAN, EXIT_ENVIRONMENT

EVERY = 10.0
"""Seconds between two lines of progress where standard error is no terminal."""


@click.command()
@allow_option
@corpus_option
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), default=None, help="Write the report here too."
)
@no_color_option
def necessity(policies: str, corpus: Path, json_file: Path | None, no_color: bool) -> None:
    """Say which pieces of shared metadata the known conflicts need.

    For each piece: whether policies with rules of their own, which can't see it, could refuse every act that breaks
    something and allow every harmless one. A piece is needed if there are two traces in which a policy sees the same and
    has to refuse in one what it has to allow in the other; these are printed. Takes a few minutes; nothing is written but
    the file of --json. Exit 3 if no case could be looked at. See docs/necessity.md.
    """
    from fuzzkv.cases.corpus import load_corpus
    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.core.files import atomic_write
    from fuzzkv.metadata.metadata_report import necessity as run
    from fuzzkv.report.necessity import necessity_page

    cases = load_corpus(corpus)
    progress = _Progress(len(cases))
    report = run(cases, allowed=allowed(policies), tell=progress)
    progress.done()
    out = console(no_color)
    out.print(necessity_page(report, width=out.width))
    if json_file is not None:
        atomic_write(json_file, file_bytes(report))
    sys.exit(EXIT_CLEAN if report["cases"] else EXIT_ENVIRONMENT)


class _Progress:
    """Where the search is, on standard error: a line that overwrites itself on a terminal, else one now and then."""

    def __init__(self, cases: int) -> None:
        self.cases, self.began = cases, time.monotonic()
        self.printed = self.began
        self.seen: list[str] = []

    def __call__(self, case: str, done: int, of: int) -> None:
        if case not in self.seen:
            self.seen.append(case)
        text = f"case {len(self.seen)} of at most {self.cases}, {case}: {100 * done // max(of, 1)} %"
        if sys.stderr.isatty():
            click.echo(f"\r{text[:110]:<110}", nl=False, err=True)
        elif time.monotonic() - self.printed > EVERY:
            self.printed = time.monotonic()
            click.echo(f"{text}, {self.printed - self.began:.0f} s", err=True)

    def done(self) -> None:
        """Clear the line."""
        if sys.stderr.isatty():
            click.echo("\r" + " " * 110 + "\r", nl=False, err=True)
