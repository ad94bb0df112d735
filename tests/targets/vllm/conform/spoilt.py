"""Host tiers that are spoilt for good: what :mod:`tests.targets.vllm.planted` plants in a link, the reset between two runs mends."""

from __future__ import annotations

from typing import Any

from tests.targets.vllm.planted import DoubleFree, FailedDone, ForgottenPin, Twin, WrongChunk


class Deaf(Twin):
    """Nobody waits for a store whose page is about to be given away."""

    def spoil(self, worker: Any) -> None:
        worker.link.wait = lambda jobs: []


__all__ = ["Deaf", "DoubleFree", "FailedDone", "ForgottenPin", "Twin", "WrongChunk"]
