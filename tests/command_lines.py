"""Command lines as they stand in documents and help pages, parsed by the program's own parser."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import click

from fuzzkv.cli import app

BLOCK = re.compile(r"```([^\n]*)\n(.*?)```", re.DOTALL)


def parsed(line: str) -> tuple[click.Command, dict[str, Any]]:
    """The command of a line ``fuzzkv ...`` and its parameters; shell comments and what follows a pipe are left out.

    Raises ``UsageError`` or ``click.ClickException`` as the program does.
    """
    words = shlex.split(line, comments=True)
    words = words[: next((n for n, word in enumerate(words) if word in ("|", ">", ">>", "||", "&&")), None)]
    command: click.Command = app
    context = click.Context(app, info_name="fuzzkv")
    args = words[1:]
    while isinstance(command, click.Group) and args and not args[0].startswith("-"):
        _, found, args = command.resolve_command(context, args)
        assert found is not None
        command = found
        context = click.Context(command, info_name=command.name, parent=context)
    if "--help" not in args:
        context = command.make_context(command.name, args, parent=context.parent)
    return command, context.params


def code_blocks(page: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a Markdown page: what stands behind the fence, and the text."""
    yield from BLOCK.findall(page)


def command_lines(page: str, program: str) -> Iterator[str]:
    """All lines of a page's blocks that call a program, with ``$`` before it or without; a line that ends in a backslash
    goes on in the next.
    """
    for language, text in code_blocks(page):
        if language in ("python", "toml", "json"):
            continue
        for line in text.replace("\\\n", " ").splitlines():
            found = re.match(rf"\s*(?:\$ )?((?:[A-Z_]+=\S+ )*{program}\s.*)", line)
            if found:
                # Two spaces or more, and what stands there says what the line does.
                yield re.split(r"\s{3,}", found[1])[0]
