"""The checks before what is checked: each rule has a mutant that breaks it, and the clean twins break none."""

from __future__ import annotations

import pytest

from fuzzkv.targets.vllm.plugin.manager_calls import exercise_manager
from fuzzkv.targets.vllm.plugin.policy_calls import exercise_policy
from fuzzkv.targets.vllm.plugin.rules import rules_of
from tests.targets.vllm.plugin.users import Oldest, Shelf, mutants_of_managers, mutants_of_policies

POLICIES = mutants_of_policies()
MANAGERS = mutants_of_managers()


def test_a_clean_policy_breaks_no_rule_and_every_rule_is_tested() -> None:
    found = exercise_policy(Oldest, seed=1, examples=150)
    assert not found.broken and not found.unsteady
    # That a call returns is only noted where it doesn't.
    assert {rule.id for rule in rules_of("CachePolicy")} - set(found.checked) == {"policy-returns"}


def test_a_clean_manager_breaks_no_rule_and_every_rule_is_tested() -> None:
    found = exercise_manager(Shelf, seed=1, examples=150)
    assert not found.broken and not found.unsteady
    assert {rule.id for rule in rules_of("OffloadingManager")} - set(found.checked) == {"manager-returns"}


def test_every_rule_has_a_mutant() -> None:
    assert set(POLICIES) == {rule.id for rule in rules_of("CachePolicy")}
    assert {name.split()[0] for name in MANAGERS} == {rule.id for rule in rules_of("OffloadingManager")}


@pytest.mark.parametrize("rule", POLICIES)
def test_a_broken_policy_is_found(rule: str) -> None:
    found = exercise_policy(POLICIES[rule], seed=1, examples=150)
    assert rule in found.broken, found.broken.keys()
    broken = found.broken[rule]
    assert broken.violation.action == rule and len(broken.calls) <= 16, broken.calls


@pytest.mark.parametrize("rule", MANAGERS)
def test_a_broken_manager_is_found(rule: str) -> None:
    found = exercise_manager(MANAGERS[rule], seed=1, examples=400)
    assert rule.split()[0] in found.broken, found.broken.keys()
    broken = found.broken[rule.split()[0]]
    assert len(broken.calls) <= 120, broken.calls


def test_a_seed_gives_the_same_again() -> None:
    mutant = POLICIES["policy-evict-protected"]
    once, again = (exercise_policy(mutant, seed=3, examples=60) for _ in range(2))
    assert once.broken == again.broken and once.checked == again.checked


def test_calls_are_shrunk_to_what_is_needed() -> None:
    found = exercise_policy(POLICIES["policy-remove"], seed=1, examples=60)
    assert found.broken["policy-remove"].calls == (
        "on_store_miss([k0], r0)",
        "insert(k0, chunk 0)",
        "store failed: remove(k0)",
    )
