"""Cases: made from a shrunk schedule, read back as the same recipe; refused where they can't be run."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.cases.casebook import label_of, make_case, title_of
from fuzzkv.cases.corpus import load_case, save_case, validate
from fuzzkv.errors import UsageError
from fuzzkv.oracles.conflict import smallest_failing
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, ARRIVE, STEP, TICK, Config, Event, Schedule
from fuzzkv.targets.model.recipe import Recipe, narrowed, outcomes, read_case
from tests.broken import CONFIG, gives_up_a_host_copy, policy, quotes_and_drops

# Two policies of which one trusts the host copy that the other gives up.
RELIES, TIDIES = policy("relies", quotes_and_drops), policy("tidies", gives_up_a_host_copy)


def relies_rule_events() -> tuple[Event, ...]:
    # relies: promises page 1 (line 0), drops the device copy (line 1); tidies: stores it, drops it on the host.
    relies, tidies = (ACT, 0, 0), (ACT, 1, 0)
    return ((ARRIVE, 0, 4), tidies, (TICK, 4, 0), relies, relies, tidies, (STEP, 0, 1))


@pytest.fixture
def recipe() -> Recipe:
    from tests import broken

    safe = policy("relies", broken.stores_quotes_and_drops)
    events = ((ARRIVE, 0, 4), (ACT, 0, 0), (TICK, 4, 0), (ACT, 0, 0), (ACT, 1, 0), (ACT, 1, 0), (STEP, 0, 1))
    return Recipe(Schedule(("relies", "tidies"), events), (safe, TIDIES), CONFIG)


def known(recipe: Recipe) -> dict[str, Policy]:
    return {chosen.name: chosen for chosen in recipe.policies}


def made(recipe: Recipe) -> dict[str, Any]:
    case = make_case(recipe, "I1", seed=3, schedules=10)
    assert case is not None
    return case


def test_a_case_says_what_happened(recipe: Recipe) -> None:
    case = made(recipe)
    assert case["class"] == {
        "policies": ["relies", "tidies"], "invariant": "I1", "action": "drop_host", "actor": "tidies",
    }  # fmt: skip
    assert case["title"] == "tidies destroys the host copy while relies relies on it" and case["label"] == ""
    assert [(arm["policies"], arm["verdict"]) for arm in case["arms"]] == [
        ([], "pass"), (["relies"], "pass"), (["tidies"], "pass"), (["relies", "tidies"], "fail"),
    ]  # fmt: skip
    violation = case["violation"]
    assert (violation["request"], violation["page"], violation["event"]) == (0, 1, 5)
    assert case["status"] == "candidate" and case["minimality"] == "1-minimal"
    assert case["exercised"]["tidies"]["drop_host"] == 1 and case["found"]["seed"] == 3
    assert case["replay"] == f"fuzzkv replay {case['id']}"


def test_a_case_follows_the_schema_and_comes_back_as_the_same_recipe(recipe: Recipe, tmp_path: Path) -> None:
    case = made(recipe)
    validate(case, "the test")
    saved = save_case(case, tmp_path)
    assert read_case(load_case(saved.path), allowed=known(recipe)) == recipe
    assert made(recipe) == case


def test_where_it_was_found_does_not_change_its_id(recipe: Recipe) -> None:
    other = make_case(recipe, "I1", seed=99, schedules=7)
    assert other is not None and other["id"] == made(recipe)["id"]


def test_what_shows_no_conflict_makes_no_case(recipe: Recipe) -> None:
    quiet = Recipe(recipe.schedule.with_events(recipe.schedule.events[:3]), recipe.policies, CONFIG)
    assert make_case(quiet, "I1", seed=0, schedules=1) is None and quiet.finding() is None
    assert make_case(recipe, "I14", seed=0, schedules=1) is None
    found = recipe.finding()
    assert found is not None and found.failure_class.policies == recipe.schedule.policies


def test_a_policy_that_fails_alone_makes_no_case() -> None:
    broken = Recipe(Schedule(("relies", "tidies"), relies_rule_events()), (RELIES, TIDIES), CONFIG)
    # Without tidies' store the policy drops the only copy of what it promised.
    assert make_case(broken, "I1", seed=0, schedules=1) is None
    assert smallest_failing(outcomes(broken.histories())) == [1]


def changed(case: dict[str, Any], **changes: Any) -> dict[str, Any]:
    other = copy.deepcopy(case)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place: Any = other
        for key in parents:
            place = place[int(key) if key.isdigit() else key]
        place[int(last) if last.isdigit() else last] = value
    return other


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policies__0__name": "nobody"}, r"FKV001: fkv-\w+: 'nobody': no policy of this name is registered"),
        ({"policies__0__version": "2"}, r"FKV006: fkv-\w+: relies 2: version 1 is installed"),
        ({"policies__0__parameters": {"near": 1}}, r"FKV005: fkv-\w+: relies: its parameters aren't those"),
        ({"config__frames": 1}, r"FKV032: fkv-\w+: its configuration isn't understood .*frames"),
        ({"schedule__1": ["act", "nobody", 0]}, r"FKV033: fkv-\w+: event 1 is \['act', 'nobody', 0\]"),
        ({"schedule__1": ["tock", 0, 0]}, r"FKV033: fkv-\w+: event 1 is \['tock', 0, 0\]"),
        ({"schedule__0": ["arrive", 0, 9]}, r"FKV033: fkv-\w+: event 0 .* b 1 to 8"),
    ],
)
def test_a_case_that_cannot_be_run_is_refused(recipe: Recipe, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_case(changed(made(recipe), **changes), allowed=known(recipe))


def test_a_case_imports_no_code(recipe: Recipe) -> None:
    case = changed(made(recipe), policies__0__name="tests.broken:CAREFUL")
    with pytest.raises(UsageError, match="FKV001"):
        read_case(case, allowed=known(recipe))


def test_narrowing_numbers_the_slots_anew(defaults: tuple[Policy, ...]) -> None:
    events = ((ARRIVE, 0, 2), (ACT, 0, 0), (ACT, 1, 0), (ACT, 2, 0))
    chosen, schedule = narrowed(defaults, 5, events)
    assert [p.name for p in chosen] == ["evict", "quant"] == list(schedule.policies)
    assert schedule.events == ((ARRIVE, 0, 2), (ACT, 0, 0), (ACT, 1, 0))


def test_labels_and_titles(recipe: Recipe) -> None:
    found = recipe.finding()
    assert found is not None
    assert label_of(["relies", "tidies"], found) == "" and title_of(["relies", "tidies"], found).startswith(
        "tidies "
    )
    assert json.dumps(Config().as_json())
