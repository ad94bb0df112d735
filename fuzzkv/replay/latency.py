"""Executes one arm's script in real time over a throttled link, and clocks every ``ask``.

The clock of an ask runs from the moment it is asked (or from the ``await`` before it: the demand load
belongs to the ask) until its tokens are out. ``stored`` and ``loaded`` wait for their copy, so pages are in
the same state as in the model.
"""

from __future__ import annotations

from typing import Final

from fuzzkv.replay.bench import Bench
from fuzzkv.replay.link import ThrottledLink, Transfer
from fuzzkv.replay.runner import ArmRun
from fuzzkv.replay.script import Arm, Op

ASK_TOKENS: Final = 2


class TimedArmRun(ArmRun):
    """As :class:`ArmRun`, with copies that take time. ``latencies`` holds microseconds, one an ask."""

    def __init__(self, bench: Bench, arm: Arm, link: ThrottledLink) -> None:
        super().__init__(bench, arm, "latency")
        self.link = link
        self.flights: dict[tuple[int, int], Transfer] = {}
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
        if flight := self.flights.get((op.request, op.page)):
            flight.failed = True

    def block(self, op: Op) -> None:
        self.asked_at.setdefault(op.request, self.link.clock())
        self._finish(op)

    def wait(self, ticks: int) -> None:
        self.link.until(self.link.clock() + ticks * self.link.tick)

    def ask(self, op: Op) -> None:
        self.link.poll()
        began = self.asked_at.pop(op.request, self.link.clock())
        session = self.bench.sessions[op.request][0]
        cue = self.bench.contexts[op.request][0].questions[op.page][0].cue
        self.engine.decode([(session, cue)], ASK_TOKENS)
        self.latencies.append(round((self.link.clock() - began) * 1e6))
        self.link.poll()

    def audit(self, request: int) -> None:
        """Latency replays ask nothing after the script."""

    def _begin(self, op: Op, *, load: bool) -> None:
        page = self.pages[op.request, op.page]

        def deliver() -> None:
            if op.request not in self.open or page.failed:
                return
            if load:
                self._arrive(op.request, op.page, page)
            else:
                page.host = self.engine.copy_out(self.bench.blocks(op.request, op.page))

        self.flights[op.request, op.page] = self.link.begin((op.request, op.page), op.arg, deliver, load=load)

    def _finish(self, op: Op) -> None:
        if flight := self.flights.pop((op.request, op.page), None):
            self.link.finish(flight)
            page = self.pages[op.request, op.page]
            page.flight, page.failed = "", False
