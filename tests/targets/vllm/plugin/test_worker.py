"""Workers: every rule has a mutant that breaks it, and the clean twin breaks none; and what a watch alone can say."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fuzzkv.targets.vllm.plugin.record import Report
from fuzzkv.targets.vllm.plugin.rules import rules_of
from fuzzkv.targets.vllm.plugin.worker import watch_worker
from fuzzkv.targets.vllm.plugin.worker_calls import exercise_pair
from tests.targets.vllm.plugin.workers import Copier, mutants_of_workers, pairs

WORKERS = mutants_of_workers()


def test_a_clean_worker_breaks_no_rule_and_every_rule_is_tested() -> None:
    found = exercise_pair(pairs(Copier), seed=1, examples=100)
    assert not found.broken
    assert {rule.id for rule in rules_of("OffloadingWorker")} - set(found.checked) == {"worker-returns"}


@pytest.mark.parametrize("rule", WORKERS)
def test_a_broken_worker_is_found(rule: str) -> None:
    found = exercise_pair(pairs(WORKERS[rule]), seed=1, examples=60)
    assert rule.split()[0] in found.broken, found.broken.keys()


def test_a_transfer_that_never_ends_is_told_when_the_engine_is_idle() -> None:
    worker, report = Copier(np.zeros((4, 8), dtype=np.int8), 2), Report()
    watch = watch_worker(worker, report)
    blocks = SimpleNamespace(block_ids=[1], group_sizes=[1], block_indices=[0])
    worker.submit_store(7, blocks, SimpleNamespace(block_ids=[0]))
    watch.settled()
    assert [v.action for v in report.failures] == ["worker-ends"] and report.failures[0].invariant == "I13"


def test_failures_that_a_schedule_chose_are_not_the_workers() -> None:
    class Fails(Copier):
        def end(self, job: int) -> None:
            super().end(job)
            self.done[-1].success = False

    for may_fail in (True, False):
        worker, report = Fails(np.zeros((4, 8), dtype=np.int8), 2), Report()
        watch_worker(worker, report, may_fail=may_fail)
        blocks = SimpleNamespace(block_ids=[1], group_sizes=[1], block_indices=[0])
        worker.submit_store(7, blocks, SimpleNamespace(block_ids=[0]))
        worker.get_finished()
        assert bool(report.failures) is not may_fail


def test_pages_of_groups_and_of_chunks_that_begin_within() -> None:
    from fuzzkv.targets.vllm.plugin.worker import _pages

    device = SimpleNamespace(block_ids=[5, 6, 7, 9], group_sizes=[3, 1], block_indices=[1, 0])
    pages = _pages(device, SimpleNamespace(block_ids=[2, 4, 3]), 2)
    assert pages == ((5, (0, 2, 1)), (6, (0, 4, 0)), (7, (0, 4, 1)), (9, (1, 3, 0)))
    assert _pages(device, SimpleNamespace(), 2) == ()
