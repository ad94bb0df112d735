"""``fuzzkv verify --keep``: what was shown of the lengths of cases is in the corpus afterwards, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzzkv.cases.corpus import load_corpus, problems, save_case, write_index
from fuzzkv.errors import UsageError
from fuzzkv.semantics.schedule import STEP
from fuzzkv.simulator.interpreters import text_digest
from fuzzkv.solver.certify import shortest_in
from fuzzkv.solver.record_bounds import BoundRecorder
from fuzzkv.solver.verify import Refuted, Verification
from fuzzkv.targets.model.recipe import read_case
from tests.solver.test_verify import LAYOUT, NAMES, POLICIES, TRACE, case_of, verification

LONGER = (TRACE[0], (STEP, 0, 0), *TRACE[1:])


def kept(ours: Verification, found: Refuted, corpus: Path) -> tuple[list[str], list[str]]:
    """What is noted and what is filed of one class."""
    keeping = BoundRecorder(ours, corpus)
    keeping.add(found)
    return keeping.noted, keeping.filed


def test_a_length_that_was_shown_is_kept_and_believed(tmp_path: Path) -> None:
    ident = save_case(case_of(), tmp_path).case["id"]
    write_index(tmp_path)
    ours = verification()
    found = Refuted(NAMES, LAYOUT, TRACE, "proved", ident)
    assert kept(ours, found, tmp_path) == ([ident], [])
    [case] = load_corpus(tmp_path)
    assert shortest_in(case, ours.part, text_digest(POLICIES)) and not problems(tmp_path)
    assert ours.filed(tmp_path)[3][LAYOUT].shortest == "kept"
    # What is known already isn't written again.
    assert kept(ours, replace(found, shortest="kept"), tmp_path) == ([], [])


def test_a_shorter_schedule_is_filed_beside_the_old_case(tmp_path: Path) -> None:
    ident = save_case(case_of(LONGER, title="ours"), tmp_path).case["id"]
    ours = verification()
    told = kept(ours, Refuted(NAMES, LAYOUT, TRACE, "known"), tmp_path)
    new = ours.filed(tmp_path)[3][LAYOUT]
    assert told == ([], [new.case]) and (new.events, new.shortest) == (TRACE, "known")
    # Shown to be the shortest afterwards: noted in the case that is there by now.
    told = kept(ours, Refuted(NAMES, LAYOUT, TRACE, "proved"), tmp_path)
    new = ours.filed(tmp_path)[3][LAYOUT]
    assert told == ([new.case], [])
    old, short = sorted(load_corpus(tmp_path), key=lambda case: -len(case["schedule"]))
    assert old["id"] == ident and old["certificate"]["reason"] == f"{short['id']} shows the class in 3 events"
    assert short["title"] == "ours" and new.shortest == "kept" and not problems(tmp_path)
    assert read_case(short, allowed={p.name: p for p in POLICIES}).schedule.events == TRACE


def test_a_class_without_a_case_is_left_to_a_hunt(tmp_path: Path) -> None:
    save_case(case_of(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ours = verification()
    for target in (("I1", NAMES[0], "drop_host"), LAYOUT):
        found = Refuted(NAMES, target, TRACE, "known")
        assert kept(ours, found, tmp_path) == ([], [])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_length_that_was_kept_gives_way_to_a_shorter_schedule(tmp_path: Path) -> None:
    ident = save_case(case_of(LONGER), tmp_path).case["id"]
    ours = verification()
    assert kept(ours, Refuted(NAMES, LAYOUT, LONGER, "proved", ident), tmp_path) == ([ident], [])
    _, [short] = kept(ours, Refuted(NAMES, LAYOUT, TRACE, "known"), tmp_path)
    old = next(case for case in load_corpus(tmp_path) if case["id"] == ident)
    assert old["certificate"]["reason"] == f"{short} shows the class in 3 events" and not problems(tmp_path)


def test_what_was_filed_before_a_kill_is_told_in_the_old_case_later(tmp_path: Path) -> None:
    ident = save_case(case_of(LONGER), tmp_path).case["id"]
    short = save_case(case_of(), tmp_path).case["id"]
    assert kept(verification(), Refuted(NAMES, LAYOUT, TRACE, "proved", short), tmp_path) == ([short], [])
    old = next(case for case in load_corpus(tmp_path) if case["id"] == ident)
    assert old["certificate"]["reason"] == f"{short} shows the class in 3 events" and not problems(tmp_path)


def test_nothing_is_searched_where_nothing_could_be_kept(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="FKV019"):
        BoundRecorder(verification(), tmp_path / "none")
