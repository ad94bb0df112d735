"""Scripts of hand-made histories, and what holds for the scripts of any history."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fuzzkv.core.results import Outcome
from fuzzkv.semantics.layout import INT4, NP
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config, Schedule
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.history import History, Record, run_history
from fuzzkv.targets.vllm.replay.script import Op, parse_script, validate
from fuzzkv.targets.vllm.replay.translate import KINDS, job_of, script_of

Row = tuple[int, str, int, int]
"""Event, primitive, page, detail."""


def history(rows: Iterable[Row], policies: tuple[str, ...] = ("a",)) -> History:
    records = tuple(Record(event, 0, "a", primitive, page, detail) for event, primitive, page, detail in rows)
    return History(
        schedule=Schedule(("a",), ((0, 1, 0),)),
        policies=policies,
        records=records,
        outcome=Outcome((), (0,) * NP, 0),
        latencies=(),
        exercised={},
        refused={},
        goals={},
        freed=0,
        ticks=0,
        steps=0,
    )


def script(*rows: Row) -> list[Op]:
    return list(script_of(history(rows), step_cost=5, page_cost=8))


def ops(text: str) -> list[Op]:
    return list(parse_script(text))


OPEN: Row = (0, "arrive", 0, 4)


def test_sessions_and_time() -> None:
    assert script(OPEN, (1, "tick", 0, 7), (2, "arrive", 8, 2), (3, "finish", 0, 0)) == ops(
        "arrive 0 4; wait 7; arrive 1 2; finish 0 0"
    )


def test_a_page_that_lies_on_the_host_comes_back_before_the_questions() -> None:
    moved = [OPEN, (1, "begin_store", 2, 8), (2, "end_store", 2, 0), (3, "drop_device", 2, 0)]
    away = "arrive 0 4; store 0 2 8; stored 0 2 0; discard_device 0 2 0"
    back = "load 0 2 8; await 0 2 0; loaded 0 2 0"
    assert script(*moved) == ops(f"{away}; {back}")
    assert script(*moved, (4, "finish", 0, 0)) == ops(f"{away}; {back}; finish 0 0")


def test_a_page_whose_host_copy_is_gone_does_not() -> None:
    rows = [
        OPEN,
        (1, "begin_store", 2, 8),
        (2, "end_store", 2, 0),
        (3, "drop_device", 2, 0),
        (4, "drop_host", 2, 0),
    ]
    assert script(*rows)[-1] == Op("discard_host", 0, 2, 0)


def test_quantising_tells_bits() -> None:
    assert script(OPEN, (1, "quantise", 3, INT4))[-1] == Op("quantise", 0, 3, 4)


def test_a_demand_load_comes_before_the_question_and_before_other_copies() -> None:
    rows = [
        OPEN,
        (1, "begin_store", 2, 8),
        (2, "end_store", 2, 0),
        (3, "drop_device", 2, 0),
        (4, "begin_store", 3, 8),
    ]
    step = [(5, "end_store", 3, 0), (5, "demand_load", 2, 16), (5, "read", 0, 0), (5, "step", 2, 21)]
    assert script(*rows, *step)[-5:] == ops("load 0 2 8; await 0 2 0; loaded 0 2 0; stored 0 3 0; ask 0 2 5")


def test_a_page_read_in_place_is_away_again_afterwards() -> None:
    rows = [OPEN, (1, "begin_store", 2, 8), (2, "end_store", 2, 0), (3, "drop_device", 2, 0)]
    written = script(*rows, (4, "remote_read", 2, 8), (4, "step", 2, 13))
    asked = ops("load 0 2 8; await 0 2 0; loaded 0 2 0; ask 0 2 5; discard_device 0 2 0")
    assert written[4:] == [*asked, *ops("load 0 2 8; await 0 2 0; loaded 0 2 0")]


def test_a_reader_waits_for_a_load_on_its_way() -> None:
    rows = [
        OPEN,
        (1, "begin_store", 2, 8),
        (2, "end_store", 2, 0),
        (3, "drop_device", 2, 0),
        (4, "begin_load", 2, 8),
    ]
    assert script(*rows, (5, "end_load", 2, 0), (5, "step", 2, 9))[-3:] == ops(
        "await 0 2 0; loaded 0 2 0; ask 0 2 5"
    )


def test_what_is_only_bookkeeping_is_not_written() -> None:
    rows = [
        (1, name, 1, 0)
        for name in ("promise", "withdraw", "condemn", "relevance", "lose", "read", "late_copy")
    ]
    assert script(OPEN, *rows) == ops("arrive 0 4")


def test_a_session_that_opens_again_starts_with_whole_pages() -> None:
    rows = [
        OPEN,
        (1, "begin_store", 2, 8),
        (2, "end_store", 2, 0),
        (3, "drop_device", 2, 0),
        (4, "finish", 0, 0),
        OPEN,
    ]
    written = script(*rows[:-1], (5, "arrive", 0, 4))
    assert written[-1] == Op("arrive", 0, -1, 4)


def test_a_job_has_every_arm_and_the_questions_that_decide() -> None:
    arms = {mask: history([OPEN, (1, "step", 1, 5)], policies) for mask, policies in enumerate([(), ("a",)])}
    made = {
        oracle: job_of(
            "fkv-0",
            oracle,
            arms,
            asked=9,
            page=1,
            seed=3,
            step_cost=5,
            page_cost=8,
            objective=30,
            tolerance=7,
        )
        for oracle in KINDS
    }
    for oracle, job in made.items():
        validate(job)
        assert [arm.name for arm in job.arms] == ["full", "a"] and job.kind == KINDS[oracle]
    assert made["content"].endpoint == ((0, 1),) and len(made["quality"].endpoint) == 4
    assert made["latency"].slack_ticks == 30 - 5 + 3 and made["latency"].tick_us > 0


@pytest.mark.slow
def test_scripts_of_any_history_can_be_run(compiled: BulkEngine, defaults: tuple[Policy, ...]) -> None:
    """Every job validates; every copy that begins ends, fails or is cut off by its session's end; what is
    loaded, dropped or captured is there.
    """
    engine = compiled.again(seed=13)
    config = Config()
    valid = 0
    for number in range(60):
        schedule = engine.schedule(number)
        arms = {mask: run_history(schedule, defaults, mask, config) for mask in (0, 1, 2, 4, 7)}
        job = job_of(
            "fkv-0", "content", arms, asked=64, page=0, seed=1, step_cost=config.step_cost, page_cost=config.page_cost,
            objective=config.objective, tolerance=config.tolerance,
        )  # fmt: skip
        # A policy that frees frames may let a session in that the control can't: those can't be compared.
        sessions = [[op for op in arm.script if op.verb == "arrive"] for arm in job.arms]
        if all(opened == sessions[0] for opened in sessions):
            validate(job)
            valid += 1
        for arm in job.arms:
            check_copies(arm.script, f"schedule {number}, {arm.name}")
    assert valid >= 20


def check_copies(written: Iterable[Op], where: str) -> None:
    flying: dict[tuple[int, int], str] = {}
    for i, op in enumerate(written):
        page = (op.request, op.page)
        if op.verb in ("store", "load"):
            assert page not in flying, (
                f"{where}[{i}]: {op} begins while a {flying[page]} of the page is in flight"
            )
            flying[page] = op.verb
        elif op.verb in ("stored", "loaded", "fail"):
            begun = flying.pop(page, None)
            assert begun is not None, f"{where}[{i}]: {op} ends what never began"
            assert op.verb == "fail" or begun == op.verb[: len(begun)], f"{where}[{i}]: {op} ends a {begun}"
        elif op.verb == "finish":
            flying = {key: verb for key, verb in flying.items() if key[0] != op.request}
