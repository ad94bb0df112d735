"""The fork server on a real engine: engines start, run, hang up and die as workers of their own do."""

from __future__ import annotations

import os
import signal

import pytest

from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.pool.engine_pool import EngineDied
from fuzzkv.targets.vllm.pool.fork_server import ForkServer
from fuzzkv.targets.vllm.pool.process import EngineProcess
from fuzzkv.targets.vllm.schedule import LiveSchedule

SCHEDULE = LiveSchedule(16, 512, (("arrive", 0, 4, 5), ("step", 3, 0, 0), ("arrive", 1, 8, 5)))


@pytest.mark.engine
@pytest.mark.slow
def test_lives_of_a_nursery() -> None:
    fork_server = ForkServer()
    try:
        assert fork_server.ready()
        with EngineProcess(EngineConfig(), command=fork_server.command()) as instance:
            first = instance.run(SCHEDULE)
            assert first.steps > 0 and not first.failed and instance.engine.startswith("vllm")
        with EngineProcess(EngineConfig(), command=fork_server.command()) as instance:
            assert instance.run(SCHEDULE).digest == first.digest
            assert instance._child is not None
            os.killpg(instance._child.pid, signal.SIGKILL)
            with pytest.raises(EngineDied):
                _run_on(instance)
            assert instance.run(SCHEDULE).digest == first.digest and instance.starts == 2
    finally:
        fork_server.close()
    assert not fork_server.folder.exists()


def _run_on(instance: EngineProcess) -> None:
    # Its death is seen a moment after that of the process that stands for it.
    for _ in range(1000):
        instance.run(SCHEDULE)
