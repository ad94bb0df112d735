"""The layering check: silent on the tree, loud on every planted edge."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_layers", ROOT / "scripts" / "check_layers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_layers"] = module
    spec.loader.exec_module(module)
    return module


layers = load_script()


def plant(tmp_path: Path, files: dict[str, str]) -> list[str]:
    root = tmp_path / "fuzzkv"
    for name, text in {"__init__.py": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    complaints: list[str] = layers.check(root)
    return complaints


@pytest.mark.slow
def test_the_tree_is_clean() -> None:
    assert layers.check(ROOT / "fuzzkv") == []


PARTS = [part for floor in layers.FLOORS for part in floor]


@pytest.mark.parametrize("part", [part for part in PARTS if part != "__main__"])
def test_an_upward_import_from_any_part_is_found(tmp_path: Path, part: str) -> None:
    above = PARTS[-1] if part == "cli" else "cli"
    tree = {f"{part}/__init__.py": "", f"{part}/a.py": f"from fuzzkv.{above} import x", f"{above}.py": ""}
    complaints = plant(tmp_path, tree)
    assert f"fuzzkv/{part}/a.py:1: {part} may not import fuzzkv.{above}" in complaints


def test_every_part_has_a_rule(tmp_path: Path) -> None:
    assert plant(tmp_path, {"newroom/a.py": ""}) == ["newroom: no rule says which floor it is on"]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("semantics/a.py", "import numpy", "only the standard library, not numpy"),
        ("semantics/a.py", "from fuzzkv.simulator import b", "semantics may not import fuzzkv.simulator"),
        ("semantics/a.py", "from ..simulator import b", "semantics may not import fuzzkv.simulator"),
        (
            "semantics/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fuzzkv.simulator import b",
            "semantics may not import fuzzkv.simulator",
        ),
        ("policies/a.py", "import fuzzkv.simulator.b", "policies may not import fuzzkv.simulator.b"),
        ("oracles/a.py", "def f():\n    from fuzzkv import search", "oracles may not import fuzzkv.search"),
        ("targets/a.py", "from fuzzkv.search.hunt import x", "targets may not import fuzzkv.search.hunt"),
        ("search/a.py", "from fuzzkv.report.console import x", "search may not import fuzzkv.report"),
        ("report/a.py", "from fuzzkv.search.hunt import x", "report may not import fuzzkv.search.hunt"),
        ("search/a.py", "import fuzzkv.metadata", "search may not import fuzzkv.metadata"),
        ("simulator/a.py", "import z3", "z3 may be imported only in solver, simulator.symbolic.terms"),
        ("oracles/a.py", "import torch.nn", "torch may be imported only in targets.vllm"),
        ("targets/b.py", "import vllm", "vllm may be imported only in targets.vllm"),
        ("search/a.py", "from numba import njit", "numba may be imported only in simulator"),
        (
            "simulator/a.py",
            "from llvmlite import ir",
            "llvmlite may be imported only in simulator.bulk.pointers",
        ),
        (
            "simulator/a.py",
            "import covertable",
            "covertable may be imported only in strategies.covering_arrays",
        ),
        ("core/a.py", "import rich", "core imports only the standard library, not rich"),
        ("core/a.py", "import subprocess", "subprocess may be imported only in core.childproc"),
        ("search/a.py", "from subprocess import run", "subprocess may be imported only in core.childproc"),
        ("search/a.py", "import multiprocessing.pool", "multiprocessing may be imported only in search"),
        (
            "search/a.py",
            "from concurrent.futures import ProcessPoolExecutor",
            "concurrent.futures.ProcessPoolExecutor may be imported only in solver.induction",
        ),
        ("search/a.py", "import os\nos.fork()", "os.fork starts a process"),
        ("search/a.py", "import os\nos.execvp('a', [])", "os.execvp starts a process"),
    ],
)
def test_a_planted_edge_is_found(tmp_path: Path, file: str, text: str, words: str) -> None:
    tree = {
        "simulator/__init__.py": "",
        "simulator/b.py": "",
        "report/console.py": "",
        "search/hunt.py": "",
        "search/__init__.py": "",
        "metadata.py": "",
    }
    complaints = plant(tmp_path, {**tree, file: text})
    assert any(words in complaint and f"fuzzkv/{file}:" in complaint for complaint in complaints)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("simulator/symbolic/terms.py", "import z3"),
        ("simulator/a.py", "from fuzzkv.semantics import x\nimport numba"),
        (
            "semantics/a.py",
            "from __future__ import annotations\nimport dataclasses\nfrom fuzzkv.errors import x",
        ),
        ("cli.py", "from fuzzkv.report.console import x\nfrom fuzzkv.search.hunt import y"),
        ("search/a.py", "from fuzzkv.cases.corpus import x\nfrom fuzzkv.targets.vllm.replay import y"),
        ("core/childproc.py", "import subprocess\nfrom fuzzkv.errors import x"),
        ("search/a.py", "from concurrent.futures import ThreadPoolExecutor"),
        ("targets/vllm/pool/fork_server_main.py", "import os\nos.fork()"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, file: str, text: str) -> None:
    tree = {
        "search/hunt.py": "",
        "errors.py": "",
        "cases/corpus.py": "",
        "targets/vllm/replay/__init__.py": "",
        "report/console.py": "",
    }
    assert plant(tmp_path, {**tree, "semantics/__init__.py": "", file: text}) == []


def test_a_cycle_is_found(tmp_path: Path) -> None:
    files = {
        "simulator/a.py": "from fuzzkv.simulator import b",
        "simulator/b.py": "def f():\n    import fuzzkv.simulator.a",
    }
    assert plant(tmp_path, {"simulator/__init__.py": "", **files}) == [
        "import cycle: fuzzkv.simulator.a -> fuzzkv.simulator.b -> fuzzkv.simulator.a"
    ]


def test_a_cycle_through_imports_for_types_only_is_found(tmp_path: Path) -> None:
    files = {
        "simulator/a.py": "from fuzzkv.simulator.b import B",
        "simulator/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fuzzkv.simulator.c import C",
        "simulator/c.py": "import fuzzkv.simulator.d",
        "simulator/d.py": "from fuzzkv.simulator.b import B",
    }
    assert plant(tmp_path, {"simulator/__init__.py": "", **files}) == [
        "import cycle: fuzzkv.simulator.b -> fuzzkv.simulator.c -> fuzzkv.simulator.d -> fuzzkv.simulator.b"
    ]


def test_two_cycles_are_both_told(tmp_path: Path) -> None:
    files = {f"core/{one}.py": f"import fuzzkv.core.{other}" for one, other in ("ab", "ba", "cd", "dc")}
    assert plant(tmp_path, files) == [
        "import cycle: fuzzkv.core.a -> fuzzkv.core.b -> fuzzkv.core.a",
        "import cycle: fuzzkv.core.c -> fuzzkv.core.d -> fuzzkv.core.c",
    ]


def test_a_class_name_that_is_used_twice_is_found(tmp_path: Path) -> None:
    files = {
        "cases/a.py": "class Page: ...\n\nclass Frame: ...",
        "cases/b.py": "import fuzzkv.cases.a\n\nPage = fuzzkv.cases.a.Page",
        "report/a.py": "class Page: ...",
        "simulator/a.py": "def f():\n    class Page: ...",
    }
    assert plant(tmp_path, files) == [
        "fuzzkv/cases/a.py:1: the class name Page is also used at fuzzkv/report/a.py:1, fuzzkv/simulator/a.py:2",
    ]


def test_the_script_exits_1_on_a_bad_tree_and_0_on_a_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, {"semantics/a.py": "import numpy"})
    monkeypatch.setattr(sys, "argv", ["check_layers.py", str(tmp_path / "fuzzkv")])
    assert layers.main() == 1
    assert plant(tmp_path, {"semantics/a.py": ""}) == []
    assert layers.main() == 0
