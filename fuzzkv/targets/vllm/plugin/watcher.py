"""The boundary's watches as one watcher of a live engine: what the driver asks while a schedule runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.plugin.cache_policy import PolicyWatch, watch_policy
from fuzzkv.targets.vllm.plugin.connector import ConnectorLedger, ConnectorWatch, watch_connector
from fuzzkv.targets.vllm.plugin.manager import ManagerWatch, watch_manager
from fuzzkv.targets.vllm.plugin.record import Report
from fuzzkv.targets.vllm.plugin.worker import WorkerWatch, watch_worker


class BoundaryWatcher:
    """Watches what plugs into one engine: policy, manager, worker and both sides of the connector, where there are any.

    A ``Watcher`` of ``fuzzkv.targets.vllm.engine.driver``. ``report.checked`` says afterwards which rules were put to the test.
    """

    def __init__(self) -> None:
        self.report = Report()
        self.watches: list[PolicyWatch | ManagerWatch | WorkerWatch | ConnectorWatch] = []
        self._told = 0

    def begin(self, engine: Any, schedule: Any) -> None:
        """The engine is as at birth: so are the ledgers. The first time, the watches are put on."""
        if not self.watches:
            self._put_on(engine)
        for watch in self.watches:
            watch.forget()
        self.report.broken.clear()
        self.report.failures.clear()
        self._told = 0

    def before_step(self, engine: Any) -> None:
        """Nothing: every call is checked as it comes."""

    def after_step(self, engine: Any) -> Iterable[Failure]:
        """Violations since the last step."""
        news = self.report.failures[self._told :]
        self._told += len(news)
        return news

    def end(self, engine: Any) -> Iterable[Failure]:
        """Violations at the end of the run; where the engine is idle, nothing may be under way any more."""
        if not engine.busy() and not engine.unfinished():
            for watch in self.watches:
                watch.settled()
        return self.after_step(engine)

    def stop(self) -> None:
        """Take the watches off, the last put on first."""
        while self.watches:
            self.watches.pop().stop()

    def _put_on(self, engine: Any) -> None:
        manager = engine.manager
        if manager is not None:
            if (policy := getattr(manager, "_policy", None)) is not None:
                self.watches.append(watch_policy(policy, self.report))
            sole = not hasattr(manager, "secondary_tiers")
            self.watches.append(watch_manager(manager, self.report, sole=sole))
        if engine.worker is not None:
            # Transfers over our own link fail when the schedule says so.
            self.watches.append(
                watch_worker(engine.worker, self.report, may_fail=hasattr(engine.worker, "link"))
            )
        ledger = ConnectorLedger()
        for side in _sides(engine):
            self.watches.append(watch_connector(side, self.report, ledger=ledger))


def _sides(engine: Any) -> list[Any]:
    """The scheduler's connector and the worker's, if there are any; they live in one process."""
    scheduler = getattr(engine, "_connector", None)
    if scheduler is None:
        return []
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    return [scheduler, get_kv_transfer_group()]


def watch(engine: Any) -> BoundaryWatcher:
    """A watcher for an engine in a process of its own (``fuzzkv.targets.vllm.plugin.watcher:watch``)."""
    return BoundaryWatcher()
