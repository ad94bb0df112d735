#!/usr/bin/env python3
"""Fail on an import cycle, an upward import, a library outside its own place, and a class name that is used twice.

``FLOORS`` says for each part of ``fuzzkv/`` what it stands on; ``LIBRARIES`` where a third-party library may be
imported; a part that isn't named there is an error. Imports inside functions and under ``if TYPE_CHECKING:`` count like
any other: they are only made later, or only by a type checker.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
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
    "simulator": frozenset({"errors", "core", "semantics", "strategies"}),
    "oracles": frozenset({"errors", "core", "semantics", "simulator"}),
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
    # Programs are started in one place; forks of this process that share its code are another matter.
    "subprocess": ("core.childproc",),
    "multiprocessing": ("search.workers", "solver.induction"),
    "concurrent.futures.ProcessPoolExecutor": ("solver.induction",),
}
STARTS = ("fork", "forkpty", "popen", "posix_spawn", "system")
"""What in ``os`` starts a process (and all that begins with ``exec`` and ``spawn``)."""
MAY_FORK = ("targets.vllm.pool.fork_server_main",)
STANDARD_ONLY = frozenset({"semantics", "errors", "events", "core"})


def imports_of(tree: ast.Module, module: str, package: bool) -> Iterator[tuple[int, str]]:
    """All modules that a module's tree imports, with their lines; relative imports are made absolute."""
    for node in ast.walk(tree):
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


def starts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Where a file starts processes by functions of ``os``: lines and names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "os":
            continue
        if node.attr in STARTS or node.attr.startswith(("exec", "spawn")):
            yield node.lineno, node.attr


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


def _is_in(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


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
    trees = {
        m: ast.parse(path.read_text(encoding="utf-8"), filename=str(path)) for m, path in modules.items()
    }
    edges: dict[str, set[str]] = {module: set() for module in modules}
    classes: dict[str, list[str]] = defaultdict(list)
    complaints = [
        f"{part}: no rule says which floor it is on"
        for part in sorted({part_of(module) for module in modules} - {""})
        if floor_of(part) < 0
    ]
    for module, path in modules.items():
        source = part_of(module)
        within = module.split(".", 1)[-1]
        for line, name in imports_of(trees[module], module, path.name == "__init__.py"):
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
            for library in {top, name}:
                places = LIBRARIES.get(library)
                if places is not None and not _is_in(within, places):
                    complaints.append(f"{where}: {library} may be imported only in {', '.join(places)}")
        for node in ast.walk(trees[module]):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(f"{path.relative_to(root.parent)}:{node.lineno}")
        if not _is_in(within, MAY_FORK):
            complaints += [
                f"{path.relative_to(root.parent)}:{line}: os.{name} starts a process, which core.childproc does"
                for line, name in starts_of(path)
            ]
    return sorted({*complaints, *cycles(edges), *shared_names(classes)})


def cycles(edges: Mapping[str, set[str]]) -> list[str]:
    """Import cycles between modules: for each group of modules that reach each other, a shortest cycle in it."""
    found = []
    left = set(edges)
    for module in sorted(edges):
        if module not in left:
            continue
        loop = shortest_loop(module, edges)
        if loop:
            found.append(f"import cycle: {' -> '.join(loop)}")
            ahead = reached(module, edges)
            left -= {other for other in ahead if module in reached(other, edges)}
    return found


def reached(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    """All modules that a module imports, directly or through others."""
    seen: set[str] = set()
    open_ = [start]
    while open_:
        for target in edges[open_.pop()] - seen:
            seen.add(target)
            open_.append(target)
    return seen


def shortest_loop(start: str, edges: Mapping[str, set[str]]) -> list[str]:
    """The shortest way from a module through its imports back to itself; empty if there is none."""
    came_from: dict[str, str] = {}
    level = [start]
    while level:
        following = []
        for module in level:
            for target in sorted(edges[module]):
                if target == start:
                    loop = [start]
                    while module != start:
                        loop.append(module)
                        module = came_from[module]
                    return [start, *reversed(loop)]
                if target not in came_from:
                    came_from[target] = module
                    following.append(target)
        level = following
    return []


def shared_names(classes: Mapping[str, list[str]]) -> list[str]:
    """A complaint for each class name that several classes have; ``classes`` maps a name to where classes have it."""
    return [
        f"{where[0]}: the class name {name} is also used at {', '.join(where[1:])}"
        for name, where in classes.items()
        if len(where) > 1
    ]


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
