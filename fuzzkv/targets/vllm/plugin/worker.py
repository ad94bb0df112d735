"""A watch on a vLLM ``OffloadingWorker``: results, waits, and the bytes that a load brings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fuzzkv.targets.vllm.plugin.record import Report
from fuzzkv.targets.vllm.plugin.watching import Watch

Place = tuple[int, int, int]
"""Where a page of bytes lies on the host: KV group, chunk, page of the chunk."""


@dataclass
class WorkerJob:
    """A transfer under way.  ``pages`` pairs each device block with its place on the host (None where places aren't
    known) and ``meant`` says for a load which bytes lay there when it was submitted (None: not known); ``size`` in bytes.
    """

    store: bool
    pages: tuple[tuple[int, Place], ...]
    meant: tuple[bytes | None, ...]
    size: int


class WorkerWatch(Watch):
    """The ledger: transfers under way, those that a wait named, and what was stored at each place.

    ``caches`` are the device's ``CanonicalKVCaches``: with them, and places that are numbers, bytes are checked.
    ``may_fail``: failed transfers are chosen by the schedule, so they aren't the worker's fault.
    """

    returns = "worker-returns"

    def __init__(
        self,
        worker: Any,
        report: Report,
        *,
        caches: Any = None,
        blocks_per_chunk: int = 1,
        may_fail: bool = False,
    ) -> None:
        super().__init__(worker, report)
        self.caches, self.per_chunk, self.may_fail = caches, blocks_per_chunk, may_fail
        self.jobs: dict[int, WorkerJob] = {}
        self.due: set[int] = set()
        self.ended: set[int] = set()
        self.stored: dict[Place, bytes] = {}
        self.around("submit_store", self._submit_store)
        self.around("submit_load", self._submit_load)
        self.around("get_finished", self._get_finished)
        self.around("wait", self._wait)

    def forget(self) -> None:
        """Nothing is under way and nothing is stored."""
        for ledger in (self.jobs, self.due, self.ended, self.stored):
            ledger.clear()

    def settled(self) -> None:
        """Say that the engine is idle: every accepted transfer must have been reported."""
        for job in self.jobs:
            self.report.check("worker-ends", False, "job {} was never reported", job)
        self.report.check("worker-ends", True, "")

    def _submit_store(self, call: Callable[..., Any], job_id: int, src_spec: Any, dst_spec: Any) -> Any:
        return self._submit(call, job_id, src_spec, dst_spec, store=True)

    def _submit_load(self, call: Callable[..., Any], job_id: int, src_spec: Any, dst_spec: Any) -> Any:
        return self._submit(call, job_id, src_spec, dst_spec, store=False)

    def _submit(self, call: Callable[..., Any], job_id: int, src: Any, dst: Any, *, store: bool) -> Any:
        device, host = (src, dst) if store else (dst, src)
        pages = () if self.caches is None else _pages(device, host, self.per_chunk)
        if store:
            # vLLM submits a store once its source is computed, and may write the source anew right after a wait: so the
            # bytes that are meant are those of now.
            self.stored.update({place: self._digest(place[0], block) for block, place in pages})
        meant = () if store else tuple(self.stored.get(place) for _, place in pages)
        job = WorkerJob(store, pages, meant, self._size(device))
        accepted = call(job_id, src, dst)
        self.report.check(
            "worker-accepts", accepted is True, "job {} was answered with {}", job_id, repr(accepted)
        )
        if accepted:
            self.jobs[job_id] = job
        return accepted

    def _get_finished(self, call: Callable[..., Any]) -> list[Any]:
        results, check = list(call()), self.report.check
        for result in results:
            job = self.jobs.pop(result.job_id, None)
            word = "a second time" if result.job_id in self.ended else "though it was never submitted"
            check("worker-known", job is not None, "job {} is reported {}", result.job_id, word)
            self.ended.add(result.job_id)
            if not self.may_fail:
                check("worker-success", bool(result.success), "job {} is reported as failed", result.job_id)
            if job is not None and result.success:
                self._moved(result, job)
            elif job is not None and job.store:
                for _, place in job.pages:
                    self.stored.pop(place, None)
        missing = sorted(self.due & set(self.jobs))
        check("worker-wait", not missing, "jobs {} were waited for and aren't reported", missing)
        self.due.clear()
        return results

    def _wait(self, call: Callable[..., Any], job_ids: Iterable[int]) -> None:
        named = set(job_ids)
        call(named)
        self.due |= named & set(self.jobs)

    def _moved(self, result: Any, job: WorkerJob) -> None:
        size = result.transfer_size
        if size is not None and job.size:
            self.report.check(
                "worker-size", size == job.size, "job {} tells {} bytes of {}", result.job_id, size, job.size
            )
        for (block, place), meant in zip(job.pages, job.meant, strict=False):
            if meant is not None:
                self.report.check(
                    "worker-bytes",
                    self._digest(place[0], block) == meant,
                    "block {} has other bytes than were stored at {}",
                    block,
                    place,
                    page=block,
                )

    def _digest(self, group: int, block: int) -> bytes:
        total = hashlib.blake2b(digest_size=16)
        for ref in self.caches.group_data_refs[group]:
            row = self.caches.tensors[ref.tensor_idx].tensor[block]
            total.update(row.flatten()[: ref.page_size_bytes].cpu().numpy().tobytes())
        return total.digest()

    def _size(self, device: Any) -> int:
        """Bytes of the blocks that a device spec names; 0 where that isn't known."""
        if self.caches is None:
            return 0
        refs = self.caches.group_data_refs
        return sum(
            int(n) * sum(int(ref.page_size_bytes) for ref in refs[group])
            for group, n in enumerate(device.group_sizes)
        )


def _pages(device: Any, host: Any, per_chunk: int) -> tuple[tuple[int, Place], ...]:
    """Each device block with its place, as ``GPULoadStoreSpec`` says: groups one after the other, the blocks of a group
    logically contiguous, the first perhaps within a chunk; empty where that can't be told.
    """
    chunks = getattr(host, "block_ids", None)
    if chunks is None:
        return ()
    blocks, at, chunk = [int(b) for b in device.block_ids], 0, 0
    found: list[tuple[int, Place]] = []
    for group, (size, first) in enumerate(zip(device.group_sizes, device.block_indices, strict=True)):
        skip = int(first) % per_chunk
        needed = -(-(skip + int(size)) // per_chunk) if size else 0
        if chunk + needed > len(chunks):
            return ()
        for i in range(int(size)):
            which, page = divmod(skip + i, per_chunk)
            found.append((blocks[at + i], (group, int(chunks[chunk + which]), page)))
        at, chunk = at + int(size), chunk + needed
    return tuple(found)


def watch_worker(
    worker: Any, report: Report, *, caches: Any = None, blocks_per_chunk: int = 1, may_fail: bool = False
) -> WorkerWatch:
    """Check every call of ``worker``, which has nothing under way now.  A worker's connector has it as ``worker``."""
    return WorkerWatch(worker, report, caches=caches, blocks_per_chunk=blocks_per_chunk, may_fail=may_fail)
