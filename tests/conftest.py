"""What several tests share: the default policies, compiled once a session, and a cache folder of its own."""

from __future__ import annotations

import pytest

from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.engine import BulkEngine


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test's command finds must not come first in another's."""
    monkeypatch.setenv("FUZZKV_DATABASE", "none")


@pytest.fixture(scope="session")
def defaults() -> tuple[Policy, ...]:
    """The default policies, slot by slot: evict, offload, quant."""
    return resolve(["offload", "quant", "evict"])


@pytest.fixture(scope="session")
def compiled(defaults: tuple[Policy, ...]) -> BulkEngine:
    """The default set, compiled (half a minute the first time, then from the cache).

    Take ``compiled.again(seed=...)``: tests share this one.
    """
    engine = BulkEngine(defaults, Config())
    engine.search(1)
    engine.shows(((0, 1, 0),), (7, "I1", None, "read"), False, ())
    engine.final_state(((0, 1, 0),), 7)
    return engine
