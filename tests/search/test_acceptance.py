"""Acceptance: a policy that does what it doesn't declare, or fails, doesn't pass; the kept file stands only for what it was made for."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from fuzzkv.api import INT8, Cache, Custom, does
from fuzzkv.errors import UsageError
from fuzzkv.search.acceptance import edge_schedule, fault_of, load_acceptance, stands, try_alone
from fuzzkv.semantics.layout import COLUMNS
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.engine import BulkEngine


def with_policies(engine: BulkEngine, *policies: object) -> BulkEngine:
    """The compiled set with other data in the place of its policies (their rules are the same)."""
    other = copy.copy(engine)
    other.policies = tuple(policies)  # type: ignore[assignment]
    return other.again(seed=0)


@pytest.mark.slow
def test_the_defaults_pass_alone(compiled: BulkEngine) -> None:
    for policy in compiled.policies:
        alone = try_alone(compiled, policy.name, seed=3, schedules=2_000)
        assert alone.passed, alone.reason
        assert alone.reason == ""


class Remembers(Custom):
    """Counts its acts in the class."""

    kind = "quant"
    actions = does("quantise")
    acts: ClassVar[list[int]] = []

    def act(self, cache: Cache) -> None:
        """Every seventh act rewrites pages."""
        self.acts.append(1)
        for page in cache.pages:
            if len(self.acts) % 7 == 0:
                cache.quantise(page, INT8)


class Notes(Remembers):
    """Counts them where it may."""

    def act(self, cache: Cache) -> None:
        """The same."""
        cache.note += 1
        for page in cache.pages:
            if cache.note % 7 == 0:
                cache.quantise(page, INT8)


class Exits(Remembers):
    """Ends the process, with the code of a clean run."""

    def act(self, cache: Cache) -> None:
        """Leave."""
        raise SystemExit(0)


def test_a_rule_that_exits_is_no_pass() -> None:
    assert fault_of(Exits.as_policy(), Config()) == "its rule fails: SystemExit: 0"


def test_a_rule_that_remembers_other_runs_is_no_pass() -> None:
    assert "when a run is made again" in fault_of(Remembers.as_policy(), Config())
    assert fault_of(Notes.as_policy(), Config()) == ""


def test_an_undeclared_action_is_no_pass(compiled: BulkEngine) -> None:
    policies = list(compiled.policies)
    slot = compiled.names.index("quant")
    kept = tuple(a for a in policies[slot].manifest.actions if a.primitive != "quantise")
    policies[slot] = replace(policies[slot], manifest=replace(policies[slot].manifest, actions=kept))
    alone = try_alone(with_policies(compiled, *policies), "quant", seed=3, schedules=500)
    assert not alone.passed
    assert alone.undeclared == ("quantise",)
    assert "doesn't declare: quantise" in alone.reason


def test_a_bolder_quota_fails_alone(compiled: BulkEngine) -> None:
    policies = [policy.tuned(quota=600) if policy.name == "evict" else policy for policy in compiled.policies]
    alone = try_alone(with_policies(compiled, *policies), "evict", seed=3, schedules=20_000)
    assert alone.invariant == "I18"
    assert "breaks I18 alone" in alone.reason


def test_the_edge_schedule_charges_what_the_quota_allows(compiled: BulkEngine) -> None:
    schedule = edge_schedule(compiled, "evict", look=3_000)
    state = compiled.final_state(schedule.events, 1 << compiled.names.index("evict"))
    loss = COLUMNS["R_LOSS"]
    assert 0 < max(state[loss : loss + 2]) <= Config().ledger


@pytest.mark.slow
def test_the_kept_acceptance_stands_for_the_defaults_only(compiled: BulkEngine) -> None:
    kept = load_acceptance()
    for policy in compiled.policies:
        assert stands(kept, policy, Config()), policy.name
        assert kept["policies"][policy.name]["engine"]["decision"] == "within-margin"
        name = next(iter(policy.parameters))
        assert not stands(kept, policy.tuned(**{name: policy.parameters[name] + 1}), Config())
        assert not stands(kept, policy, Config(ledger=251))
        other = {"policies": {policy.name: {**kept["policies"][policy.name], "rule": "0" * 16}}}
        assert not stands(other, policy, Config())
        failed = {"policies": {policy.name: {**kept["policies"][policy.name], "passed": False}}}
        assert not stands(failed, policy, Config())


def test_an_own_file_is_read_too_and_a_broken_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert set(load_acceptance()["policies"]) == {"evict", "offload", "quant"}
    (tmp_path / "acceptance.json").write_text("not JSON")
    with pytest.raises(UsageError, match=r"FKV076.*is no acceptance file"):
        load_acceptance()
