"""What runs in an engine's environment imports nothing that only this environment has, not even inside a function."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

import fuzzkv
from fuzzkv.core.interpreter import PACKAGE
from fuzzkv.targets.vllm.conform.conformance import LOOKING
from fuzzkv.targets.vllm.target import BOUNDARY, CONTENT
from tests.scripts.test_check_layers import layers

WORKERS = (
    "fuzzkv.targets.vllm.engine.worker",
    "fuzzkv.targets.vllm.engine.attempts",
    "fuzzkv.targets.vllm.content.control",
    "fuzzkv.targets.vllm.pool.fork_server_main",
    *(name.partition(":")[0] for name in (CONTENT, BOUNDARY, LOOKING)),
)
OF_AN_ENGINE = {"vllm", "torch", "numpy", "safetensors", "transformers"}
"""What every environment with vLLM has."""
OF_THE_LANGUAGE_MODEL = {"gguf"}
"""What is imported only to build a model that no engine of a hunt runs."""


def libraries(entries: Iterable[str]) -> set[str]:
    """Third-party packages that these modules, and those of fuzzkv that they import, import anywhere."""
    modules, found, seen, todo = layers.modules_of(PACKAGE), set[str](), set[str](), list(entries)
    while todo:
        module = todo.pop()
        if module in seen:
            continue
        seen.add(module)
        path = modules[module]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for _, name in layers.imports_of(tree, module, path.name == "__init__.py"):
            top = name.split(".")[0]
            if top == fuzzkv.__name__:
                parts = name.split(".")
                todo += [part for n in range(len(parts)) if (part := ".".join(parts[: n + 1])) in modules]
            elif top not in sys.stdlib_module_names:
                found.add(top)
    return found


def test_workers_need_an_engine_and_nothing_else() -> None:
    assert libraries(WORKERS) <= OF_AN_ENGINE | OF_THE_LANGUAGE_MODEL


def test_the_walk_finds_what_only_this_environment_has() -> None:
    assert {"z3", "numba"} <= libraries(["fuzzkv.solver.verify"])
    assert "rich" in libraries(["fuzzkv.doctor"]) | libraries(["fuzzkv.report.console"])
