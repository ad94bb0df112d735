"""The transfer channel of the host tier, in the hands of a schedule: which transfer ends when, and how.

A transfer is submitted, *ends* (its bytes move, or fail to), and is *told* at the next poll. While the link is held it ends only
when commanded, so transfers can be late and out of order. ``wait`` ends those named at once, as vLLM demands before it reuses
a page. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

Ending = Literal["done", "failed", "short"]
Retry = Literal["all", "stores", "none"]


@dataclass
class Transfer:
    """One copy of ``pages`` (device page, host page) pairs. ``move(first)`` copies the first so many pairs; ``ending`` is set when it
    ends."""

    job: int
    store: bool
    pages: tuple[tuple[int, int], ...]
    move: Callable[[int], None] = field(repr=False)
    ending: Ending | None = None
    moved: bool = False


Tell = Callable[[str, Transfer], None]
"""What happens, as it happens: ``begin``, ``end``, ``fail``, ``short``, ``told`` and the transfer."""


class Link:
    """``eager``: bytes move at submission, and only the news of it is late. ``retry``: which failed attempts are made again with
    nobody told (``all``, ``stores`` or ``none``). ``stores_first``: of transfers that end together (waited for, or at a poll)
    stores end before loads; otherwise they end as they were submitted. Either keeps the order within a direction, as vLLM's own
    worker does; nothing orders one direction with the other. ``tell`` hears everything."""

    def __init__(
        self,
        *,
        eager: bool = False,
        retry: Retry = "all",
        stores_first: bool = False,
        tell: Tell = lambda what, transfer: None,
    ) -> None:
        self.eager, self.retry, self.stores_first, self.tell = eager, retry, stores_first, tell
        self.held = False
        self.obeys_wait = True
        self._open: list[Transfer] = []
        self._ended: list[Transfer] = []

    def submit(self, transfer: Transfer) -> None:
        """Begin a transfer."""
        self.tell("begin", transfer)
        if self.eager:
            self._move(transfer, len(transfer.pages))
        self._open.append(transfer)

    def pending(self) -> list[Transfer]:
        """Transfers that have not ended, in the order of submission."""
        return list(self._open)

    def untold(self) -> int:
        """How many are pending or ended and not yet told."""
        return len(self._open) + len(self._ended)

    def hold(self, held: bool) -> None:
        """From now on transfers wait for a command, or end by themselves at the next poll."""
        self.held = held

    def end(self, which: int, ending: Ending = "done") -> Transfer | None:
        """End a pending transfer (modulo their number) well, failed (nothing copied) or short (the first half of it copied).

        None if there is none. Where failures are tried again, it goes on as pending.
        """
        if not self._open:
            return None
        transfer = self._open[which % len(self._open)]
        self._end(transfer, ending)
        return transfer

    def wait(self, jobs: Collection[int]) -> list[int]:
        """End the named transfers well, in the order of submission; those that aren't pending are skipped. The jobs it ended."""
        if not self.obeys_wait:
            return []
        named = [t for t in self._ordered() if t.job in jobs]
        for transfer in named:
            self._end(transfer, "done")
        return [t.job for t in named]

    def poll(self) -> list[Transfer]:
        """Transfers that ended and were not told before."""
        if not self.held:
            for transfer in self._ordered():
                self._end(transfer, "done")
        told, self._ended = self._ended, []
        for transfer in told:
            self.tell("told", transfer)
        return told

    def forget(self) -> None:
        """Drop everything, as if nothing had ever been submitted, and stop holding."""
        self._open, self._ended, self.held = [], [], False

    def _ordered(self) -> list[Transfer]:
        return sorted(self._open, key=lambda t: not t.store) if self.stores_first else list(self._open)

    def _end(self, transfer: Transfer, ending: Ending) -> None:
        if ending == "done":
            self._move(transfer, len(transfer.pages))
            self.tell("end", transfer)
        else:
            if ending == "short":
                self._move(transfer, len(transfer.pages) // 2)
            self.tell("fail" if ending == "failed" else "short", transfer)
            if self.retry == "all" or (transfer.store and self.retry == "stores"):
                transfer.moved = self.eager
                return
        transfer.ending = ending
        self._open.remove(transfer)
        self._ended.append(transfer)

    def _move(self, transfer: Transfer, pages: int) -> None:
        if not transfer.moved:
            transfer.move(pages)
            transfer.moved = pages == len(transfer.pages)
