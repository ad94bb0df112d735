"""The transfer channel between host and device in a latency replay: first in, first out, a page takes real time.

A copy begins when those before it have ended and takes ``ticks * tick_us`` microseconds, so background
copies delay a demand load. Its bytes move when it ends, in :meth:`ThrottledLink.poll`. Standard library
only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class ThrottledTransfer:
    """A copy on the link: ``end`` in seconds of the clock, ``deliver`` moves the bytes unless it
    ``failed``."""

    end: float
    deliver: Callable[[], None]
    failed: bool = False
    done: bool = False


class ThrottledLink:
    """One channel, first in first out. ``tick`` in seconds; ``clock`` and ``sleep`` can be replaced in
    tests."""

    def __init__(
        self,
        tick: float,
        *,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.tick, self.clock, self._sleep = tick, clock, sleep
        self._queue: deque[ThrottledTransfer] = deque()
        self._free = 0.0

    def begin(self, ticks: int, deliver: Callable[[], None]) -> ThrottledTransfer:
        """Put a copy on the link."""
        self._free = max(self._free, self.clock()) + ticks * self.tick
        transfer = ThrottledTransfer(self._free, deliver)
        self._queue.append(transfer)
        return transfer

    def poll(self) -> None:
        """Deliver every copy whose time has come, in order."""
        while self._queue and self._queue[0].end <= self.clock():
            transfer = self._queue.popleft()
            if not transfer.failed:
                transfer.deliver()
            transfer.done = True

    def until(self, moment: float) -> None:
        """Let time pass until ``moment``, delivering what comes due."""
        while True:
            self.poll()
            left = moment - self.clock()
            if left <= 0:
                return
            step = min(left, max(self._queue[0].end - self.clock(), 0.0)) if self._queue else left
            self._sleep(max(step - 0.0002, 0.0) if step > 0.0004 else 0.00002)

    def finish(self, transfer: ThrottledTransfer) -> None:
        """Block until this copy has ended."""
        if not transfer.done:
            self.until(transfer.end)

    def drain(self) -> None:
        """Forget what is in flight: nothing of it is delivered any more."""
        self._queue.clear()
        self._free = 0.0
