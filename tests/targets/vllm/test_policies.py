"""Live policies: what they make of an engine, which sets there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzzkv.core.results import Failure
from fuzzkv.errors import UsageError
from fuzzkv.search.live.generating import Novelty
from fuzzkv.search.live.plans import SIZE, covered, plan
from fuzzkv.targets.vllm.engine.config import EngineConfig, TierConfig
from fuzzkv.targets.vllm.history import LiveHistory, history_from_json
from fuzzkv.targets.vllm.language import EngineLanguage, distinct
from fuzzkv.targets.vllm.novelty import states
from fuzzkv.targets.vllm.policies import ALL, BY_NAME, compatible, compose, demand, driven, resolve
from fuzzkv.targets.vllm.schedule import LiveSchedule

LANGUAGE = EngineLanguage()


def named(*names: str) -> tuple:  # type: ignore[type-arg]
    return resolve([f"vllm:{name}" for name in names])


def test_every_policy_says_what_it_is() -> None:
    assert len(BY_NAME) == len(ALL) == 15
    for policy in ALL:
        assert policy.manifest.actions and policy.manifest.source.startswith("vLLM: ")
        assert policy.changes or policy.drives or policy.tier
        assert compose([policy]) != EngineConfig() or policy.drives
        assert policy.exact == (policy.manifest.kind != "quant")
    assert {p.manifest.kind for p in ALL} == {
        "offload",
        "quant",
        "reuse",
        "schedule",
        "evict",
        "renew",
        "rewind",
    }


def test_compose_adds_up() -> None:
    config = compose(named("offload-arc", "offload-chunk2", "kv-fp8", "prefix-cache"), EngineConfig(pages=9))
    assert config == EngineConfig(
        pages=9, kv_dtype="fp8", prefix_cache=True, tier=TierConfig(policy="arc", blocks_per_chunk=2)
    )
    assert compose([]) == EngineConfig()


@pytest.mark.parametrize(
    "pair", [("offload-lru", "offload-arc"), ("kv-fp8", "kv-fp8-e5m2"), ("kv-fp8", "kv-int8-per-token-head")]
)
def test_what_excludes_each_other(pair: tuple[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        compose(named(*pair))
    assert caught.value.code == "FKV100" and all(name in str(caught.value) for name in pair)
    assert not compatible(named(*pair))


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ([], "FKV002"),
        (["vllm:lora", "vllm:lora"], "FKV002"),
        (["vllm:lorra"], "FKV001"),
        (["offload"], "FKV001"),
    ],
)
def test_names_that_are_wrong(names: list[str], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(names)
    assert caught.value.code == code


def test_only_its_policy_makes_a_request_give_way() -> None:
    config = EngineConfig(pages=48)
    tight = LiveSchedule(9, 33, (("arrive", 0, 12, 40), ("arrive", 4, 20, 40)))
    assert demand(tight, 8) == (5 + 1) + (7 + 1)
    assert demand(tight, 1) == 8
    assert driven(named("preempt"), tight, config) == replace(tight, chunk=512)
    assert driven(named("chunked-prefill"), tight, config) == replace(tight, pool=14)
    assert driven(named("preempt", "chunked-prefill"), tight, config) == tight
    many = LiveSchedule(9, 33, (*tight.events, *(("fork", 0, 24, 40),) * 8))
    assert driven([], many, config).pool == 48
    assert driven(named("preempt"), replace(tight, pool=60), config).pool == 48


def test_with_adapters_every_request_has_one() -> None:
    events = (("arrive", 0, 4, 1), ("next", 2, 0, 0), ("arrive", 0, 4, 1), ("next", 0, 2, 0))
    met = driven(named("lora"), LiveSchedule(48, 512, events), EngineConfig())
    assert (met.adapter, met.events[1], met.events[3]) == (1, ("next", 2, 1, 0), ("next", 0, 2, 0))
    plain = driven(named("preempt"), LiveSchedule(48, 512, events), EngineConfig())
    assert (plain.adapter, plain.events) == (0, events)


def test_what_acted() -> None:
    lora, preempt, fp8 = BY_NAME["vllm:lora"], BY_NAME["vllm:preempt"], BY_NAME["vllm:kv-fp8"]
    acts = LiveHistory(log=(("publish", 1, 2),), counters={"adapted": 3, "preemptions": 0}).acts
    assert lora.acted(acts) and fp8.acted(acts) and not preempt.acted(acts)
    assert BY_NAME["vllm:prefix-cache"].acted(acts)


def test_sets_that_are_one_engine_with_fewer_are_left_out() -> None:
    assert not distinct(named("offload-lru", "offload-chunk2"))
    assert distinct(named("offload-arc", "offload-chunk2"))
    assert distinct(named("preempt", "prefix-cache"))
    some = named("offload-lru", "offload-arc", "offload-chunk2", "prefix-cache")
    pairs = [tuple(p.name[5:] for p in pair) for pair in LANGUAGE.groups(some, 2)]
    assert pairs == [
        ("offload-arc", "offload-chunk2"),
        ("offload-arc", "prefix-cache"),
        ("offload-chunk2", "prefix-cache"),
        ("offload-lru", "prefix-cache"),
    ]


def test_plans() -> None:
    some = named("offload-lru", "prefix-cache", "preempt")
    assert [len(s) for s in plan(LANGUAGE, some, strength=3, most=10)] == [2, 2, 2, 3]
    assert [len(s) for s in plan(LANGUAGE, some, strength=2, most=10)] == [2, 2, 2]
    for strength in (2, 3):
        sets = plan(LANGUAGE, ALL, strength=strength, most=20)
        assert all(compatible(s) and len(s) <= SIZE for s in sets)
        assert all(
            done == of for done, of in (covered(LANGUAGE, sets, ALL, size) for size in range(2, strength + 1))
        )
        assert len(sets) < (15 if strength == 2 else 50)


def test_a_history_is_plain_data() -> None:
    history = LiveHistory(
        tokens=((1, 2, -1),),
        margins=((0.5, 1.0),),
        log=(("alloc", 0, 3, 4), ("store+", 0, 3, 1)),
        counters={"stores": 1},
        failures=(Failure("I4", "foreign", "x", 1, 2, 0, 3, "y", 2),),
        steps=2,
        prompts=((7, 8),),
        adapters=(0,),
    )
    assert history_from_json(history.as_json()) == history and history.failed
    assert history.digest == replace(history, counters={}).digest != replace(history, log=()).digest


def test_abstract_states_leave_numbers_out() -> None:
    log = (
        ("step", 1),
        ("arrive", 0),
        ("alloc", 0, 3, 4),
        ("publish", 3, 0),
        ("offer", 0, 0),
        ("store+", 0, 3, 1),
        ("free", 0, 3, 4),
        ("evict", 3),
        ("store-", 0),
        ("store=", 0),
        ("ready", 0),
    )
    first = LiveHistory(log=log)
    moved = LiveHistory(log=tuple((row[0], *(int(n) + 1 for n in row[1:])) for row in log))
    assert states(first) == states(moved)
    assert ("block", "publish", "store+", "free", "1", "0") in states(first)
    novelty = Novelty()
    assert novelty.new(states(first)) == len(states(first)) and novelty.new(states(moved)) == 0
