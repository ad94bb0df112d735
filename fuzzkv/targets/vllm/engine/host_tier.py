"""A host tier on host memory under vLLM's own offloading connector, on any device.

vLLM's ``CPUOffloadingSpec`` keeps the scheduler's side (which chunks are stored, looked up, evicted); only
the worker that copies is ours, so time is ours too (:mod:`fuzzkv.targets.vllm.engine.transfer_channel`). vLLM
finds :class:`HostSpec` by ``spec_name`` and ``spec_module_path``. Imports vllm and torch: only a process that
runs an engine imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    GPULoadStoreSpec,
    LoadStoreSpec,
    OffloadingWorker,
    TransferResult,
)
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from fuzzkv.targets.vllm.engine.transfer_channel import Link, Retry, Transfer

RETRIES: Final[dict[str, Retry]] = {"retry": "all", "recover": "stores", "report": "none"}
"""What is tried again, by the tier's ``failure``."""


class HostWorker(OffloadingWorker):
    """Copies pages between the device's cache and ``frames`` chunks of host memory, when its :attr:`link` says so.

    A host page is one device block: chunk ``c`` has pages ``c * blocks_per_chunk`` and on. ``host[g]`` lists the host tensors of
    KV group ``g``, one a device tensor of the group, rows are host pages.
    """

    def __init__(
        self,
        caches: CanonicalKVCaches,
        frames: int,
        blocks_per_chunk: int,
        link: Link,
        *,
        recover: bool = False,
    ) -> None:
        self.link, self.frames, self.blocks_per_chunk, self.recover = link, frames, blocks_per_chunk, recover
        self._invalid: set[int] = set()
        self.device = [t.tensor for t in caches.tensors]
        self.groups = [sorted({ref.tensor_idx for ref in refs}) for refs in caches.group_data_refs]
        self.host = [
            torch.zeros((frames * blocks_per_chunk, t.shape[1]), dtype=t.dtype, pin_memory=t.is_cuda)
            for t in self.device
        ]
        self.page_bytes = sum(int(t.shape[1]) for t in self.device)

    def submit_store(self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec) -> bool:
        """Begin a copy from the device to host chunks."""
        return self._submit(job_id, True, src_spec, dst_spec)

    def submit_load(self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec) -> bool:
        """Begin a copy from host chunks to the device."""
        return self._submit(job_id, False, dst_spec, src_spec)

    def get_finished(self) -> list[TransferResult]:
        """Transfers that ended since the last call; sizes are of what was asked for, times are zero (they'd differ from run to run)."""
        results = []
        for t in self.link.poll():
            good = t.ending == "done"
            if not good and self.recover:
                self._invalid.update(d for d, _ in t.pages)
                good = True
            results.append(TransferResult(t.job, good, len(t.pages) * self.page_bytes, 0.0))
        return results

    def take_invalid(self) -> set[int]:
        """Device blocks that failed loads should have filled, since the last call (with ``recover``)."""
        taken, self._invalid = self._invalid, set()
        return taken

    def wait(self, job_ids: set[int]) -> None:
        """End the named transfers now."""
        self.link.wait(job_ids)

    def scrub(self) -> None:
        """Forget all transfers and zero the host's memory."""
        self.link.forget()
        for t in self.host:
            t.zero_()

    def clean(self) -> bool:
        """Whether nothing is in flight and every host byte is zero."""
        return not self.link.untold() and not any(bool(t.any()) for t in self.host)

    def _submit(self, job: int, store: bool, device: GPULoadStoreSpec, host: Any) -> bool:
        parts: list[tuple[int, int, int]] = []
        taken, chunks = 0, 0
        ids, frames = device.block_ids.tolist(), host.block_ids.tolist()
        for group, (size, first) in enumerate(zip(device.group_sizes, device.block_indices, strict=True)):
            if not size:
                continue
            skip = first % self.blocks_per_chunk
            count = -(-(skip + size) // self.blocks_per_chunk)
            pages = [
                c * self.blocks_per_chunk + j
                for c in frames[chunks : chunks + count]
                for j in range(self.blocks_per_chunk)
            ]
            mine = zip(ids[taken : taken + size], pages[skip : skip + size], strict=True)
            parts += [(group, d, h) for d, h in mine]
            taken, chunks = taken + size, chunks + count
        self.link.submit(
            Transfer(job, store, tuple((d, h) for _, d, h in parts), lambda n: self._copy(store, parts[:n]))
        )
        return True

    def _copy(self, store: bool, parts: Sequence[tuple[int, int, int]]) -> None:
        for group, tensors in enumerate(self.groups):
            pairs = [(d, h) for g, d, h in parts if g == group]
            if not pairs:
                continue
            for i in tensors:
                device, host = self.device[i], self.host[i]
                for d, h in pairs:
                    if store:
                        host[h].copy_(device[d])
                    else:
                        device[d].copy_(host[h])


class HostSpec(CPUOffloadingSpec):
    """The native spec with exactly ``fuzzkv_frames`` chunks and a :class:`HostWorker` on every device."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.num_chunks = int(self.extra_config["fuzzkv_frames"])
        self._host: HostWorker | None = None

    def get_worker(self, kv_caches: CanonicalKVCaches) -> OffloadingWorker:
        """The one worker of this spec."""
        if self._host is None:
            failure = str(self.extra_config.get("fuzzkv_failure", "retry"))
            link = Link(
                eager=self.extra_config.get("fuzzkv_copies") == "eager",
                retry=RETRIES[failure],
                stores_first=self.extra_config.get("fuzzkv_order") == "stores-first",
            )
            recover = failure == "recover"
            self._host = HostWorker(kv_caches, self.num_chunks, self.blocks_per_chunk, link, recover=recover)
        return self._host


class RecoveringConnector(OffloadingConnector):
    """The native connector, which also tells of failed loads by the connector protocol (blocks with load errors): vLLM then doesn't
    read those blocks and looks the request's prefix up again. A failed store is still tried again: the native scheduler has
    no word for it."""

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Blocks whose load failed since the last call."""
        worker = self.connector_worker.worker if self.connector_worker else None
        return worker.take_invalid() if isinstance(worker, HostWorker) else set()
