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


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("contract/a.py", "import numpy", "only the standard library, not numpy"),
        ("contract/a.py", "from fuzzkv.simulator import b", "contract may not import fuzzkv.simulator"),
        ("contract/a.py", "from ..machine import b", "contract may not import fuzzkv.simulator"),
        ("policies/a.py", "import fuzzkv.simulator.b", "policies may not import fuzzkv.simulator.b"),
        (
            "oracles/a.py",
            "def f():\n    from fuzzkv import hunt",
            "oracles may not import fuzzkv.search.hunt",
        ),
        ("replay/a.py", "from fuzzkv.search.hunt import x", "replay may not import fuzzkv.search.hunt"),
        ("hunt.py", "from fuzzkv.report.console import x", "hunt may not import fuzzkv.report"),
        ("report/a.py", "from fuzzkv.search.hunt import x", "report may not import fuzzkv.search.hunt"),
        ("corpus.py", "from fuzzkv.search.hunt import x", "corpus may not import fuzzkv.search.hunt"),
        ("machine/a.py", "import z3", "z3 may be imported only in solver, machine.terms"),
        ("oracles/a.py", "import torch.nn", "torch may be imported only in replay"),
        ("hunt.py", "from numba import njit", "numba may be imported only in machine"),
        ("machine/a.py", "from llvmlite import ir", "llvmlite may be imported only in machine.pointers"),
        ("machine/a.py", "import covertable", "covertable may be imported only in machine.plans"),
    ],
)
def test_a_planted_edge_is_found(tmp_path: Path, file: str, text: str, words: str) -> None:
    tree = {"machine/__init__.py": "", "machine/b.py": "", "report/console.py": "", "hunt.py": ""}
    complaints = plant(tmp_path, {**tree, file: text})
    assert any(words in complaint and f"fuzzkv/{file}:" in complaint for complaint in complaints)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("machine/terms.py", "import z3"),
        ("machine/a.py", "from fuzzkv.semantics import x\nimport numba"),
        (
            "contract/a.py",
            "from __future__ import annotations\nimport dataclasses\nfrom fuzzkv.errors import x",
        ),
        ("contract/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy"),
        ("cli.py", "from fuzzkv.report.console import x\nfrom fuzzkv.search.hunt import y"),
        ("hunt.py", "from fuzzkv.cases.corpus import x\nfrom fuzzkv.targets.vllm.replay import y"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, file: str, text: str) -> None:
    tree = {
        "hunt.py": "",
        "errors.py": "",
        "corpus.py": "",
        "replay/__init__.py": "",
        "report/console.py": "",
    }
    assert plant(tmp_path, {**tree, "contract/__init__.py": "", file: text}) == []


def test_a_cycle_is_found(tmp_path: Path) -> None:
    files = {
        "machine/a.py": "from fuzzkv.simulator import b",
        "machine/b.py": "def f():\n    import fuzzkv.simulator.a",
    }
    assert plant(tmp_path, {"machine/__init__.py": "", **files}) == [
        "import cycle: fuzzkv.simulator.a -> fuzzkv.simulator.b -> fuzzkv.simulator.a"
    ]


def test_the_script_exits_1_on_a_bad_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"contract/a.py": "import numpy"})
    monkeypatch.setattr(sys, "argv", ["check_layers.py", str(tmp_path / "fuzzkv")])
    assert layers.main() == 1
    monkeypatch.setattr(sys, "argv", ["check_layers.py", str(ROOT / "fuzzkv")])
    assert layers.main() == 0
