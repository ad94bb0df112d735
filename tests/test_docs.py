"""Documents say what there is: their commands parse, their links and paths exist, their code is the tested example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzzkv.errors import UsageError
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.schedule import EXTRA
from fuzzkv.semantics.view import Cache, Page
from scripts.check_layers import FLOORS
from tests.command_lines import code_blocks, command_lines, parsed

PAGE = Path("docs/writing-a-policy.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_is_the_file() -> None:
    assert CODE[0] == Path("docs/examples/squeeze.py").read_text(encoding="utf-8")


def test_every_action_attribute_and_event_is_on_the_page() -> None:
    for name in (*OPERATIONS, *EXTRA):
        assert re.search(rf"`{name}\b", PAGE), name
    for kind in (Page, Cache):
        for name, value in vars(kind).items():
            if isinstance(value, property):
                assert f"`{name}`" in PAGE, name


def test_the_rule_on_the_page_can_be_read_by_all() -> None:
    import linecache

    from fuzzkv.simulator.linker import write_out

    name = "<docs>"
    linecache.cache[name] = (len(CODE[1]), None, CODE[1].splitlines(keepends=True), name)
    space: dict[str, object] = {"__name__": "docs_rule"}
    exec(compile(CODE[1], name, "exec"), space)
    policy = space["SQUEEZE"]
    assert "quantise" in write_out([policy.rule], trace=False)  # type: ignore[attr-defined]


DOCUMENTS = sorted(
    path
    for path in (*Path().glob("*.md"), *Path("docs").rglob("*.md"))
    if path.name not in ("readme.template.md", "CHANGELOG.md")
)
GOALS = set(re.findall(r"^([a-z-]+):", Path("Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def inline(text: str, program: str) -> Iterator[str]:
    """Commands in running text and tables."""
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for code in re.findall(r"`([^`\n]+)`", outside):
        if re.match(rf"(?:[A-Z_]+=\S+ )*{program} ", code) and "..." not in code:
            # A command's name alone is no command line, but has to exist.
            yield code if len(code.split()) > 2 or program != "fuzzkv" else f"{code} --help"


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_commands_parse(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for line in (*command_lines(text, "fuzzkv"), *inline(text, "fuzzkv")):
        words = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", line)
        if not re.match(r"fuzzkv (?:hunting|gating) ", words):  # the head of an output
            parsed(words)
    for line in (*command_lines(text, "make"), *inline(text, "make")):
        goal = re.sub(r"^(?:[A-Z_]+=\S+ )*make ", "", line).split()[0]
        assert goal in GOALS, line
    for module in re.findall(r"python -m ((?:bench|scripts|tests)\.[\w.]+)", text):
        assert Path(module.rstrip(".").replace(".", "/") + ".py").is_file(), module


def test_a_wrong_command_would_be_seen() -> None:
    for line in ("fuzzkv hunts", "fuzzkv hunt --polices x", "fuzzkv explain S2 --format pdf"):
        with pytest.raises((UsageError, Exception), match=r"hunts|polices|pdf"):
            parsed(line)
    page = "```\n$ fuzzkv explain S2    # why\nmake hunt\n```\n```python\nfuzzkv = 1\n```\n"
    assert list(command_lines(page, "fuzzkv")) == ["fuzzkv explain S2"]
    assert list(command_lines(page, "make")) == ["make hunt"] and len(list(code_blocks(page))) == 2


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_links_and_paths_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http", "#")):
            assert (path.parent / target.split("#")[0]).exists(), target
    for name in re.findall(r"`((?:fuzzkv|tests|docs|bench|scripts|corpus)/[\w./-]+)(?:::\w+)?`", text):
        assert Path(name).exists(), name


def test_the_floors_of_the_page_are_those_of_the_check() -> None:
    text = Path("ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, len(FLOORS) + 1))
    assert [tuple(re.findall(r"`(\w+)`", names)) for _, names in rows] == [tuple(floor) for floor in FLOORS]
    assert len(text.splitlines()) <= 80


def test_every_document_is_in_the_index() -> None:
    index = Path("docs/index.md").read_text(encoding="utf-8")
    for path in Path("docs").rglob("*.md"):
        if path.name not in ("readme.template.md", "index.md"):
            assert f"({path.relative_to('docs')})" in index, path
