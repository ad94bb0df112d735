"""The throttled link under a clock of our own."""

from __future__ import annotations

from fuzzkv.targets.vllm.replay.link import ThrottledLink


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-5)


def test_first_in_first_out_and_background_delays_demand() -> None:
    clock, got = Clock(), []
    link = ThrottledLink(0.001, clock=clock, sleep=clock.sleep)
    link.begin(10, lambda: got.append("store"))
    demand = link.begin(5, lambda: got.append("load"))
    link.finish(demand)
    assert got == ["store", "load"]
    assert 0.015 <= clock.now < 0.0155


def test_a_failed_copy_takes_its_time_and_delivers_nothing() -> None:
    clock, got = Clock(), []
    link = ThrottledLink(0.001, clock=clock, sleep=clock.sleep)
    copy = link.begin(4, lambda: got.append(1))
    copy.failed = True
    link.until(0.003)
    assert not copy.done
    link.until(0.005)
    assert copy.done and not got


def test_drain_forgets() -> None:
    clock, got = Clock(), []
    link = ThrottledLink(0.001, clock=clock, sleep=clock.sleep)
    link.begin(4, lambda: got.append(1))
    link.drain()
    link.until(1.0)
    assert not got
