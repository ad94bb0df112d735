"""``fuzzkv verify --keep``: what was shown of the lengths of cases is in the corpus afterwards, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzzkv.casebook import read_case
from fuzzkv.certify import shortest_in
from fuzzkv.contract.schedule import STEP
from fuzzkv.corpus import load_corpus, problems, save_case, write_index
from fuzzkv.keeping import Kept, keep
from fuzzkv.machine.readers import text_digest
from fuzzkv.verify import Refuted, SetVerdict, Verified
from tests.test_verify import LAYOUT, NAMES, POLICIES, TRACE, WINDOW, case_of, verification

LONGER = (TRACE[0], (STEP, 0, 0), *TRACE[1:])


def result_of(found: Refuted) -> Verified:
    return Verified(WINDOW, [SetVerdict(NAMES, (found,), 2, "depth", 0, 3)])


def test_a_length_that_was_shown_is_kept_and_believed(tmp_path: Path) -> None:
    ident = save_case(case_of(), tmp_path).case["id"]
    write_index(tmp_path)
    ours = verification()
    found = Refuted(NAMES, LAYOUT, TRACE, "proved", ident)
    assert keep(ours, result_of(found), tmp_path) == Kept((ident,), ())
    [case] = load_corpus(tmp_path)
    assert shortest_in(case, ours.part, text_digest(POLICIES)) and not problems(tmp_path)
    assert ours.filed(tmp_path)[3][LAYOUT].shortest == "kept"
    # What is known already isn't written again.
    assert keep(ours, result_of(replace(found, shortest="kept")), tmp_path) == Kept((), ())


def test_a_shorter_schedule_is_filed_beside_the_old_case(tmp_path: Path) -> None:
    ident = save_case(case_of(LONGER, title="ours"), tmp_path).case["id"]
    ours = verification()
    kept = keep(ours, result_of(Refuted(NAMES, LAYOUT, TRACE, "known")), tmp_path)
    new = ours.filed(tmp_path)[3][LAYOUT]
    assert kept == Kept((), (new.case,)) and (new.events, new.shortest) == (TRACE, "known")
    # Shown to be the shortest afterwards: noted in the case that is there by now.
    kept = keep(ours, result_of(Refuted(NAMES, LAYOUT, TRACE, "proved")), tmp_path)
    new = ours.filed(tmp_path)[3][LAYOUT]
    assert kept == Kept((new.case,), ())
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
        assert keep(ours, result_of(found), tmp_path) == Kept((), ())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
