"""Verdicts of an audit: noise first, then each cell, then each way, then the exit code.

Pure: plain data in, plain data out, so a report can be judged again from its cells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT
from fuzzkv.targets.vllm.audit.compare import CEILING, ULP, decimal, judge, limit

Key = tuple[str, str]
VERDICTS: Final = ("same", "numeric-tie", "differs", "refused")
EXPECTED: Final = {"safe": "same", "unsafe": "differs", "control": "differs", "twin": "noise"}
"""What each role of a way is expected to come to. A safe way may also refuse, aloud."""


def noises(cells: Iterable[Mapping[str, Any]]) -> dict[Key, float]:
    """For each engine and model: the difference beyond which two runs differ."""
    return {
        key: limit([(_most(cell), float(cell["largest"])) for cell in twins])
        for key, twins in _twins(cells).items()
    }


def noise_rows(cells: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same as a part of the report, with what was measured."""
    return [
        {
            "engine": key[0],
            "model": key[1],
            "pairs": len(twins),
            "measured": decimal(max(map(_most, twins))),
            "ulp": decimal(max(float(cell["largest"]) for cell in twins) * ULP),
            "limit": decimal(limit([(_most(cell), float(cell["largest"])) for cell in twins])),
        }
        for key, twins in _twins(cells).items()
    ]


def cell_verdict(cell: Mapping[str, Any], noise: float) -> str:
    """``same``, ``numeric-tie``, ``differs`` or ``refused``. More served from a prefix cache than the prompt shares
    with what was cached is a difference too, whatever the logits say; so is a rebuilt cache that is too far from
    another rebuilt one for noise."""
    if "refused" in cell:
        return "refused"
    if _foreign(cell) or (cell["role"] == "twin" and not _is_noise(cell)):
        return "differs"
    return judge(_most(cell), agree=cell["agree"] == cell["of"], noise=noise)


def way_rows(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a way, from cells with their verdicts. ``ok`` is false where a safe way differs, or a rebuilt cache
    by more than noise; ``blind`` true where something that has to differ never did, or where a prefix cache served nothing."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for cell in cells:
        groups[tuple(cell[name] for name in ("engine", "model", "cache", "way", "role"))].append(cell)
    return [_way(key, group) for key, group in groups.items()]


def _way(key: tuple[str, ...], cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    engine, model, cache, way, role = key
    counts = {word: sum(c["verdict"] == word for c in cells) for word in VERDICTS}
    ran = [c for c in cells if "refused" not in c]
    served = sum(c["retained"][0] > 0 for c in ran)
    expected = EXPECTED[role]
    needs_hits = cache == "prefix" and role == "safe"
    return {
        "engine": engine,
        "model": model,
        "cache": cache,
        "way": way,
        "role": role,
        "expected": expected,
        "cells": len(cells),
        **counts,
        "torn": sum(len(set(c.get("left", ()))) > 1 for c in cells),
        "why": sorted({c["refused"] for c in cells if "refused" in c}),
        "flips": sum(c["greedy"][0] != c["greedy"][1] for c in ran),
        "most": decimal(_largest(map(_most, ran))),
        "kl": decimal(_largest(float(c["kl"]) for c in ran)),
        "agree": sum(c["agree"] for c in ran),
        "of": sum(c["of"] for c in ran),
        "served": served if cache == "prefix" else 0,
        "ok": expected == "differs" or not counts["differs"],
        "blind": (expected == "differs" and not counts["differs"]) or (needs_hits and not served),
    }


def exit_code(ways: Sequence[Mapping[str, Any]], errors: Sequence[Any]) -> int:
    """1: a safe way differs; 3: nothing was audited, an engine failed, or the audit was blind; 0: as expected."""
    if any(not way["ok"] for way in ways):
        return EXIT_CONFLICT
    if not ways or errors or any(way["blind"] for way in ways):
        return EXIT_ENVIRONMENT
    return EXIT_CLEAN


def _twins(cells: Iterable[Mapping[str, Any]]) -> dict[Key, list[Mapping[str, Any]]]:
    found: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    for cell in cells:
        if cell["role"] == "twin" and "refused" not in cell and _is_noise(cell):
            found[cell["engine"], cell["model"]].append(cell)
    return found


def _foreign(cell: Mapping[str, Any]) -> bool:
    """Whether a prefix cache served more than was shared."""
    return "common" in cell and bool(cell["retained"][0] > cell["common"])


def _is_noise(cell: Mapping[str, Any]) -> bool:
    return not _foreign(cell) and _most(cell) <= CEILING * float(cell["largest"])


def _most(cell: Mapping[str, Any]) -> float:
    return _largest((float(cell["decision"]), float(cell["forced"])))


def _largest(numbers: Iterable[float]) -> float:
    """The largest; nan if one isn't a number, 0 of none."""
    found = list(numbers)
    return next((x for x in found if x != x), max(found, default=0.0))
