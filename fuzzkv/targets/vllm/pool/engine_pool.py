"""The engines of a hunt: an engine for every configuration that is asked for, a few of them open at a time.

An engine that dies or hangs is a result: a history that says so, and the next run starts another engine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.policies import LivePolicy, compose, driven
from fuzzkv.targets.vllm.schedule import LiveSchedule


class EngineDied(Exception):
    """An engine ended, hung or broke its protocol while it ran a schedule: ``what`` is "died" or "hung"."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(text)
        self.what, self.text = what, text


class EngineInstance(Protocol):
    """A runner that can be closed."""

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        """Run one schedule.  Raises :class:`EngineDied`."""
        ...

    def close(self) -> None:
        """End the engine."""
        ...


Start = Callable[[EngineConfig], EngineInstance]
"""Starts an engine.  Raises ``EnvironmentFailure`` if the engine refuses this configuration or can't start."""


@dataclass
class EnginePool:
    """``start`` makes an engine of a configuration over ``base``; at most ``keep`` are open, the least recently used goes.

    :meth:`ahead` starts one while another runs.  ``started``, ``runs``, ``steps`` and ``events`` (of page logs) count.
    """

    start: Start
    base: EngineConfig = field(default_factory=EngineConfig)
    keep: int = 2
    started: int = 0
    runs: int = 0
    steps: int = 0
    events: int = 0
    _open: OrderedDict[EngineConfig, EngineInstance] = field(default_factory=OrderedDict)
    _coming: dict[EngineConfig, Future[EngineInstance]] = field(default_factory=dict)
    _starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def history(
        self, policies: Sequence[LivePolicy], schedule: LiveSchedule, *, fresh: bool = False
    ) -> LiveHistory:
        """Run a schedule with these policies on; ``fresh``: on an engine that has run nothing before."""
        config = compose(policies, self.base)
        if fresh:
            self._end(config)
        instance = self._instance(config)
        self.runs += 1
        try:
            history = instance.run(driven(policies, schedule, config))
        except EngineDied as death:
            self._end(config)
            violation = Failure("I13", death.what, event=len(schedule.events), text=death.text)
            return LiveHistory(failures=(violation,))
        self.steps += history.steps
        self.events += len(history.log)
        return history

    def open(self, policies: Sequence[LivePolicy]) -> None:
        """Start the engine of a set, unless it is there.  Raises what ``start`` raises."""
        self._instance(compose(policies, self.base))

    def ahead(self, policies: Sequence[LivePolicy]) -> None:
        """Begin to start the engine of a set that will be wanted next; what ``start`` raises is raised when it is."""
        config = compose(policies, self.base)
        if config not in self._open and config not in self._coming:
            self._coming[config] = self._starter.submit(self.start, config)

    def close(self) -> None:
        """End all of them."""
        for config in list(self._open):
            self._end(config)
        for coming in self._coming.values():
            if not coming.cancel():
                with suppress(Exception):
                    coming.result().close()
        self._coming.clear()

    def _instance(self, config: EngineConfig) -> EngineInstance:
        if config not in self._open:
            while len(self._open) >= self.keep:
                self._end(next(iter(self._open)))
            coming = self._coming.pop(config, None)
            self._open[config] = coming.result() if coming is not None else self.start(config)
            self.started += 1
        self._open.move_to_end(config)
        return self._open[config]

    def _end(self, config: EngineConfig) -> None:
        instance = self._open.pop(config, None)
        if instance is not None:
            # A dead process may be gone already.
            with suppress(OSError, EngineDied):
                instance.close()
