"""The compiled interpreter: one core for every policy set, and each rule compiled on its own.

The core is the written-out text of all events with the functions of ``simulator.bulk.search`` behind it; it knows no
policy.  A rule of the vocabulary becomes a C function of its own, which the core calls by its address, so a new
set costs nothing and a new policy a second or two, once.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fuzzkv.semantics import copies, facts, frames, identity, layout, schedule, sessions
from fuzzkv.semantics.contract import clauses, minimal, predicates
from fuzzkv.semantics.layout import SIZE
from fuzzkv.semantics.ops import (
    accounting,
    admission,
    evidence_checks,
    generation,
    groups,
    index,
    primitives,
    renewal,
    rewind,
    scales,
    transfers,
    workload,
)
from fuzzkv.semantics.policy import Policy, Rule
from fuzzkv.semantics.schedule import ACT, OPS
from fuzzkv.simulator import interpreters
from fuzzkv.simulator.bulk import search
from fuzzkv.simulator.bulk.store import is_kept, load_compiled, load_known
from fuzzkv.simulator.interpreters import EVENTS, python_apply, text_of
from fuzzkv.simulator.linker import span, unique_name, write_out
from fuzzkv.strategies import drawing, novelty
from fuzzkv.strategies.covering_arrays import enabled

FUNCTIONS = (
    minimal.is_subset,
    minimal.smallest,
    minimal.touches,
    drawing.mix,
    drawing.below,
    drawing.choose,
    drawing.within,
    drawing.shape,
    drawing.spin,
    drawing.of_actor,
    drawing.draw,
    drawing.copy_row,
    drawing.copy_rows,
    drawing.mutate,
    novelty.step_of,
    novelty.features,
    novelty.watch,
    novelty.remember,
    search.begin,
    search.run,
    search.failed,
    search.acted,
    search.follows,
    search.shows,
    search.entry,
    search.judge,
    search.search,
)
"""What is compiled behind the text, callees first."""
_TUPLES: tuple[Any, ...] = (drawing.Draws, novelty.Pool, search.Lanes, search.Met)
_NJIT = "@njit(cache=True)\n"
_TEXTS = (
    facts,
    identity,
    clauses,
    predicates,
    copies,
    frames,
    transfers,
    index,
    primitives,
    sessions,
    admission,
    generation,
    groups,
    rewind,
    scales,
    renewal,
    accounting,
    evidence_checks,
    workload,
)
"""Modules whose functions a rule finds compiled in the core."""
_RULE = """
from numba import carray, cfunc, njit, types
from {core} import *

{text}

@cfunc(types.void(types.CPointer(types.int64), types.int64), cache=True)
def rule(p, k):
    {name}(carray(p, {size}), k)
"""


def _dispatch() -> str:
    """``apply(s, op, a, b, mask, rules)``: one event of a schedule; the policy in slot ``a`` acts only if its bit
    is in ``mask``."""
    lines = [_NJIT + "def apply(s, op, a, b, mask, rules):"]
    lines.append(f"    if op == {ACT}:")
    lines.append("        if mask >> a & 1:")
    lines.append("            call_rule(rules[a], s, a)")
    for op in EVENTS:
        lines.append(f"    elif op == {OPS.index(op)}:")
        lines.append(f"        {unique_name(text_of(op))}(s, a, b)")
    return "\n".join(lines) + "\n"


def _numbers() -> str:
    """The numbers that the functions use, by value: with one of them the source changes, and so its hash."""
    used = {name for function in FUNCTIONS for name in function.__code__.co_names}
    found = {}
    for space in (layout, schedule, drawing, novelty, search):
        found.update({name: value for name, value in vars(space).items() if isinstance(value, (int, tuple))})
    return "\n".join(f"{name} = {found[name]!r}" for name in sorted(used & set(found)))


def core_texts() -> dict[str, Any]:
    """The functions of the contract that the core has, by their names there."""
    roots = [text_of(op) for op in EVENTS]
    for module in _TEXTS:
        roots += [
            f
            for f in vars(module).values()
            if isinstance(f, FunctionType) and f.__module__ == module.__name__
        ]
    return {unique_name(function): function for function in roots}


def core_source() -> str:
    """The source of the core."""
    from fuzzkv.simulator.bulk import pointers

    parts = [
        "from typing import Any",
        "import numpy as np",
        "from numba import njit",
        inspect.getsource(pointers).partition("from __future__ import annotations")[2],
        _numbers(),
        write_out(core_texts().values(), trace=False, prefix=_NJIT, typed=True),
        _dispatch(),
        f"damage = {unique_name(facts.damage)}",
        # The types of the arguments belong to what was compiled.
        "\n".join(f"# {kind.__name__}: {', '.join(kind._fields)}" for kind in _TUPLES),
        *(_NJIT + inspect.getsource(function) for function in FUNCTIONS),
    ]
    return "\n\n".join(parts)


def _known_by() -> str:
    """What the core is written out from, which takes half a second itself: the text of these packages."""
    folders = (Path(str(module.__file__)).parent for module in (layout, interpreters, drawing))
    return "".join(
        path.read_text() for path in sorted(path for folder in folders for path in folder.rglob("*.py"))
    )


@lru_cache(maxsize=1)
def core() -> ModuleType:
    """The compiled core (half a minute the first time, then from the cache)."""
    return load_known(_known_by(), "core", core_source)


def core_is_kept() -> bool:
    """Whether the search of the core is in the cache, so that nobody has to wait for it."""
    return is_kept(_known_by(), "core", search.search.__name__)


@lru_cache(maxsize=256)
def rule_address(rule: Rule) -> int:
    """The address of a compiled rule.  Raises ``UsageError`` (FKV036) for one that leaves the vocabulary."""
    name = unique_name(rule)
    text = write_out([rule], trace=False, prefix=_NJIT, apart=core_texts(), typed=True)
    source = _RULE.format(core=core().__name__, text=text, name=name, size=SIZE)
    return int(load_compiled(source, name).rule.address)


def span_of(policies: Sequence[Policy]) -> int:
    """How far into a state the events that are drawn for a set and its rules reach: behind that nothing changes,
    and nothing has to be reset.  A free rule may reach everything.
    """
    if any(policy.free for policy in policies):
        return SIZE
    texts = [text_of(OPS[op]) for op in enabled(policies) if op != ACT] + [facts.damage]
    return span([*texts, *(policy.rule for policy in policies)])


def interpreted(policies: tuple[Policy, ...]) -> dict[str, Any]:
    """The functions of the core with nothing compiled: they read the written-out Python text."""
    reader = python_apply(policies)
    space = {**vars(drawing), **vars(novelty), **vars(search)}
    space["apply"] = lambda s, op, a, b, mask, rules: reader(s, op, a, b, mask)
    space["damage"] = facts.damage
    space.update({function.__name__: FunctionType(function.__code__, space) for function in FUNCTIONS})
    return space
