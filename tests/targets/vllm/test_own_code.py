"""A user's own engine code as a live policy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuzzkv.errors import UsageError
from fuzzkv.targets.vllm.plugin.own_code import allowed, own_policy, resolve_all
from fuzzkv.targets.vllm.policies import compatible, compose, resolve
from fuzzkv.targets.vllm.target import read_engine_case
from tests.cases.test_live_cases import live_case

SIEVE = "docs/examples/sieve.py:Sieve"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")


@pytest.mark.engine
@pytest.mark.slow
def test_a_cache_policy_of_ones_own() -> None:
    policy, prefix = resolve_all([SIEVE, "vllm:prefix-cache"])
    assert policy.name == "user:Sieve" and prefix.name == "vllm:prefix-cache"
    tier = compose([policy, prefix]).tier
    assert tier is not None and (tier.policy, tier.module) == ("Sieve", "sieve")
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(Path("docs/examples").resolve()), "/somewhere"]
    assert not compatible([policy, *resolve(["vllm:offload-lru"])])
    assert policy.version == own_policy(SIEVE).version != policy.name
    assert os.environ["PYTHONPATH"].count("examples") == 1


@pytest.mark.engine
@pytest.mark.slow
def test_a_case_runs_it_only_where_it_is_allowed() -> None:
    own = allowed([SIEVE])
    entry = {"name": "user:Sieve", "version": own["user:Sieve"].version, "parameters": {}}
    case = {**live_case(), "policies": [entry]}
    with pytest.raises(UsageError, match="FKV001"):
        read_engine_case(case)
    assert read_engine_case(case, allowed=own).policies == (own["user:Sieve"],)
    with pytest.raises(UsageError, match="FKV006"):
        read_engine_case({**case, "policies": [{**entry, "version": "0"}]}, allowed=own)


def test_names_without_a_path() -> None:
    assert [p.name for p in resolve_all(["vllm:preempt", "vllm:lora"])] == ["vllm:lora", "vllm:preempt"]
    for names, code in ((["sieve"], "FKV001"), ([], "FKV002")):
        with pytest.raises(UsageError) as caught:
            resolve_all(names)
        assert caught.value.code == code
