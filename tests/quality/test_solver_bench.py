"""The solver's benchmark tells agreement from disagreement, and who was faster."""

from __future__ import annotations

from typing import Any

from bench.depths import SPURIOUS, Subject, subjects
from bench.solver import CHOSEN, EVERY, SOLVER, against, faults

REFUTED, CLEAN = subjects(quick=True)[:2]


def said(shortest: int | None, *, seconds: float = 1.0, ending: str = "") -> dict[str, Any]:
    """What one of them says."""
    ending = ending or ("depth" if shortest is None else "found")
    return {"shortest": shortest, "ending": ending, "seconds": seconds, "depths": []}


def wrong(subject: Subject, solver: Any, chosen: Any, every: Any) -> bool:
    """Whether the benchmark would fail."""
    return bool(faults(subject, {SOLVER: solver, CHOSEN: chosen, EVERY: every}))


def test_both_forms_are_on_the_same_scope() -> None:
    assert (REFUTED.form, CLEAN.form) == ("refuted", "clean")
    assert REFUTED.scope((8,)) == CLEAN.scope((8,))
    assert REFUTED.space.window == CLEAN.space.window


def test_other_shortest_depths_are_a_fault() -> None:
    assert not wrong(REFUTED, said(6), said(6), said(6))
    assert not wrong(REFUTED, said(6), said(6), said(None, ending="time"))
    assert wrong(REFUTED, said(6), said(7), said(6))
    assert wrong(REFUTED, said(6), said(6), said(5))
    assert wrong(REFUTED, said(6), said(None), said(6))


def test_what_wasnt_planted_or_is_spurious_is_a_fault() -> None:
    assert not wrong(CLEAN, said(None), said(None), said(None))
    assert wrong(CLEAN, said(6), said(6), said(6))
    assert wrong(REFUTED, said(None), said(None), said(None))
    assert wrong(REFUTED, *[said(SPURIOUS)] * 3)


def test_a_refuted_scope_without_an_answer_is_a_fault() -> None:
    assert wrong(REFUTED, said(None, ending="time"), said(6), said(6))
    assert wrong(REFUTED, said(6), said(None, ending="memory"), said(6))


def test_who_wins() -> None:
    assert against(said(6, seconds=2), said(6, seconds=6)) == ("solver", "the solver, 3.0 times as fast")
    assert against(said(6, seconds=8), said(6, seconds=2)) == ("search", "the search, 4.0 times as fast")
    slow = said(None, seconds=9, ending="time")
    assert against(said(6, seconds=3), slow) == ("solver", "the solver, more than 3.0 times as fast")
    assert against(slow, said(6, seconds=3)) == ("search", "the search, more than 3.0 times as fast")
    assert against(said(6, seconds=20), slow)[0] == "neither"
    assert against(said(6), said(None, ending="memory"))[0] == "solver"
