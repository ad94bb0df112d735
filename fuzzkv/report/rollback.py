"""The screen of a rollback audit: the ways in a table, one example, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fuzzkv.report.necessity import wrap

_ROLES: Final = ("system", "user", "assistant", "tool")
_INDENT: Final = 13


def rollback_page(report: Mapping[str, Any], width: int) -> Group:
    """The whole page for ``width`` columns."""
    parts: list[RenderableType] = []
    for (engine, model), rows in groupby(report["ways"], key=lambda w: (w["engine"], w["model"])):
        parts += [Text(line, style="bold") for line in wrap(_heading(report, engine, model), width)]
        parts += [_table(list(rows)), Text("")]
    for line in closing(report, width):
        parts.append(Text(line))
    return Group(*parts)


def _heading(report: Mapping[str, Any], engine: str, model: str) -> str:
    base = "tiny" if model.startswith("tiny") else model
    run = next(r for r in report["runs"] if (r["engine"], r["model"]) == (engine, base))
    noise = next((n for n in report["noise"] if (n["engine"], n["model"]) == (engine, model)), None)
    limit = ""
    if noise and float(noise["measured"]):
        limit = f"; rebuilt caches are up to {_short(noise['measured'])} apart, so beyond {_short(noise['limit'])} differs"
    elif noise:
        limit = f"; rebuilt caches are bit-identical, so beyond {_short(noise['limit'])} (rounding) differs"
    short = f", cut short after {run['done']} of {run['of']} scenarios" if run["done"] < run["of"] else ""
    return f"{run['version']}, {model}{short}{limit}"


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Ways as rows; columns that would be empty are left out."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="underline")
    shown = [
        column
        for column in _COLUMNS
        if column[0] not in ("tie", "refuse", "served")
        or any(column[1](row) not in ("0", "") for row in rows)
    ]
    table.add_column("cache", no_wrap=True)
    table.add_column("way", no_wrap=True)
    for name, _ in shown:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("found", no_wrap=True)
    for row in rows:
        table.add_row(row["cache"], row["way"], *(tell(row) for _, tell in shown), found(row))
    return table


def _count(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: str(row[name])


def _apart(row: Mapping[str, Any]) -> str:
    return _short(row["most"]) if row["of"] else ""


def _top(row: Mapping[str, Any]) -> str:
    return f"{100 * row['agree'] / row['of']:.0f} %" if row["of"] else ""


def _served(row: Mapping[str, Any]) -> str:
    return f"{row['served']}/{row['cells']}" if row["cache"] == "prefix" and row["role"] == "safe" else ""


_COLUMNS: Final[tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...]] = (
    ("same", _count("same")),
    ("tie", _count("numeric-tie")),
    ("differ", _count("differs")),
    ("refuse", _count("refused")),
    ("flips", _count("flips")),
    ("apart", _apart),
    ("top-1", _top),
    ("served", _served),
)


def found(row: Mapping[str, Any]) -> Text:
    """What a way came to, in a word or two."""
    if not row["ok"]:
        return Text("DIFFERS", style="bold red")
    if row["expected"] == "noise":
        return Text("noise", style="dim")
    if row["blind"]:
        return Text("BLIND", style="bold yellow")
    if row["expected"] == "differs":
        return Text("as expected" if row["differs"] == row["cells"] else "in part", style="yellow")
    if row["refused"] == row["cells"]:
        return Text("refused", style="cyan")
    return Text("same or refused" if row["refused"] else "same", style="green")


def closing(report: Mapping[str, Any], width: int) -> list[str]:
    """An example that can be read, what was refused, what failed, and the verdict."""
    lines = [line for example in _telling(report["examples"]) for line in _example(example)]
    for row in report["ways"]:
        for why in row["why"]:
            torn = (
                f" In {row['torn']} of them it came half-way: layers were left with unequal lengths."
                if row["torn"]
                else ""
            )
            lines.append(
                f"{row['model']}, {row['cache']}, {row['way']}: {row['refused']} refused ({why}).{torn}"
            )
    lines += [f"{e['code']}: {e['value']}: {e['reason']}. {e['cure']}" for e in report["errors"]]
    lines.append(_verdict(report))
    return [row for line in lines for row in _wrapped(line, width)]


def _wrapped(line: str, width: int) -> list[str]:
    """A line broken at ``width``; the rest of an indented one stands under its words."""
    indent = " " * _INDENT if line.startswith(" ") else ""
    return wrap(line, width, subsequent_indent=indent) or [""]


def _verdict(report: Mapping[str, Any]) -> str:
    cells = len(report["cells"])
    bad = [w for w in report["ways"] if not w["ok"]]
    blind = [w for w in report["ways"] if w["blind"]]
    safe = [w for w in report["ways"] if w["role"] == "safe"]
    head = f"{len(report['scenarios'])} scenarios, {cells} cells, seed {report['seed']}: "
    if bad:
        return head + "a cache that is meant to be safe differs: " + "; ".join(map(_name, bad)) + "."
    if blind:
        return (
            head
            + "nothing is claimed, for these should have differed, or served something: "
            + ("; ".join(map(_name, blind)) + ".")
        )
    if not cells or report["errors"]:
        return head + "incomplete, see above."
    same = sum(w["same"] + w["numeric-tie"] for w in safe)
    refused = sum(w["refused"] for w in safe)
    return head + (
        f"on ways meant to be safe {same} cells are the same and {refused} refused; retained caches as they are "
        "differ, as expected."
        if any(w["role"] == "unsafe" for w in report["ways"])
        else f"on ways meant to be safe {same} cells are the same and {refused} refused."
    )


def _name(way: Mapping[str, Any]) -> str:
    return f"{way['engine']}, {way['model']}, {way['cache']}, {way['way']}"


def _telling(examples: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The first example in which the two sentences differ."""
    for example in examples:
        if example["retained"] != example["rebuilt"]:
            yield example
            return


def _example(example: Mapping[str, Any]) -> Iterator[str]:
    yield f"An example ({example['engine']}, {example['model']}, {example['cache']}, {example['way']}):"
    for name, key in (("committed", "keep"), ("aborted", "branch"), ("committed", "step")):
        for line in _said(example[key]):
            yield f"  {name:<10} {line}"
            name = ""
    yield f"  {'retained':<10} answers: {example['retained']}"
    yield f"  {'rebuilt':<10} answers: {example['rebuilt']}"
    yield ""


def _said(text: str) -> Iterator[str]:
    """The messages of a conversation, one a line; the last may be only begun."""
    for part in text.replace("<|im_end|>", "").split("<|im_start|>"):
        role, _, words = part.strip().partition("\n")
        said = f"{role}: {words.strip()}" if words and role in _ROLES else part.strip()
        if said and said != "assistant":
            yield said


def _short(number: str) -> str:
    return format(float(number), ".2g")
