"""What several tests share: the default policies, compiled once a session, and a cache folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzkv.core.results import FailureClass
from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.engine import BulkEngine

COMPILED = ("cases", "gate", "modelcheck", "quality", "search", "simulator", "strategies")
"""Folders whose tests run the compiled machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those folders first: where two workers halve the tests, one compiles while the other runs what needs no compiling, and
    finds the compiled machine in the cache when it comes to it.
    """
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(here).parts[0] not in COMPILED)


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
    engine.shows(((0, 1, 0),), FailureClass(engine.names, "I1", "read"), False, ())
    engine.final_state(((0, 1, 0),), 7)
    return engine
