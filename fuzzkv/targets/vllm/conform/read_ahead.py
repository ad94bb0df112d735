"""A log read with a look ahead: the engine's order is kept, but for what lies before a step's forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fuzzkv.targets.vllm.conform.bookkeeping import Books
from fuzzkv.targets.vllm.conform.observing import LOOK
from fuzzkv.targets.vllm.history import LiveHistory, Row

POLL: Final = LOOK + "poll"
Handler = Callable[[Sequence[int]], None]


class Ahead(Books):
    """The log of a run and the way through it."""

    def __init__(self, history: LiveHistory, frames: int) -> None:
        tokens = [
            (*prompt, *(t for t in made if t >= 0))
            for prompt, made in zip(history.prompts, history.tokens, strict=True)
        ]
        super().__init__(history.prompts, tokens, frames)
        self.history, self.rows = history, history.log
        self._done_early: set[int] = set()
        self._do: dict[str, Handler] = {}
        """What each row means, by its name."""

    def _segment(self) -> list[Row]:
        """The rest of this step: what lies before it is looked at again."""
        found: list[Row] = []
        for row in self.rows[self.row + 1 :]:
            if row[0] == LOOK + "end":
                break
            found.append(row)
        return found

    def _loading(self) -> set[int]:
        """Blocks into which a load begins in this step."""
        return {int(b) for row in self._segment() if row[0] == "load+" for b in row[2::2]}

    def _offers_next(self, request: int) -> bool:
        """Whether the next step that the engine makes offers pages of the request."""
        steps = 0
        for what, *numbers in self.rows[self.row + 1 :]:
            steps += what == "step"
            if steps == 1 and what == "offer" and numbers[0] == request:
                return True
            if steps > 1:
                return False
        return False

    def _ends(self, request: int) -> bool:
        """Whether the request was aborted before, or ends before the next step."""
        if ("abort", request) in self.rows[: self.row]:
            return True
        for what, *numbers in self.rows[self.row :]:
            if what == "step":
                return False
            if what in ("finish", "abort") and numbers == [request]:
                return True
        return False

    def _loads(self, request: int) -> bool:
        """Whether the request claims pages of the host in this step."""
        return any(row[0] == "claim" and row[1] == request for row in self._segment())

    def _row_before(self, what: str) -> Sequence[int | str]:
        return next((r[1:] for r in reversed(self.rows[: self.row]) if r[0] == what), ())

    def _row_after(self, what: str) -> Sequence[int | str]:
        return next((r[1:] for r in self._segment() if r[0] == what), ())

    def _bring_forward(self, block: int, request: int = -1) -> None:
        """What the engine still does with a block in this step before its forward pass comes before the block is reused: stores of a
        request that has left are decided (where this drops pages of the host), begin and end."""
        for row in range(self.row + 1, len(self.rows)):
            what, *rest = self.rows[row]
            numbers = [int(n) for n in rest]
            if what in (POLL, LOOK + "end"):
                return
            if row in self._done_early:
                continue
            if what == "drop":
                mine = [r[:2] for r in self.rows[row + 1 : row + 2]] == [("offer", request)]
            elif what == "offer":
                mine = numbers[0] == request
            elif what == "store+":
                mine = block in numbers[1::2] and any(
                    o.request == request and not o.begun and block in o.blocks for o in self.offers
                )
            else:
                job = self.jobs.get(numbers[0]) if what == "store-" else None
                mine = job is not None and not job.moved and block in job.blocks
            if mine:
                self._done_early.add(row)
                self._do[str(what)](numbers)
