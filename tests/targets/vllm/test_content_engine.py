"""The content oracle on a live engine: silent on a clean one, and each planted fault is named."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.targets.vllm.content.control import Control
from fuzzkv.targets.vllm.content.oracles import ContentWatcher, token_violations, watch_content
from fuzzkv.targets.vllm.engine.driver import Driver
from fuzzkv.targets.vllm.schedule import Event, LiveSchedule

pytestmark = pytest.mark.engine

TWO = LiveSchedule(
    48, 64, (("arrive", 0, 12, 30), ("arrive", 4, 12, 30), ("step", 8, 0, 0), ("step", 8, 0, 0))
)
REUSE = LiveSchedule(
    10,
    256,
    tuple(
        event
        for a in (0, 4, 1, 5, 0, 2)
        for event in (("arrive", a, 14, 20), ("step", 8, 0, 0), ("fork", 0, 2, 10), ("step", 8, 0, 0))
    ),
)


@pytest.fixture(scope="module")
def content(live: Any) -> ContentWatcher:
    return watch_content(live)


class Planted(ContentWatcher):
    """Spoils bytes before one step, as a fault would."""

    def __init__(self, content: ContentWatcher, step: int, fault: Any) -> None:
        super().__init__(content.canaries, content.pages)
        self.step, self.fault = step, fault

    def before_step(self, engine: Any) -> None:
        if engine.steps == self.step:
            self.fault(engine)


def found(live: Any, watcher: ContentWatcher, schedule: LiveSchedule) -> list[tuple[str, str, int]]:
    history = Driver(live, [watcher]).run(schedule)
    assert history.counters["pages_checked"] > 0
    return [(v.invariant, v.action, v.request) for v in history.failures]


@pytest.mark.parametrize("schedule", [TWO, REUSE])
def test_a_clean_engine_is_silent(live: Any, content: ContentWatcher, schedule: LiveSchedule) -> None:
    assert found(live, content, schedule) == []


def test_the_layout_is_found(content: ContentWatcher) -> None:
    layout = content.canaries[0].layout
    assert (layout.encoding, layout.block, layout.size) == ("float32", 32, 2048)


def copy(engine: Any, source: tuple[int, int], target: tuple[int, int]) -> None:
    """Copy one block of one request over one of another, on all layers."""
    (a, i), (b, j) = source, target
    for layer in range(len(engine.layers)):
        page = engine.layer_page(layer, engine.blocks_of(a)[i])
        engine.layer_page(layer, engine.blocks_of(b)[j]).copy_(page)


def test_a_late_copy_over_a_page_in_use(live: Any, content: ContentWatcher) -> None:
    planted = Planted(content, 6, lambda e: copy(e, (0, 1), (1, 1)))
    assert ("I2", "overwritten", 1) in found(live, planted, TWO)


def test_a_page_that_was_wiped(live: Any, content: ContentWatcher) -> None:
    def wipe(engine: Any) -> None:
        for layer in range(len(engine.layers)):
            engine.layer_page(layer, engine.blocks_of(0)[2]).zero_()

    assert ("I3", "unfilled", 0) in found(live, Planted(content, 6, wipe), TWO)


def test_one_layer_that_stayed_behind(live: Any, content: ContentWatcher) -> None:
    def spoil(engine: Any) -> None:
        engine.layer_page(1, engine.blocks_of(0)[0]).copy_(engine.layer_page(1, engine.blocks_of(1)[0]))

    assert ("I7", "context", 0) in found(live, Planted(content, 6, spoil), TWO)


def test_a_host_page_that_was_swapped(live: Any, content: ContentWatcher) -> None:
    """A wrong chunk comes back with the next load."""

    def swap(engine: Any) -> None:
        for host in engine.worker.host:
            host.copy_(host.roll(1, 0))

    schedule = LiveSchedule(
        12,
        256,
        (
            ("arrive", 0, 14, 3),
            ("step", 8, 0, 0),
            ("reset", 0, 0, 0),
            ("arrive", 0, 14, 3),
            ("step", 8, 0, 0),
        ),
    )
    assert found(live, content, schedule) == []
    wrong = found(live, Planted(content, 4, swap), schedule)
    assert wrong == [("I3", "unfilled", 1), ("I5", "shifted", 1), ("I5", "shifted", 1)]


def late(seed: int) -> LiveSchedule:
    """Transfers that only end when told to, and requests that are aborted meanwhile."""
    draw = random.Random(seed)
    events: list[Event] = [("hold", 1, 0, 0)] if seed % 2 else []
    for _ in range(24):
        x = draw.random()
        if x < 0.35:
            events.append(("arrive", draw.randrange(8), draw.randrange(20), draw.randrange(1, 25)))
        elif x < 0.45:
            events.append(("abort", draw.randrange(8), 0, 0))
        elif x < 0.5:
            events.append(("reset", 0, 0, 0))
        elif x < 0.6:
            events.append(("complete", draw.randrange(8), 0, 0))
        else:
            events.append(("step", draw.randrange(1, 6), 0, 0))
    return LiveSchedule(draw.choice([8, 10, 12, 16]), draw.choice([64, 256]), tuple(events))


class Disobedient(ContentWatcher):
    """The worker doesn't finish copies when it is told to wait for them."""

    def begin(self, engine: Any, schedule: object) -> None:
        super().begin(engine, schedule)
        engine.link.obeys_wait = False


@pytest.mark.parametrize("seed", [5, 17, 20, 21])
def test_a_worker_that_does_not_wait_copies_late(live: Any, content: ContentWatcher, seed: int) -> None:
    """vLLM asks its worker to finish copies before it gives their pages to others."""
    assert found(live, content, late(seed)) == []
    wrong = found(live, Disobedient(content.canaries, content.pages), late(seed))
    assert "foreign" in {what for _, what, _ in wrong}


def test_what_the_host_keeps_is_compared(live: Any, content: ContentWatcher) -> None:
    """A store that puts its bytes into the wrong host page is told before anyone loads them."""
    assert found(live, content, REUSE) == []
    worker, copy_pages = live.worker, live.worker._copy

    def beside(store: bool, parts: Any) -> None:
        copy_pages(store, [(g, d, (h + 1) % 12 if store else h) for g, d, h in parts])

    worker._copy = beside
    try:
        wrong = found(live, content, REUSE)
    finally:
        del worker._copy
    assert ("I4", "miscopied", 0) in wrong


def test_a_cached_page_that_was_overwritten(live: Any, content: ContentWatcher) -> None:
    """Request 0 has ended; its first block stays in the prefix cache, and nobody reads it again."""
    schedule = LiveSchedule(48, 64, (("arrive", 0, 12, 3), ("arrive", 4, 12, 30), ("step", 8, 0, 0)))

    def spoil(engine: Any) -> None:
        page = next(iter(set(engine.hashes()) - set(engine.blocks_of(1))))
        for layer in range(len(engine.layers)):
            engine.layer_page(layer, page).zero_()

    assert found(live, content, schedule) == []
    assert found(live, Planted(content, 7, spoil), schedule) == [("I8", "overwritten", -1)]


def test_tokens_are_those_of_an_isolated_control(live: Any, content: ContentWatcher, tmp_path: Path) -> None:
    """Silent on a busy engine; a wiped page changes tokens, and the comparison says whose fault it is."""

    def wipe(engine: Any) -> None:
        for layer in range(len(engine.layers)):
            engine.layer_page(layer, engine.blocks_of(0)[2]).zero_()

    clean = [Driver(live, [content]).run(schedule) for schedule in (TWO, REUSE)]
    spoiled = Driver(live, [Planted(content, 6, wipe)]).run(TWO)
    with Control(folder=tmp_path) as control:
        for history in clean:
            compared = token_violations(history, control.for_history(history))
            assert (compared.failures, compared.ties) == ((), 0) and compared.tokens > 0
        (violation,) = token_violations(spoiled, control.for_history(spoiled)).failures
    assert (violation.invariant, violation.action, violation.request) == ("I3", "token", 0)
