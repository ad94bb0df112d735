"""What an engine is, as data."""

from __future__ import annotations

import pytest

from fuzzkv.errors import UsageError
from fuzzkv.targets.vllm.engine.config import EngineConfig, TierConfig


def test_json_and_back() -> None:
    config = EngineConfig(prefix_cache=True, tier=TierConfig(policy="arc", blocks_per_chunk=2))
    assert EngineConfig.from_json(config.as_json()) == config
    assert EngineConfig.from_json(EngineConfig().as_json()) == EngineConfig()


def test_the_digest_tells_lives_apart() -> None:
    instances = [
        EngineConfig(),
        EngineConfig(chunked=True),
        EngineConfig(tier=TierConfig()),
        EngineConfig(tier=TierConfig(frames=17)),
    ]
    assert len({instance.digest() for instance in instances}) == 4
    assert EngineConfig().digest() == EngineConfig().digest() and len(EngineConfig().digest()) == 12


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("pages", 1, "FKV030"),
        ("context", 9999, "FKV030"),
        ("device", "tpu", "FKV031"),
        ("requests", 0, "FKV030"),
    ],
)
def test_what_a_life_cannot_be(field: str, value: object, code: str) -> None:
    with pytest.raises(UsageError) as error:
        EngineConfig(**{field: value})  # type: ignore[arg-type]
    assert error.value.code == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"policy": "mru"}, "FKV031"),
        ({"frames": 0}, "FKV030"),
        ({"copies": "never"}, "FKV031"),
        ({"order": "any"}, "FKV031"),
        ({"failure": "lie"}, "FKV031"),
        ({"spec": "Mine"}, "FKV030"),
    ],
)
def test_what_a_tier_cannot_be(fields: dict[str, object], code: str) -> None:
    with pytest.raises(UsageError) as error:
        TierConfig(**fields)  # type: ignore[arg-type]
    assert error.value.code == code


def test_a_policy_of_ones_own_has_any_name() -> None:
    assert TierConfig(policy="Mine", module="my.module").policy == "Mine"


def test_fields_that_are_not_known_are_refused() -> None:
    with pytest.raises(UsageError, match="FKV030"):
        EngineConfig.from_json({"pgaes": 3})
