"""vLLM's manager of two tiers on plain memory, and a spec with it for a live engine. Imports vLLM."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from vllm.v1.kv_offload.tiering.example.manager import ExampleSecondaryTierManager
from vllm.v1.kv_offload.tiering.manager import CPUPrimaryTierOffloadingManager, TieringOffloadingManager

from fuzzkv.targets.vllm.engine.host_tier import HostSpec


class Memory:
    """What the primary tier asks of a ``SharedOffloadRegion``, without bytes of interest."""

    def __init__(self, chunks: int) -> None:
        self.view = memoryview(np.zeros((chunks, 64), dtype=np.int8))

    def create_kv_memoryview(self) -> memoryview:
        return self.view

    def cleanup(self) -> None: ...


class Second(ExampleSecondaryTierManager):
    """vLLM's example of a second tier, which keeps the bytes too where a worker has some."""

    worker: ClassVar[Any] = None

    def __init__(self, view: memoryview) -> None:
        super().__init__(None, view, "example")  # type: ignore[arg-type]
        self.kept: dict[bytes, list[Any]] = {}

    def submit_store(self, job_metadata: Any) -> None:
        for key, rows in zip(job_metadata.keys, self.rows(job_metadata), strict=True):
            self.kept[key] = [row.clone() for row in rows]
        super().submit_store(job_metadata)

    def submit_load(self, job_metadata: Any) -> None:
        for key, rows in zip(job_metadata.keys, self.rows(job_metadata), strict=True):
            for row, kept in zip(rows, self.kept[key], strict=True):
                row.copy_(kept)
        super().submit_load(job_metadata)

    def rows(self, job: Any) -> list[list[Any]]:
        if self.worker is None:
            return [[] for _ in job.keys]
        n = self.worker.blocks_per_chunk
        return [[host[c * n : (c + 1) * n] for host in self.worker.host] for c in job.chunk_ids]


def two_tiers(frames: int, policy: str = "lru") -> TieringOffloadingManager:
    """vLLM's manager with a primary tier of so many chunks and a second tier without a limit."""
    primary = CPUPrimaryTierOffloadingManager(frames, Memory(frames), policy)  # type: ignore[arg-type]
    return TieringOffloadingManager(primary, [Second(primary.get_kv_memoryview())])


class Repaired(TieringOffloadingManager):
    """The same, but a promotion spares what look-ups of its request found in this step; then it may find no room."""

    def __init__(self, primary: CPUPrimaryTierOffloadingManager, tiers: list[Any]) -> None:
        super().__init__(primary, tiers)
        self.found: dict[str, list[Any]] = {}

    def lookup(self, key: Any, req_context: Any, **more: Any) -> Any:
        said = super().lookup(key, req_context, **more)
        if said.name in ("HIT", "HIT_PENDING"):
            self.found.setdefault(req_context.req_id, []).append(key)
        return said

    def _initiate_promotion(self, tier_idx: int, key: Any, req_context: Any) -> bool:
        primary = self.primary_tier
        write = primary.prepare_write
        found = [
            k for k in self.found.get(req_context.req_id, ()) if primary.lookup(k, req_context).name != "MISS"
        ]
        # What is offered in the same call isn't evicted.
        primary.prepare_write = lambda keys, context: write([*dict.fromkeys(found), *keys], context)
        try:
            return bool(super()._initiate_promotion(tier_idx, key, req_context))
        finally:
            primary.prepare_write = write

    def on_schedule_end(self, context: Any) -> None:
        super().on_schedule_end(context)
        self.found.clear()


def two_tiers_repaired(frames: int) -> TieringOffloadingManager:
    """The clean twin of :func:`two_tiers`."""
    primary = CPUPrimaryTierOffloadingManager(frames, Memory(frames))  # type: ignore[arg-type]
    return Repaired(primary, [Second(primary.get_kv_memoryview())])


class TwoTiers(HostSpec):
    """The host tier with a second one behind it."""

    def get_manager(self) -> Any:
        if not self._manager:
            self._manager = two_tiers(self.num_chunks, self.eviction_policy)
        return self._manager

    def get_worker(self, kv_caches: Any) -> Any:
        Second.worker = super().get_worker(kv_caches)
        return Second.worker
