"""The nursery on a real engine: lives start, run, hang up and die as workers of their own do."""

from __future__ import annotations

import os
import signal

import pytest

from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.pool.engine_pool import LifeDied
from fuzzkv.targets.vllm.pool.fork_server import Nursery
from fuzzkv.targets.vllm.pool.process import ProcessLife
from fuzzkv.targets.vllm.schedule import LiveSchedule

SCHEDULE = LiveSchedule(16, 512, (("arrive", 0, 4, 5), ("step", 3, 0, 0), ("arrive", 1, 8, 5)))


@pytest.mark.engine
@pytest.mark.slow
def test_lives_of_a_nursery() -> None:
    nursery = Nursery()
    try:
        assert nursery.ready()
        with ProcessLife(EngineConfig(), command=nursery.command()) as life:
            first = life.run(SCHEDULE)
            assert first.steps > 0 and not first.failed and life.engine.startswith("vllm")
        with ProcessLife(EngineConfig(), command=nursery.command()) as life:
            assert life.run(SCHEDULE).digest == first.digest
            assert life._child is not None
            os.killpg(life._child.pid, signal.SIGKILL)
            with pytest.raises(LifeDied):
                _run_on(life)
            assert life.run(SCHEDULE).digest == first.digest and life.starts == 2
    finally:
        nursery.close()
    assert not nursery.folder.exists()


def _run_on(life: ProcessLife) -> None:
    # Its death is seen a moment after that of the process that stands for it.
    for _ in range(1000):
        life.run(SCHEDULE)
