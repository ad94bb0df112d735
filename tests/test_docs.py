"""The page for authors of policies says what there is, and its code is the tested example."""

from __future__ import annotations

import re
from pathlib import Path

from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.schedule import EXTRA
from fuzzkv.semantics.view import Cache, Page

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
