"""Schedules on the live engine: determinism, controlled time, resets with proof, conservation."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from fuzzkv.core.results import Failure
from fuzzkv.strategies.numbers import Numbers
from fuzzkv.strategies.ways import sized
from fuzzkv.targets.vllm.engine.config import EngineConfig, TierConfig
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.schedule import LiveSchedule, prompt, size
from fuzzkv.targets.vllm.strategy import LIVE

pytestmark = pytest.mark.engine

DOUBLE_RESET = "reset_cache"
"""vLLM 0.32 refuses a second reset of the connector's cache before a step, with an assertion."""


def drawn(seed: int, count: int) -> list[LiveSchedule]:
    rng = random.Random(seed)
    sizes = [[rng.choice(values) for values in LIVE.machine.values()] for _ in range(count)]
    return [LIVE.make(machine, sized(LIVE, Numbers(rng.randbytes(200)))) for machine in sizes]


def sound(history: LiveHistory) -> bool:
    return all(v.action == "died" and DOUBLE_RESET in v.text for v in history.failures)


def names(history: LiveHistory, *wanted: str) -> list[str]:
    return [str(row[0]) for row in history.log if row[0] in wanted]


def test_a_prompt_gets_its_tokens(driver: Any) -> None:
    history = driver.run(LiveSchedule(events=(("arrive", 0, 8, 5), ("arrive", 4, 5, 3))))
    assert [len(t) for t in history.tokens] == [5, 3] and not history.failed
    assert [len(m) for m in history.margins] == [5, 3] and all(x > 0 for row in history.margins for x in row)
    assert history.prompts == (prompt(0, size(8)), prompt(4, size(5)))
    assert history.counters["tokens"] == 8 and history.steps == history.counters["steps"]


def test_one_schedule_twice_gives_the_same_log(driver: Any) -> None:
    schedules = drawn(11, 6)
    first = [driver.run(s) for s in schedules]
    again = [driver.run(s) for s in reversed(schedules)][::-1]
    assert [h.log for h in first] == [h.log for h in again]
    assert [h.tokens for h in first] == [h.tokens for h in again]
    assert all(sound(h) for h in first)


def test_the_host_tier_serves_what_the_device_lost(driver: Any) -> None:
    events = (
        ("arrive", 4, 16, 2),
        ("step", 8, 0, 0),
        ("reset", 0, 0, 0),
        ("arrive", 4, 17, 6),
    )
    history = driver.run(LiveSchedule(events=events))
    assert history.counters["loads"] == 1 and history.counters["loaded_pages"] == 4 and not history.failed
    assert history.counters["tier_inert"] == 0
    alone = driver.run(LiveSchedule(events=(("arrive", 4, 17, 6),)))
    assert history.tokens[1] == alone.tokens[0]
    assert alone.counters["tier_inert"] == 1


def test_a_held_load_keeps_its_request_waiting_until_it_completes(driver: Any) -> None:
    before = (
        ("arrive", 4, 16, 2),
        ("step", 8, 0, 0),
        ("reset", 0, 0, 0),
        ("hold", 1, 0, 0),
        ("arrive", 4, 17, 6),
    )
    held = driver.run(
        LiveSchedule(events=(*before, ("step", 8, 0, 0), ("step", 8, 0, 0), ("complete", 0, 0, 0)))
    )
    free = driver.run(LiveSchedule(events=(*before, ("hold", 0, 0, 0))))
    assert held.steps >= free.steps + 15 and held.tokens == free.tokens
    assert not held.failed and not free.failed


@pytest.mark.parametrize("ending", ["fail", "short"])
def test_a_failed_load_is_tried_again_and_gives_the_same_tokens(driver: Any, ending: str) -> None:
    before = (
        ("arrive", 4, 16, 2),
        ("step", 8, 0, 0),
        ("reset", 0, 0, 0),
        ("hold", 1, 0, 0),
        ("arrive", 4, 17, 6),
    )
    history = driver.run(LiveSchedule(events=(*before, ("step", 2, 0, 0), (ending, 0, 0, 0))))
    assert history.counters[f"load_{ending}s"] == 1
    assert names(history, "load+", "load!", "load~", "load-", "load=") == [
        "load+",
        {"fail": "load!", "short": "load~"}[ending],
        "load-",
        "load=",
    ]
    assert not history.failed and len(history.tokens[1]) == 6


def test_a_waited_for_store_ends_before_its_block_is_used_again(driver: Any) -> None:
    # The store of an ended request is held; a small pool makes others take its blocks.
    events = (
        ("hold", 1, 0, 0),
        ("arrive", 4, 16, 1),
        ("step", 3, 0, 0),
        ("arrive", 5, 24, 8),
        ("step", 4, 0, 0),
    )
    history = driver.run(LiveSchedule(pool=9, events=events))
    log = list(history.log)
    stored = set(next(row[2::2] for row in log if row[:2] == ("store+", 0)))
    taken = next(i for i, row in enumerate(log) if row[:2] == ("alloc", 1) and stored & set(row[2:]))
    next_step = next(i for i, row in enumerate(log) if row[0] == "step" and i > taken)
    assert taken < log.index(("store-", 0)) < next_step and not history.failed


LOADING_AT_A_RESET = LiveSchedule(
    pool=10,
    events=(
        ("arrive", 4, 16, 2),
        ("step", 8, 0, 0),
        ("reset", 0, 0, 0),
        ("hold", 1, 0, 0),
        ("arrive", 4, 17, 6),  # loads
        ("arrive", 5, 20, 30),
        ("step", 3, 0, 0),
        ("reset", 1, 0, 0),  # the host's chunks are given out anew
        ("abort", 1, 0, 0),
        ("arrive", 6, 5, 4),  # takes a block of the aborted one, whose store can't wait then
        ("step", 8, 0, 0),
    ),
)
"""vLLM 0.32 begins that store, into chunks that the late load still reads, before it waits for the load."""


@pytest.mark.parametrize("stores_first", [True, False])
def test_a_reset_of_the_tier_while_a_load_is_in_flight(driver: Any, stores_first: bool) -> None:
    from fuzzkv.targets.vllm.content.oracles import watch_content

    alone = driver.run(LiveSchedule(events=(("arrive", 4, 17, 6),)))
    before, driver.engine.link.stores_first = driver.engine.link.stores_first, stores_first
    driver.watchers.append(watch_content(driver.engine))
    history = driver.run(LOADING_AT_A_RESET)
    driver.watchers.clear()
    driver.engine.link.stores_first = before
    assert (history.tokens[1] != alone.tokens[0]) == stores_first
    assert (
        (("I2", "foreign") in {(v.invariant, v.action) for v in history.failures})
        == stores_first
        == history.failed
    )


def test_pool_pressure_preempts(driver: Any) -> None:
    events = tuple(("arrive", a, 8, 40) for a in (2, 4, 5, 6))
    history = driver.run(LiveSchedule(pool=11, events=events))
    assert history.counters["preemptions"] > 0 and not history.failed
    assert [len(t) for t in history.tokens] == [40] * 4


def test_forks_go_on_from_what_was_said(driver: Any) -> None:
    events = (("arrive", 4, 4, 9), ("step", 8, 0, 0), ("fork", 0, 1, 3))
    history = driver.run(LiveSchedule(events=events))
    assert history.counters["forks"] == 1
    assert history.prompts[1][: 32 + 8] == (*history.prompts[0], *history.tokens[0][:8])


def test_an_abort_marks_its_tokens(driver: Any) -> None:
    history = driver.run(LiveSchedule(events=(("arrive", 4, 4, 20), ("step", 4, 0, 0), ("abort", 0, 0, 0))))
    assert history.tokens[0][-1] == -1 and len(history.tokens[0]) == 5


def test_what_could_never_finish_is_not_added(driver: Any) -> None:
    history = driver.run(LiveSchedule(pool=4, events=(("arrive", 4, 24, 5), ("arrive", 4, 4, 5))))
    assert history.counters["unfit"] == 1 and len(history.tokens) == 1


def test_a_small_budget_makes_partial_prefills(driver: Any) -> None:
    history = driver.run(LiveSchedule(chunk=32, events=(("arrive", 4, 20, 2),)))
    assert history.counters["partial_prefills"] >= 4 and not history.failed


def test_the_pool_is_checked_after_every_step(driver: Any) -> None:
    class Thief:
        """Takes a block's reference away once."""

        done = False

        def begin(self, engine: Any, schedule: LiveSchedule) -> None:
            self.done = False

        def before_step(self, engine: Any) -> None: ...

        def after_step(self, engine: Any) -> Iterable[Failure]:
            if not self.done and engine.steps == 2:
                engine._pool.blocks[engine.blocks_of(0)[0]].ref_cnt += 1
                self.done = True
            return ()

        def end(self, engine: Any) -> Iterable[Failure]:
            return ()

    driver.watchers.append(Thief())
    history = driver.run(LiveSchedule(events=(("arrive", 4, 4, 6),)))
    driver.watchers.clear()
    assert {(v.invariant, v.action) for v in history.failures} >= {("I11", "leak"), ("I11", "not-reset")}
    assert not driver.over and not driver.run(LiveSchedule(events=(("arrive", 4, 4, 6),))).failed


def test_a_transfer_that_never_ends_is_no_progress(driver: Any) -> None:
    driver.engine.link.hold, before = (lambda held: None), driver.engine.link.hold
    driver.engine.link.held = True
    events = (("arrive", 4, 16, 2), ("step", 8, 0, 0))
    history = driver.run(LiveSchedule(events=events))
    driver.engine.link.hold = before
    driver.engine.link.hold(False)
    assert ("I13", "stuck") in {(v.invariant, v.action) for v in history.failures}


def test_without_taps_the_tokens_are_the_same(driver: Any, live: Any) -> None:
    schedule = LiveSchedule(events=(("arrive", 0, 16, 6), ("arrive", 1, 16, 6), ("step", 4, 0, 0)))
    tapped = driver.run(schedule)
    live.taps.take_off()
    plain = driver.run(schedule)
    live.taps.put_on()
    assert tapped.tokens == plain.tokens and names(plain, "alloc") == []
    assert driver.run(schedule).log == tapped.log


@pytest.mark.slow
def test_two_processes_give_the_same_logs(tmp_path: Any) -> None:
    from fuzzkv.targets.vllm.pool.process import EngineProcess
    from tests.targets.vllm.conftest import SHARED

    schedules = drawn(12, 4)
    logs = []
    for number in range(2):
        with EngineProcess(SHARED, folder=tmp_path / str(number)) as instance:
            logs.append([instance.run(s).log for s in schedules])
            assert instance.rss > 100
    assert logs[0] == logs[1]


@pytest.mark.slow
def test_a_configuration_that_the_engine_refuses_is_told(tmp_path: Any) -> None:
    from fuzzkv.errors import EnvironmentFailure
    from fuzzkv.targets.vllm.pool.process import EngineProcess

    with pytest.raises(EnvironmentFailure, match="dtype"):
        EngineProcess(EngineConfig(kv_dtype="fp9"), folder=tmp_path)


LOAD_FAILS = LiveSchedule(
    events=(
        ("arrive", 4, 16, 2),
        ("step", 8, 0, 0),
        ("reset", 0, 0, 0),
        ("hold", 1, 0, 0),
        ("arrive", 4, 17, 6),
        ("step", 2, 0, 0),
        ("fail", 0, 0, 0),
    )
)


@pytest.mark.slow
def test_failed_loads_that_are_told_by_the_connectors_protocol_are_looked_up_anew(tmp_path: Any) -> None:
    from fuzzkv.targets.vllm.pool.process import EngineProcess

    tier = TierConfig(failure="recover")
    with EngineProcess(EngineConfig(prefix_cache=True, chunked=True, tier=tier), folder=tmp_path) as instance:
        history = instance.run(LOAD_FAILS)
        alone = instance.run(LiveSchedule(events=(("arrive", 4, 17, 6),)))
    seen = names(history, "load+", "load!", "load-", "load=")
    assert seen == ["load+", "load!", "load=", "load+", "load-", "load="] and not history.failed
    assert history.tokens[1] == alone.tokens[0]


@pytest.mark.slow
def test_failed_loads_that_are_reported_end_this_build_and_the_next_run_is_sound(tmp_path: Any) -> None:
    from fuzzkv.targets.vllm.pool.process import EngineProcess

    tier = TierConfig(failure="report")
    with EngineProcess(EngineConfig(prefix_cache=True, chunked=True, tier=tier), folder=tmp_path) as instance:
        history = instance.run(LOAD_FAILS)
        assert [(v.invariant, v.action) for v in history.failures] == [("I13", "died")]
        assert "AssertionError" in history.failures[0].text and "get_finished" in history.failures[0].text
        assert not instance.run(LiveSchedule(events=(("arrive", 4, 17, 6),))).failed
