#!/usr/bin/env python3
"""Fail on an import cycle, on an import that runs upwards, and on a library used outside its own place.

``FLOORS`` says for each part of ``fuzzkv/`` what it stands on; ``LIBRARIES`` where a third-party library may be
imported; a part that isn't named there is an error. Imports inside functions count too (they are only lazy); those under
``if TYPE_CHECKING:`` do not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "events"),
    ("core",),
    ("semantics",),
    ("policies", "strategies"),
    ("simulator",),
    ("oracles",),
    ("targets",),
    ("cases",),
    ("modelcheck", "solver"),
    ("explain",),
    ("metadata", "search"),
    ("gate",),
    ("api", "doctor", "report"),
    ("cli",),
    ("__main__",),
)
"""The floors, bottom up. A part may import what is below its floor, less what ``NARROW`` takes away; parts of one
floor don't know each other.
"""

NARROW: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "events": frozenset(),
    "core": frozenset({"errors"}),
    "semantics": frozenset({"errors"}),
    "policies": frozenset({"errors", "semantics"}),
    "strategies": frozenset({"errors", "semantics"}),
    "simulator": frozenset({"errors", "semantics", "strategies"}),
    "oracles": frozenset({"errors", "semantics", "simulator"}),
    "api": frozenset({"semantics"}),
    "report": frozenset({"errors", "events", "core"}),
}
"""All that these parts may import."""

LIBRARIES: dict[str, tuple[str, ...]] = {
    "z3": ("solver", "simulator.symbolic.terms"),
    "torch": ("targets.vllm",),
    "vllm": ("targets.vllm",),
    "transformers": ("targets.vllm",),
    "gguf": ("targets.vllm.replay",),
    "safetensors": ("targets.vllm",),
    "numba": ("simulator", "modelcheck", "strategies"),
    "llvmlite": ("simulator.bulk.pointers",),
    "covertable": ("strategies.covering_arrays",),
    "networkx": ("explain",),
    "drawsvg": ("explain.figure",),
    "click": ("cli",),
    "rich": ("report", "cli", "doctor"),
}
STANDARD_ONLY = frozenset({"semantics", "errors", "events", "core"})


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


def floor_of(part: str) -> int:
    """The number of a part's floor; -1 for a part without one."""
    return next((number for number, floor in enumerate(FLOORS) if part in floor), -1)


def allowed(source: str, target: str) -> bool:
    """Whether part ``source`` may import part ``target``; everyone may read the package's own version."""
    if source == target or not target:
        return True
    if not source or min(floor_of(source), floor_of(target)) < 0:
        return False
    return target in NARROW[source] if source in NARROW else floor_of(target) < floor_of(source)


def check(root: Path) -> list[str]:
    """All complaints about the package at ``root``, sorted."""
    modules = modules_of(root)
    edges: dict[str, set[str]] = {module: set() for module in modules}
    complaints = [
        f"{part}: no rule says which floor it is on"
        for part in sorted({part_of(module) for module in modules} - {""})
        if floor_of(part) < 0
    ]
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
