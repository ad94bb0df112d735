"""A target that fuzzkv has never heard of is hunted, shrunk, filed and replayed by what every target has, in under 150 lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fuzzkv.cases.corpus import case_id, load_corpus, problems
from fuzzkv.cases.reshrink import shrink_on
from fuzzkv.errors import UsageError
from fuzzkv.search.live.hunt import LiveHunt, LiveOptions, LiveResult
from fuzzkv.search.replaying import replay_on
from fuzzkv.targets.arms import judged
from fuzzkv.targets.base import Target
from tests.targets import second_toy
from tests.targets.second_toy import GHOST, LOG, RING, RingTarget, ToyPolicy, Writes

SHORTEST = [["write", 0], ["write", 1], ["write", 1], ["read", 0]]


def hunt(folder: Path, **options: Any) -> LiveResult:
    target: Target[Writes, ToyPolicy] = RingTarget(options.pop("fault", True))
    given = {"max_examples": 60, "max_time": None, "corpus": folder, **options}
    return LiveHunt(LiveOptions(policies=(GHOST, LOG, RING), **given), target).run()


def test_it_is_small() -> None:
    assert len(Path(second_toy.__file__).read_text().splitlines()) < 150


@pytest.mark.slow
def test_the_conflict_is_found_shrunk_filed_and_replayed(tmp_path: Path) -> None:
    result = hunt(tmp_path)
    assert result.exit_code == 1 and problems(tmp_path) == []
    (case,) = load_corpus(tmp_path)
    assert case["class"] == {
        "policies": ["log", "ring"],
        "invariant": "I1",
        "action": "lost",
        "actor": "ring",
    }
    assert len(case["schedule"]) <= len(SHORTEST) + 1
    again = replay_on(RingTarget(), case)
    assert again.fails and "3 of 3 subsets pass" in again.detail
    assert replay_on(RingTarget(fault=False), case).fails is False


@pytest.mark.slow
def test_the_clean_twin_is_silent(tmp_path: Path) -> None:
    result = hunt(tmp_path, fault=False)
    assert result.exit_code == 0 and list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_filed_case_shrinks_again(tmp_path: Path) -> None:
    (case,) = hunt(tmp_path).cases
    longer = {**case, "schedule": [["flush"], *case["schedule"], ["read", 5]]}
    longer["id"] = case_id(longer)
    assert len(shrink_on(RingTarget(), longer)["schedule"]) <= len(case["schedule"])
    assert shrink_on(RingTarget(), case) == case, "what nothing makes shorter stays as it is"
    with pytest.raises(UsageError, match="FKV024"):
        shrink_on(RingTarget(fault=False), case)


def test_a_bystander_is_left_out() -> None:
    schedule = Writes(2, tuple((name, tuple(numbers)) for name, *numbers in SHORTEST))
    session = RingTarget().session(keep=1)
    verdict = judged(session, session.run((GHOST, LOG, RING), schedule), schedule)
    assert verdict.word == "conflict" and verdict.whole.names == ("log", "ring")
