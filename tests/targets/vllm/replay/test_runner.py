"""Scripts on a live engine: what every verb does to pages, and what it does to answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fuzzkv.targets.vllm.replay.script import ReplayJob
from tests.targets.vllm.replay.scripts import job

pytestmark = pytest.mark.engine

OFFLOAD = "store 0 2 2; stored 0 2; discard_device 0 2; load 0 2 2; loaded 0 2"


@pytest.fixture
def run(tiny: Any) -> Iterator[Any]:
    """``run("script")``: the outcome of the script (after ``arrive 0 4; arrive 1 3``) on three replicas."""
    from fuzzkv.targets.vllm.replay.bench import Bench
    from fuzzkv.targets.vllm.replay.runner import ArmRun

    benches = []

    def go(script: str, endpoint: tuple[tuple[int, int], ...] = ((0, 2), (1, 1))) -> Any:
        made: ReplayJob = job(
            "exact", {"": "arrive 0 4; arrive 1 3", "a": f"arrive 0 4; arrive 1 3{script}"}, endpoint
        )
        if not benches:
            benches.append(Bench(tiny, made, {}, [0, 1, 2]))
        benches[0].job = made
        return ArmRun(benches[0], made.arms[1], "exact").run()

    yield go
    benches[0].close()


def same(a: Any, b: Any) -> bool:
    """Whether two outcomes have the same tokens."""
    return [[[t for t, _ in r] for r in rows] for _, rows in a.tokens] == [
        [[t for t, _ in r] for r in rows] for _, rows in b.tokens
    ]


def test_offload_alone_changes_nothing(run: Any) -> None:
    control = run("")
    assert len(control.tokens) == 2 and all(len(rows) == 3 for _, rows in control.tokens)
    assert same(run(f"; {OFFLOAD}"), control)
    assert same(run(""), control), "an arm leaked into the next"


def test_what_is_absent_is_missed_and_comes_back(run: Any) -> None:
    control = run("; ask 0 1")
    away = run("; store 0 2 2; stored 0 2; discard_device 0 2; ask 0 1; load 0 2 2; loaded 0 2")
    assert away.tokens[0] != control.tokens[0], "the page was still read"
    assert [r for _, r in away.tokens[1:]] == [r for _, r in control.tokens[1:]]


def test_bytes_are_captured_at_the_end_of_a_store(run: Any) -> None:
    late = run("; store 0 2 2; quantise 0 2 3; stored 0 2; discard_device 0 2; load 0 2 2; loaded 0 2")
    assert same(late, run("; quantise 0 2 3"))
    assert not same(late, run(""))


def test_a_deleted_host_copy_is_a_lost_load(run: Any) -> None:
    lost = run("; store 0 2 2; stored 0 2; discard_device 0 2; discard_host 0 2; load 0 2 2; loaded 0 2")
    assert lost.counters["lost_loads"] == 1 and lost.counters["absent_at_audit"] == 1
    assert same(lost, run("; discard_device 0 2")) and not same(lost, run(""))
    inside = run("; store 0 2 2; stored 0 2; discard_device 0 2; load 0 2 2; discard_host 0 2; loaded 0 2")
    assert inside.counters["lost_loads"] == 1 and same(inside, lost)


def test_a_failed_copy_delivers_nothing(run: Any) -> None:
    failed = run("; store 0 2 2; fail 0 2; stored 0 2; discard_device 0 2; load 0 2 2; loaded 0 2")
    assert failed.counters["failed_copies"] == 1 and failed.counters["lost_loads"] == 1
    retried = run(
        "; store 0 2 2; stored 0 2; discard_device 0 2; load 0 2 1; fail 0 2; loaded 0 2"
        "; load 0 2 1; loaded 0 2"
    )
    assert same(retried, run(""))


def test_a_store_that_ends_after_the_frame_was_given_up_captures_garbage(run: Any) -> None:
    broken = run("; store 0 2 2; discard_device 0 2; stored 0 2; load 0 2 2; loaded 0 2")
    assert not same(broken, run("")) and not same(broken, run("; discard_device 0 2"))
    assert same(run(""), run("")), "the garbage outlived its arm"


def test_await_ends_the_load(run: Any) -> None:
    waited = run("; store 0 2 2; stored 0 2; discard_device 0 2; load 0 2 9; await 0 2; ask 0 2; loaded 0 2")
    control = run("; ask 0 2")
    assert same(waited, control) and waited.counters["ends_without_copy"] == 0


def test_an_ended_session_is_audited_then_and_left_alone(run: Any) -> None:
    control = run("")
    early = run("; finish 0; discard_device 0 2; quantise 0 2 2")
    assert sorted(r for r, _ in early.tokens) == sorted(r for r, _ in control.tokens)
    assert dict(early.tokens) == dict(control.tokens)


def test_a_request_that_arrives_again_is_another_session(tiny: Any) -> None:
    from fuzzkv.targets.vllm.replay.bench import Bench
    from fuzzkv.targets.vllm.replay.runner import ArmRun

    once = "arrive 0 3; finish 0; arrive 0 2"
    made = job(
        "exact", {"": once, "a": "arrive 0 3; discard_device 0 1; finish 0; arrive 0 2"}, ((0, 1), (0, 2))
    )
    assert made.audited() == ((0, 0, 1), (0, 0, 2), (0, 1, 1))
    bench = Bench(tiny, made, {}, [0])
    control, hurt = (dict(ArmRun(bench, arm, "exact").run().tokens) for arm in made.arms)
    bench.close()
    assert control["audit 0 0 1"] != control["audit 0 1 1"] and control["audit 0 1 1"] == hurt["audit 0 1 1"]
    assert control["audit 0 0 2"] != hurt["audit 0 0 2"], "the page was still read"


def test_quality_outcomes(tiny: Any) -> None:
    """An audit's answers, NLL and contexts line up, and NaN is never right."""
    from dataclasses import replace

    from fuzzkv.targets.vllm.replay.bench import Bench
    from fuzzkv.targets.vllm.replay.runner import NLL_CAP, ArmRun

    made = job("quality", {"": "arrive 0 2", "a": "arrive 0 2; store 0 1 1; discard_device 0 1; stored 0 1; "
                           "load 0 1 1; loaded 0 1; ask 0 0"})  # fmt: skip
    bench = Bench(tiny, made, {}, [0, 1])
    for i, context in enumerate(bench.contexts[0, 0]):
        pages = tuple(tuple(replace(q, gold=(5, 6)) for q in page) for page in context.questions)
        bench.contexts[0, 0][i] = replace(context, questions=pages)
    control = ArmRun(bench, made.arms[0], "quality").run()
    garbage = ArmRun(bench, made.arms[1], "quality").run()
    bench.close()
    assert control.context == {(0, 0, 0): [0, 1], (0, 0, 1): [0, 1]}
    assert all(0 <= x < NLL_CAP for row in control.nll.values() for x in row)
    assert garbage.nll[0, 0, 1] == [NLL_CAP, NLL_CAP] and garbage.right[0, 0, 1] == [False, False]
    assert garbage.counters["asked"] == 2


def test_latency_counts_the_demand_load_and_what_delays_it(tiny: Any) -> None:
    from fuzzkv.targets.vllm.replay.bench import Bench
    from fuzzkv.targets.vllm.replay.latency import TimedArmRun
    from fuzzkv.targets.vllm.replay.link import ThrottledLink

    away = "arrive 0 3; store 0 1 1; stored 0 1; discard_device 0 1"
    made = job("latency", {
        "": "arrive 0 3; ask 0 1; ask 0 1",
        "a": f"{away}; load 0 1 40; await 0 1; loaded 0 1; ask 0 1",
        "b": f"{away}; store 0 2 60; load 0 1 40; await 0 1; loaded 0 1; ask 0 1",
        "a+b": f"{away}; load 0 1 40; wait 800; loaded 0 1; ask 0 1",
    })  # fmt: skip
    bench = Bench(tiny, made, {}, [0])
    bench.arrive((0, 0))
    found = []
    for arm in made.arms:
        timed = TimedArmRun(bench, arm, ThrottledLink(0.001))
        timed.run()
        found.append(timed.latencies)
        assert timed.pages[0, 0, 1].resident
    bench.close()
    assert len(found[0]) == 2
    assert found[1][0] >= 40_000 and found[2][0] >= 100_000
    assert found[3][0] < found[1][0], "a load that had come before was counted"
