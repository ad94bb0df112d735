"""The vocabulary's stub (for type checkers, which can't see generated names) names exactly what the module has."""

from __future__ import annotations

import ast
from pathlib import Path

from fuzzkv.semantics import vocabulary


def test_the_stub_has_every_name() -> None:
    tree = ast.parse(Path(vocabulary.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    stated = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    stated |= {
        node.target.id
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    stated |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert set(vocabulary.__all__) <= stated
    assert {name for name in stated if not hasattr(vocabulary, name)} == set()
