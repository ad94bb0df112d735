"""Cases of the corpus that shrinking left too long: each names a shorter one of its class, found by asking the solver."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.cases.corpus import load_corpus
from fuzzkv.solver.certify import judge_of, target_of
from fuzzkv.targets.model.recipe import read_case

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in load_corpus(Path(__file__).parents[2] / "corpus")
}
OUTDONE = {
    ident: (match[1], int(match[2]))
    for ident, case in CASES.items()
    if (
        match := re.match(
            r"(fkv-\w+) shows the class in (\d+) events", case.get("certificate", {}).get("reason", "")
        )
    )
}


def test_there_are_some() -> None:
    assert len(OUTDONE) >= 8


@pytest.mark.parametrize("ident", OUTDONE)
def test_the_shorter_one_fails_as_the_longer_does(ident: str) -> None:
    other, events = OUTDONE[ident]
    longer, shorter = CASES[ident], CASES[other]
    assert shorter["class"] == longer["class"]
    assert len(shorter["schedule"]) == events < len(longer["schedule"])
    recipe = read_case(shorter)
    assert judge_of(recipe, target_of(shorter))(recipe.schedule.events) == recipe.schedule.events
