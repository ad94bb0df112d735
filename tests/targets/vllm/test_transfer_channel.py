"""Time of the host tier: held, reordered, failed, short, waited for."""

from __future__ import annotations

from typing import Any

import pytest

from fuzzkv.targets.vllm.engine.transfer_channel import Link, Transfer


class Wire:
    """A link that remembers what moved (job, pages) and what it told."""

    def __init__(self, **options: Any) -> None:
        self.moved: list[tuple[int, int]] = []
        self.said: list[tuple[str, int]] = []
        self.link = Link(tell=lambda what, t: self.said.append((what, t.job)), **options)

    def submit(self, *jobs: int, store: bool = True) -> None:
        for job in jobs:
            pages = ((1, 1), (2, 2), (3, 3), (4, 4))
            self.link.submit(Transfer(job, store, pages, lambda n, j=job: self.moved.append((j, n))))

    def poll(self) -> list[tuple[int, str | None]]:
        return [(t.job, t.ending) for t in self.link.poll()]


def test_a_free_link_ends_all_at_the_next_poll_in_order() -> None:
    wire = Wire()
    wire.submit(5, 3)
    assert wire.moved == [] and wire.link.untold() == 2
    assert wire.poll() == [(5, "done"), (3, "done")]
    assert wire.moved == [(5, 4), (3, 4)] and wire.poll() == [] and wire.link.untold() == 0


def test_a_held_link_ends_what_it_is_told_to_in_any_order() -> None:
    wire = Wire()
    wire.link.hold(True)
    wire.submit(0, 1, 2)
    assert wire.poll() == []
    wire.link.end(5)  # 5 modulo 3 pending
    wire.link.end(0)
    assert [t.job for t in wire.link.pending()] == [1]
    assert wire.poll() == [(2, "done"), (0, "done")]
    wire.link.hold(False)
    assert wire.poll() == [(1, "done")]


def test_late_copies_move_at_the_end_and_eager_ones_at_submission() -> None:
    late, eager = Wire(), Wire(eager=True)
    for wire in (late, eager):
        wire.link.hold(True)
        wire.submit(0)
    assert late.moved == [] and eager.moved == [(0, 4)]
    for wire in (late, eager):
        wire.link.end(0)
        assert wire.poll() == [(0, "done")] and wire.moved == [(0, 4)]


def test_a_failed_attempt_is_made_again_and_nobody_is_told() -> None:
    wire = Wire()
    wire.link.hold(True)
    wire.submit(0)
    wire.link.end(0, "failed")
    wire.link.end(0, "short")
    assert wire.poll() == [] and wire.moved == [(0, 2)]
    wire.link.end(0)
    assert wire.poll() == [(0, "done")] and wire.moved == [(0, 2), (0, 4)]
    assert [what for what, _ in wire.said] == ["begin", "fail", "short", "end", "told"]


@pytest.mark.parametrize(
    ("retry", "loads", "stores"), [("none", True, True), ("stores", True, False), ("all", False, False)]
)
def test_which_failures_are_told(retry: Any, loads: bool, stores: bool) -> None:
    wire = Wire(retry=retry)
    wire.link.hold(True)
    wire.submit(0, store=False)
    wire.submit(1, store=True)
    wire.link.end(0, "failed")
    wire.link.end(0 if loads else 1, "short")
    expected = [(0, "failed")] * loads + [(1, "short")] * stores
    assert wire.poll() == expected


def test_wait_ends_those_named_and_no_others() -> None:
    wire = Wire()
    wire.link.hold(True)
    wire.submit(0, 1, 2)
    assert wire.link.wait({2, 0, 9}) == [0, 2]
    assert wire.moved == [(0, 4), (2, 4)]
    assert wire.poll() == [(0, "done"), (2, "done")]


def test_stores_end_before_loads_and_each_direction_keeps_its_order() -> None:
    wire = Wire(stores_first=True)
    wire.link.hold(True)
    for job, store in enumerate((False, True, False, True)):
        wire.submit(job, store=store)
    assert wire.link.wait({0, 1}) == [1, 0]
    wire.link.hold(False)
    assert [job for job, _ in wire.poll()] == [1, 0, 3, 2]


def test_a_link_that_disobeys_wait_moves_nothing() -> None:
    wire = Wire()
    wire.link.hold(True)
    wire.link.obeys_wait = False
    wire.submit(0)
    assert wire.link.wait({0}) == [] and wire.moved == []


def test_nothing_pending_is_a_no_op_and_forget_forgets() -> None:
    wire = Wire()
    assert wire.link.end(3) is None
    wire.link.hold(True)
    wire.submit(0, 1)
    wire.link.end(0)
    wire.link.forget()
    assert wire.link.untold() == 0 and not wire.link.held and wire.poll() == []
