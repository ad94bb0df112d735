"""The vocabulary's stub (for type checkers, which can't see generated names) names exactly what the module has."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from fuzzkv.semantics import vocabulary


def test_the_stub_has_every_name() -> None:
    tree = ast.parse(Path(vocabulary.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    stated = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
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
    assert {name for name in stated if not name.startswith("_") and not hasattr(vocabulary, name)} == set()


def test_the_stub_is_up_to_date() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "vocabulary_stub.py"
    text = runpy.run_path(str(script))["stub"]()
    assert Path(vocabulary.__file__).with_suffix(".pyi").read_text(encoding="utf-8") == text


RIGHT = """
from fuzzkv.semantics.facts import free_job, present, request_of, slot
from fuzzkv.semantics.ops.primitives import begin_store
from fuzzkv.semantics.vocabulary import *
from fuzzkv.semantics.contract.predicates import violate

def rule(s: State, k: PolicyId) -> None:
    low = -1
    for p in each(NP):
        low = ite(and_(low < 0, present(s, p)), p, low)
    begin_store(s, low >= 0, k, slot(low))

def ages(s: State, g: Bool, k: PolicyId, p: PageId, r: SessionId) -> None:
    put_if(s, g, SEEN, p, get(s, LIFE, p))
    put_if(s, g, MARK, k * NP + p, 1)
    put_if(s, g, D_PAGE, slot(get(s, DEV, p)), r * PAGES + 1)
    violate(s, g, I2, k, p, P_READ)
"""
SWAPPED = (
    "begin_store(s, g, p, k)",
    "begin_store(g, s, k, p)",
    "begin_store(s, g, free_job(s), p)",
    "begin_store(s, p, k, g)",
    "violate(s, g, I2, k, p, C_FENCE)",
    "violate(s, g, P_READ, k, p, I2)",
    "get(s, p, LIFE)",
    "get(s, LIFE, r)",
    "get(s, D_TAG, p)",
    "get(s, H_TAG, get(s, DEV, p))",
    "get(s, DEV, k)",
    "put_if(s, g, DEV, get(s, DEV, p), p)",
    "put_if(s, g, DEV, p, get(s, HOST, p))",
    "and_(g, p)",
    "present(s, request_of(p))",
    "note(s, g, P_READ, p, k, 0)",
)
"""Calls in which numbers stand in each other's place: the run-time types are all int."""


@pytest.mark.slow
def test_type_checkers_see_swapped_arguments(tmp_path: Path) -> None:
    head = f"{RIGHT}\ndef wrong(s: State, g: Bool, k: PolicyId, p: PageId, r: SessionId) -> None:\n"
    (tmp_path / "rules.py").write_text(head + "".join(f"    {call}\n" for call in SWAPPED), encoding="utf-8")
    config = Path(__file__).resolve().parents[2] / "pyproject.toml"
    command = [
        sys.executable,
        "-m",
        "mypy",
        f"--config-file={config}",
        f"--cache-dir={tmp_path}",
        "--allow-redefinition",
        "rules.py",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(config.parent)},
    )
    told = {int(line) for line in re.findall(r"^rules\.py:(\d+): error", done.stdout, re.MULTILINE)}
    first = head.count("\n") + 1
    assert told == set(range(first, first + len(SWAPPED))), done.stdout + done.stderr
