"""Searching with several processes: the same result every time, a union of what each finds, faults told."""

from __future__ import annotations

import pytest

from fuzzkv.core.options import parse_workers
from fuzzkv.errors import UsageError
from fuzzkv.search.workers import Task, cores, rounds, search_alone, search_together, worker_seed
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.bulk.tally import Tally, merged

PAIR = ("tests.broken:CAREFUL_FREE", "tests.broken:TIDY_FREE")


def task(*given: str, names: tuple[str, ...] = ("careful", "tidy")) -> Task:
    return Task(given=given or PAIR, names=names, config=Config(), enforce=False, seed=5, strength=2)


def test_the_budget_is_shared_and_nothing_is_left() -> None:
    assert rounds(10, 3, 2) == [[2, 2, 2], [2, 1, 1]]
    for total, workers, chunk in ((1, 4, 5), (100, 7, 3), (12, 1, 5)):
        plan = rounds(total, workers, chunk)
        assert sum(map(sum, plan)) == total and all(len(counts) == workers for counts in plan)


def test_every_worker_has_a_seed_of_its_own() -> None:
    seeds = {worker_seed(root, worker) for root in range(20) for worker in range(1, 20)}
    assert len(seeds) == 20 * 19 and all(0 <= seed < 2**63 for seed in seeds)
    assert worker_seed(7, 0) == 7


@pytest.mark.slow
def test_two_workers_find_what_both_would_alone() -> None:
    # Rounds of 60 for each.
    together = list(search_together(task(), 2, 300, 60))
    again = list(search_together(task(), 2, 300, 60))
    assert together == again and [tally.drawn for tally in together] == [120, 240, 300]
    alone = []
    for worker in range(2):
        engine = task().engine(worker)
        *_, last = search_alone(engine, 150, 60)
        alone.append(last)
    assert merged(alone) == together[-1]
    assert together[-1].classes and together[-1].longest == 150


@pytest.mark.slow
def test_what_a_worker_raises_is_raised_here() -> None:
    with pytest.raises(UsageError, match=r"FKV001: 'nobody'"):
        list(search_together(task("nobody", names=("nobody",)), 2, 10, 10))


@pytest.mark.slow
def test_the_workers_end_with_the_search() -> None:
    search = search_together(task(), 2, 1_000_000, 10)
    assert next(search).drawn == 20
    search.close()


def test_the_better_witness_is_kept(compiled: BulkEngine) -> None:
    tallies = []
    for seed in (1, 2):
        engine = compiled.again(seed=seed)
        engine.search(1_500)
        tallies.append(engine.tally())
    both = merged(tallies)
    assert both.runs == sum(t.runs for t in tallies) and merged([]) == Tally()
    every = {c.failure_class for t in tallies for c in t.classes}
    assert {c.failure_class for c in both.classes} == every and len(both.classes) == len(every)
    for found in both.classes:
        same = [c for t in tallies for c in t.classes if c.failure_class == found.failure_class]
        assert found.events == min(same, key=lambda c: c.rank).events
        assert found.seen == sum(c.seen for c in same)
    turned = {c.failure_class: c.events for c in merged(tallies[::-1]).classes}
    assert turned == {c.failure_class: c.events for c in both.classes}


def test_workers_are_a_number_or_auto() -> None:
    assert parse_workers("3", 8) == 3 and parse_workers("auto", 8) == 8 and cores() >= 1
    for wrong in ("0", "-1", "many", "", "1.5", "1000"):
        with pytest.raises(UsageError, match="FKV030: --workers"):
            parse_workers(wrong, 8)
