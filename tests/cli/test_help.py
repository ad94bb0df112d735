"""Help pages: sections, examples, defaults, the same flag for the same thing; and what ``-q`` and ``-v`` do."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.text import Text

from fuzzkv import events as ev
from fuzzkv.cli import app
from fuzzkv.cli.pages import SECTIONS
from fuzzkv.cli.shared import VERBOSITY, Live
from fuzzkv.report.console import ConsoleReport
from fuzzkv.report.summary import hanging
from tests.command_lines import parsed

SAME = ("--seed", "--max-time", "--json", "--no-color", "--device", "--contract", "--quiet", "--verbose")


def commands(group: click.Group = app, path: str = "fuzzkv") -> Iterator[tuple[str, click.Command]]:
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands())
LEAVES = [path for path, command in COMMANDS.items() if not isinstance(command, click.Group)]


def options(path: str) -> list[click.Option]:
    return [each for each in COMMANDS[path].params if isinstance(each, click.Option)]


def help_page(path: str, width: int) -> str:
    done = CliRunner().invoke(app, [*path.split()[1:], "--help"], terminal_width=width)
    assert done.exit_code == 0
    return done.output


def test_every_command_is_in_one_section() -> None:
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted(named) == sorted(app.commands) and len(set(named)) == len(named)
    page = help_page("fuzzkv", 80)
    assert all(f"\n{title}:\n" in page for title in SECTIONS)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_80_columns_and_ends_with_examples_that_parse(path: str) -> None:
    page = help_page(path, 80)
    assert max(map(len, page.splitlines())) <= 80 and "..." not in page.replace("[ARGS]...", "")
    head, _, end = page.rpartition("Example")
    lines = end.splitlines()[1:]
    assert head and lines
    for line in lines:
        assert line.startswith("    fuzzkv"), line
        if "COMMAND" not in line:
            command, _ = parsed(line)
            assert command is COMMANDS[path] or isinstance(COMMANDS[path], click.Group)


@pytest.mark.parametrize("path", LEAVES)
def test_every_option_says_what_it_is_and_what_holds_without_it(path: str) -> None:
    page = " ".join(help_page(path, 2000).split())
    for option in options(path):
        assert option.help, option.opts
        written = option.default is None or option.default == ""
        if option.is_flag or option.multiple or (written and option.metavar == "DIR"):
            continue
        assert "[default: " in option.help or (option.show_default and not written), option.opts
    assert "Sentinel" not in page


def test_the_same_flag_is_the_same_thing_everywhere() -> None:
    for flag in SAME:
        found = [option for path in LEAVES for option in options(path) if flag in option.opts]
        assert len(found) > 1, flag
        assert len({(each.metavar, each.is_flag, str(each.type)) for each in found}) == 1, flag
        if flag != "--max-time":
            assert len({each.help for each in found}) == 1, flag


def test_progress_commands_take_quiet_and_verbose() -> None:
    for name in ("hunt", "gate", "exhaust", "verify", "shrink", "necessity", "replay", "conform", "accept"):
        flags = {flag for option in options(f"fuzzkv {name}") for flag in option.opts}
        assert {"-q", "-v"} <= flags, name


@pytest.mark.parametrize(("verbosity", "lines"), [(-1, []), (0, []), (1, ["one", "two"])])
def test_progress_on_a_pipe(capsys: pytest.CaptureFixture[str], verbosity: int, lines: list[str]) -> None:
    with click.Context(app) as context:
        context.meta[VERBOSITY] = verbosity
        live = Live()
        live("one")
        live("two")
        live.end()
    assert capsys.readouterr().err.splitlines() == lines


def test_progress_now_and_then_on_a_pipe_and_in_one_line_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fuzzkv.cli.shared.EVERY", -1.0)
    monkeypatch.setenv("COLUMNS", "40")
    Live()("now")
    assert capsys.readouterr().err == "now\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    live = Live()
    live("x" * 100)
    live.end()
    told = capsys.readouterr().err
    assert told == "\r" + "x" * 39 + "\r" + " " * 39 + "\r"


def shown(verbosity: int) -> str:
    out = io.StringIO()
    report = ConsoleReport(Console(file=out, width=80), names={}, verbosity=verbosity, clock=lambda: 0.0)
    report(ev.HuntStarted(policies=("evict", "offload"), seed=0))
    report(ev.ShrinkStep(policies=("evict", "offload"), invariant="I1", before=9, after=8))
    report(ev.WarningRaised("FKV104", "a tier never served", "Look."))
    report(ev.HuntFinished("clean", 0, 2.0, 10, 100, 0))
    return out.getvalue()


def test_quiet_shows_warnings_and_the_end_and_verbose_every_step() -> None:
    quiet, usual, verbose = (shown(verbosity) for verbosity in (-1, 0, 1))
    assert "hunting" not in quiet and "FKV104" in quiet and "No conflict found" in quiet
    assert "hunting" in usual and "9 -> 8" in verbose
    assert len(quiet) < len(usual) <= len(verbose)


def test_lines_go_on_under_their_words() -> None:
    text = "(3) comes before (4), because it does.\n  (12) event 3: it is so.\n  alone: yes and no.\nplain words here"
    assert hanging(text, 18).splitlines() == [
        "(3) comes before",
        "    (4), because",
        "    it does.",
        "  (12) event 3: it",
        "       is so.",
        "  alone: yes and",
        "    no.",
        "plain words here",
    ]


def test_lines_of_a_hunt_hang_on_a_narrow_terminal() -> None:
    out = io.StringIO()
    report = ConsoleReport(Console(file=out, width=30, force_terminal=True), names={}, live=True)
    report(ev.WarningRaised("FKV104", "a tier that was filled and never served", "Look at it."))
    report.close()
    lines = Text.from_ansi(out.getvalue()).plain.splitlines()
    assert lines[0].startswith("  warning FKV104") and len(lines) > 2
    assert all(line.startswith("    ") and len(line) <= 30 for line in lines[1:])
