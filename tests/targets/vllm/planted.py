"""Host tiers with one planted fault each, as OffloadingSpecs of a user's: the tier of :mod:`fuzzkv.targets.vllm.engine.host_tier`, spoilt.

An engine's process imports them by name (``tests.targets.vllm.planted``); ``HostSpec`` itself is the repaired twin of all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    OffloadingWorker,
    OffloadKey,
    ReqContext,
    TransferResult,
)
from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

from fuzzkv.targets.vllm.engine.host_tier import HostSpec, HostWorker


class Twin(HostSpec):
    """The repaired form."""

    def get_worker(self, kv_caches: CanonicalKVCaches) -> OffloadingWorker:
        worker = super().get_worker(kv_caches)
        self.spoil(worker)
        return worker

    def spoil(self, worker: Any) -> None:
        """Plant the fault."""


class LateCopy(Twin):
    """A store that vLLM waits for, because its page is about to be given away, goes on all the same."""

    def spoil(self, worker: Any) -> None:
        worker.__class__ = _LateCopy


class _LateCopy(HostWorker):
    def wait(self, job_ids: set[int]) -> None:
        """Nothing is waited for."""


class FailedDone(Twin):
    """A transfer that failed is reported as done."""

    def spoil(self, worker: Any) -> None:
        worker.link.retry = "none"
        worker.__class__ = _FailedDone


class _FailedDone(HostWorker):
    def get_finished(self) -> list[TransferResult]:
        done = [(t.job, len(t.pages) * self.page_bytes) for t in self.link.poll()]
        return [TransferResult(job, True, size, 0.0) for job, size in done]


class ScaleLost(Twin):
    """The last bytes of every page, where a format has its scales, don't come back."""

    def spoil(self, worker: Any) -> None:
        worker.__class__ = _ScaleLost


class _ScaleLost(HostWorker):
    def _copy(self, store: bool, parts: Sequence[tuple[int, int, int]]) -> None:
        if store:
            return super()._copy(store, parts)
        for group, tensors in enumerate(self.groups):
            for i in tensors:
                for _, d, h in [part for part in parts if part[0] == group]:
                    kept = self.device[i].shape[1] * 7 // 8
                    self.device[i][d][:kept].copy_(self.host[i][h][:kept])
        return None


class WrongChunk(Twin):
    """Every second store of several pages lands one host page too far."""

    def spoil(self, worker: Any) -> None:
        worker.__class__ = _WrongChunk
        worker.stored = 0


class _WrongChunk(HostWorker):
    stored: int

    def _copy(self, store: bool, parts: Sequence[tuple[int, int, int]]) -> None:
        if store and parts:
            self.stored += 1
            pages = self.host[0].shape[0]
            parts = [(g, d, (h + self.stored % 2) % pages) for g, d, h in parts]
        return super()._copy(store, parts)


class DoubleFree(Twin):
    """A chunk that is given up is listed as free twice."""

    def get_manager(self) -> Any:
        manager = super().get_manager()
        manager.__class__ = _DoubleFree
        return manager


class _DoubleFree(CPUOffloadingManager):
    def _free_chunk(self, chunk: Any) -> None:
        super()._free_chunk(chunk)
        super()._free_chunk(chunk)


class ForgottenPin(Twin):
    """Chunks that are being loaded aren't pinned, so others may be stored in their place."""

    def get_manager(self) -> Any:
        manager = super().get_manager()
        manager.__class__ = _ForgottenPin
        return manager


class _ForgottenPin(CPUOffloadingManager):
    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> Any:
        spec = super().prepare_load(keys, req_context)
        super().complete_load(keys, req_context)
        return spec

    def complete_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Nothing is pinned any more."""


FAULTS = (LateCopy, FailedDone, ScaleLost, WrongChunk, DoubleFree, ForgottenPin)
