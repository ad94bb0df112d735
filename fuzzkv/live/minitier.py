"""The smallest host tier that the native offloading connector accepts on any platform: copies are done when
they are submitted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from vllm.v1.kv_offload.base import CanonicalKVCaches, GPULoadStoreSpec, OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

COUNTS: Counter[str] = Counter()
"""Blocks stored and loaded by this process."""


class HostWorker(OffloadingWorker):
    """Host memory, one buffer a tensor, ``per_chunk`` pages a chunk."""

    def __init__(self, caches: CanonicalKVCaches, chunks: int, per_chunk: int) -> None:
        self.caches, self.per_chunk = caches, per_chunk
        self.host = [
            torch.zeros((chunks * per_chunk, t.page_size_bytes), dtype=torch.int8) for t in caches.tensors
        ]
        self.done: list[TransferResult] = []

    def _pairs(self, device: GPULoadStoreSpec, chunks: Sequence[int]) -> list[tuple[int, int, int]]:
        pairs, at, chunk = [], 0, 0
        for group, (size, first) in enumerate(zip(device.group_sizes, device.block_indices, strict=True)):
            skip = first % self.per_chunk
            for i in range(size):
                slot = skip + i
                host = int(chunks[chunk + slot // self.per_chunk]) * self.per_chunk + slot % self.per_chunk
                pairs.append((group, int(device.block_ids[at + i]), host))
            at += size
            chunk += -(-(skip + size) // self.per_chunk) if size else 0
        return pairs

    def _copy(self, job: int, device: GPULoadStoreSpec, host: Any, out: bool) -> bool:
        for group, block, slot in self._pairs(device, host.block_ids):
            for ref in self.caches.group_data_refs[group]:
                page = self.caches.tensors[ref.tensor_idx].tensor[block, : ref.page_size_bytes]
                kept = self.host[ref.tensor_idx][slot, : ref.page_size_bytes]
                if out:
                    kept.copy_(page)
                else:
                    page.copy_(kept)
            COUNTS["stored" if out else "loaded"] += 1
        self.done.append(TransferResult(job, True))
        return True

    def submit_store(self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: Any) -> bool:
        return self._copy(job_id, src_spec, dst_spec, True)

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: GPULoadStoreSpec) -> bool:
        return self._copy(job_id, dst_spec, src_spec, False)

    def get_finished(self) -> list[TransferResult]:
        done, self.done = self.done, []
        return done

    def wait(self, job_ids: set[int]) -> None:
        """Nothing to wait for: submitted copies are done."""


class HostSpec(CPUOffloadingSpec):
    """vLLM's own host tier with its own manager and policies, over :class:`HostWorker`."""

    def get_worker(self, kv_caches: CanonicalKVCaches) -> OffloadingWorker:
        return HostWorker(kv_caches, self.num_chunks, self.blocks_per_chunk)
