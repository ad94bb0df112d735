"""Executes one arm's script in real time over a throttled link, and clocks every ``ask``.

The clock of an ask runs from the moment it is asked (or from the ``await`` before it: the demand load
belongs to the ask) until its tokens are out. An ask takes at least its ticks, which aren't counted.
``stored`` and ``loaded`` wait for their copy, so pages are in the same state as in the model.
"""

from __future__ import annotations

from typing import Final

from fuzzkv.targets.vllm.replay.bench import Bench
from fuzzkv.targets.vllm.replay.link import ThrottledLink, ThrottledTransfer
from fuzzkv.targets.vllm.replay.runner import ArmRun, PageKey
from fuzzkv.targets.vllm.replay.script import Op, ReplayArm

ASK_TOKENS: Final = 2


class TimedArmRun(ArmRun):
    """As :class:`ArmRun`, with copies that take time. ``latencies`` holds microseconds, one an ask."""

    def __init__(self, bench: Bench, arm: ReplayArm, link: ThrottledLink) -> None:
        super().__init__(bench, arm, "latency")
        self.link = link
        self.flights: dict[PageKey, ThrottledTransfer] = {}
        self.asked_at: dict[int, float] = {}
        self.latencies: list[int] = []

    def store(self, op: Op) -> None:
        super().store(op)
        self._begin(op, load=False)

    def load(self, op: Op) -> None:
        super().load(op)
        self._begin(op, load=True)

    def stored(self, op: Op) -> None:
        self._finish(op)

    def loaded(self, op: Op) -> None:
        self._finish(op)

    def fail(self, op: Op) -> None:
        super().fail(op)
        if flight := self.flights.get(self.key(op)):
            flight.failed = True

    def block(self, op: Op) -> None:
        self.asked_at.setdefault(op.request, self.link.clock())
        self._finish(op)

    def wait(self, ticks: int) -> None:
        self.link.until(self.link.clock() + ticks * self.link.tick)

    def ask(self, op: Op) -> None:
        self.link.poll()
        step = self.link.clock()
        began = self.asked_at.pop(op.request, step)
        session, context = self._replicas(self.open[op.request])[0]
        self.engine.decode([(session, context.questions[op.page][0].cue)], ASK_TOKENS)
        self.latencies.append(round((self.link.clock() - began) * 1e6))
        self.link.until(step + max(op.arg, 0) * self.link.tick)

    def audit(self, request: int) -> None:
        """Latency replays ask nothing after the script."""
        self.asked_at.pop(request, None)

    def _begin(self, op: Op, *, load: bool) -> None:
        key = self.key(op)
        page = self.pages[self.key(op)]

        def deliver() -> None:
            if self.open.get(op.request) != key[:2] or page.failed:
                return
            if load:
                self._arrive(key, page)
            else:
                page.host = self.engine.copy_out(self.blocks(key))

        self.flights[key] = self.link.begin(op.arg, deliver)

    def _finish(self, op: Op) -> None:
        if flight := self.flights.pop(self.key(op), None):
            self.link.finish(flight)
            page = self.pages[self.key(op)]
            page.flight, page.failed = "", False
