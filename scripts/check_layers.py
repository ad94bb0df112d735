#!/usr/bin/env python3
"""Fail on an import cycle, on an import that runs upwards, and on a library used outside its own place.

``RULES`` says for each part of ``fuzzkv/`` which other parts it may import; ``LIBRARIES`` where a
third-party library may be imported. Imports inside functions count too (they are only lazy); those under
``if TYPE_CHECKING:`` do not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ANYWHERE = frozenset({"errors"})
"""Parts that everyone may import; they import the standard library only."""

RULES: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "contract": frozenset(),
    "machine": frozenset({"contract"}),
    "policies": frozenset({"contract"}),
    "solver": frozenset({"contract", "machine"}),
    "strategies": frozenset({"contract", "machine", "policies"}),
    "oracles": frozenset({"contract", "machine"}),
    "replay": frozenset({"contract", "machine", "oracles", "canonical", "files", "events"}),
    "audit": frozenset({"replay", "oracles", "canonical", "files"}),
    "events": frozenset(),
    "canonical": frozenset(),
    "files": frozenset(),
    "corpus": frozenset({"canonical", "files"}),
}
"""Parts that are not named here stand on top and may import everything but the command line and the
reports.
"""

TOP = frozenset({"cli", "__main__", "report"})
REPORT_MAY = frozenset({"events", "canonical", "corpus", "files", "contract"})

LIBRARIES: dict[str, tuple[str, ...]] = {
    "z3": ("solver", "machine.terms"),
    "torch": ("replay", "live", "audit.torch_cache"),
    "vllm": ("replay", "live", "audit.vllm_prefix", "audit.capture"),
    "transformers": ("replay", "audit.torch_cache"),
    "gguf": ("replay",),
    "safetensors": ("replay", "live"),
    "numba": ("machine",),
    "llvmlite": ("machine.pointers",),
    "covertable": ("machine.plans",),
    "click": ("cli",),
    "rich": ("report", "cli", "doctor"),
}
STANDARD_ONLY = frozenset({"contract", "errors", "events", "canonical", "files"})


def imports_of(path: Path, module: str, package: bool) -> Iterator[tuple[int, str]]:
    """All modules that a file imports, with their lines; relative imports are made absolute."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    skipped = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for child in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parents = parts[: len(parts) - node.level + (1 if package else 0)]
                base = ".".join([*parents, base] if base else parents)
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def modules_of(root: Path) -> dict[str, Path]:
    """Module name (``fuzzkv.simulator.run``) to file, for everything under ``root`` (the ``fuzzkv`` folder)."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = list(path.relative_to(root.parent).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def part_of(module: str) -> str:
    """``"machine"`` for ``fuzzkv.simulator.run``; the empty string for ``fuzzkv`` itself."""
    return module.split(".")[1] if "." in module else ""


def allowed(source: str, target: str) -> bool:
    """Whether part ``source`` may import part ``target``."""
    if source == target or target in ANYWHERE or not target or not source:
        return source != "" or target == ""
    if source in ("cli", "__main__"):
        return True
    if source == "report":
        return target in REPORT_MAY
    if source in RULES:
        return target in RULES[source]
    return target not in TOP


def check(root: Path) -> list[str]:
    """All complaints about the package at ``root``, sorted."""
    modules = modules_of(root)
    edges: dict[str, set[str]] = {module: set() for module in modules}
    complaints = []
    for module, path in modules.items():
        source = part_of(module)
        within = module.split(".", 1)[-1]
        for line, name in imports_of(path, module, path.name == "__init__.py"):
            top = name.split(".")[0]
            where = f"{path.relative_to(root.parent)}:{line}"
            if top == root.name:
                target = name
                while target not in modules and "." in target:
                    target = target.rpartition(".")[0]
                if target != module:
                    edges[module].add(target)
                if not allowed(source, part_of(target)):
                    complaints.append(f"{where}: {source or root.name} may not import {target}")
            elif source in STANDARD_ONLY and top not in sys.stdlib_module_names:
                complaints.append(f"{where}: {source} imports only the standard library, not {top}")
            elif top in LIBRARIES and not any(
                within == place or within.startswith(f"{place}.") for place in LIBRARIES[top]
            ):
                complaints.append(f"{where}: {top} may be imported only in {', '.join(LIBRARIES[top])}")
    return sorted({*complaints, *cycles(edges)})


def cycles(edges: dict[str, set[str]]) -> list[str]:
    """Import cycles between modules, each told once. A package's import of its own submodules is no edge
    back.
    """
    state: dict[str, int] = {}
    found: list[str] = []

    def visit(module: str, trail: list[str]) -> None:
        state[module] = 1
        for target in sorted(edges[module]):
            if state.get(target) == 1:
                loop = [*trail, module][[*trail, module].index(target) :]
                found.append(f"import cycle: {' -> '.join([*loop, target])}")
            elif target not in state:
                visit(target, [*trail, module])
        state[module] = 2

    for module in sorted(edges):
        if module not in state:
            visit(module, [])
    return found


def main() -> int:
    """Check the package beside this script; print complaints; 1 if there are any."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "fuzzkv"
    complaints = check(root)
    for complaint in complaints:
        print(complaint)
    print(f"layers: {len(complaints)} complaints in {len(modules_of(root))} modules")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
