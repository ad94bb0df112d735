"""Help pages: commands in sections by what one wants to do, examples below each command's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from fuzzkv.errors import UsageError, did_you_mean

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Find conflicts": ("hunt", "exhaust", "verify"),
    "Read and rerun cases": ("explain", "replay", "shrink", "corpus"),
    "Let a policy in": ("gate", "accept"),
    "Engines and targets": ("policies", "targets", "conform", "audit", "doctor"),
    "Study the method": ("necessity",),
}
"""The commands of ``fuzzkv --help`` by section, in the order in which they are shown."""


def examples(*lines: str) -> str:
    """The end of a help page: command lines as they are typed, each in a line of its own."""
    return "\n".join(("\b", f"Example{'s' if len(lines) > 1 else ''}:", *(f"  {line}" for line in lines)))


class Group(click.Group):
    """A command group that answers a typo with the nearest command, and whose help page says each sentence whole."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UsageError(
                code="FKV031",
                value=f"{ctx.command_path} {args[0]}",
                reason="there is no such command",
                cure=did_you_mean(args[0], self.list_commands(ctx)),
            )
        return super().resolve_command(ctx, args)

    def sections(self) -> Mapping[str, Sequence[str]]:
        """Headings of the help page, each with its commands."""
        return {"Commands": list(self.commands)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for title, names in self.sections().items():
            rows = [(name.ljust(width), self.commands[name].get_short_help_str(1000)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)


class Sections(Group):
    """The group of all commands, in ``SECTIONS``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in SECTIONS.values() for name in names]

    def sections(self) -> Mapping[str, Sequence[str]]:
        return SECTIONS
