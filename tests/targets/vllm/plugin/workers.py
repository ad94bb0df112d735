"""Offloading workers over plain arrays: a clean twin, and a mutant for each rule of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from fuzzkv.targets.vllm.plugin.worker_calls import BLOCKS, WorkerSetup
from tests.targets.vllm.plugin.users import Shelf

PAGE = 64


class Row(np.ndarray[Any, Any]):
    """An array that answers to what the watch asks of a tensor."""

    def cpu(self) -> Row:
        return self

    def numpy(self) -> Row:
        return self


class Copier:
    """A clean worker: a transfer is done when it is waited for, or one at each look."""

    def __init__(self, memory: Any, frames: int) -> None:
        self.memory = memory
        self.host = np.zeros((frames, memory.shape[1]), dtype=np.int8)
        self.queue: dict[int, tuple[bool, Sequence[int], Sequence[int]]] = {}
        self.done: list[Any] = []

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        self.queue[job_id] = (True, src_spec.block_ids, dst_spec.block_ids)
        return True

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        self.queue[job_id] = (False, dst_spec.block_ids, src_spec.block_ids)
        return True

    def get_finished(self) -> list[Any]:
        if not self.done and self.queue:
            self.end(next(iter(self.queue)))
        done, self.done = self.done, []
        return done

    def wait(self, job_ids: Iterable[int]) -> None:
        for job in sorted(job_ids):
            if job in self.queue:
                self.end(job)

    def end(self, job: int) -> None:
        store, blocks, places = self.queue.pop(job)
        self.copy(store, blocks, places)
        size = len(blocks) * self.memory.shape[1]
        self.done.append(SimpleNamespace(job_id=job, success=True, transfer_size=size, transfer_time=0.0))

    def copy(self, store: bool, blocks: Sequence[int], places: Sequence[int]) -> None:
        for block, place in zip(blocks, places, strict=True):
            if store:
                self.host[place] = self.memory[block]
            else:
                self.memory[block] = self.host[place]


def mutants_of_workers() -> dict[str, type[Copier]]:
    """Rule to a worker that breaks this rule, and this one first."""

    class Refuses(Copier):
        def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
            return super().submit_load(job_id, src_spec, dst_spec) and len(dst_spec.block_ids) < 2

    class TellsTwice(Copier):
        def get_finished(self) -> list[Any]:
            done = super().get_finished()
            return [*done, *done[:1]]

    class WaitsNot(Copier):
        def wait(self, job_ids: Iterable[int]) -> None: ...

    class Fails(Copier):
        def end(self, job: int) -> None:
            super().end(job)
            self.done[-1].success = self.done[-1].transfer_size <= 2 * PAGE

    class Swaps(Copier):
        def copy(self, store: bool, blocks: Sequence[int], places: Sequence[int]) -> None:
            super().copy(store, blocks, places if store else places[::-1])

    class Short(Copier):
        def copy(self, store: bool, blocks: Sequence[int], places: Sequence[int]) -> None:
            if store:
                return super().copy(store, blocks, places)
            for block, place in zip(blocks, places, strict=True):
                self.memory[block][: PAGE // 2] = self.host[place][: PAGE // 2]
            return None

    class Spills(Copier):
        def copy(self, store: bool, blocks: Sequence[int], places: Sequence[int]) -> None:
            super().copy(store, blocks, places)
            if not store:
                self.memory[(blocks[-1] + 1) % BLOCKS] = 1

    class Boasts(Copier):
        def end(self, job: int) -> None:
            super().end(job)
            self.done[-1].transfer_size += 1

    class Breaks(Copier):
        def wait(self, job_ids: Iterable[int]) -> None:
            for job in job_ids:
                self.end(job)
                self.end(job)

    return {
        "worker-accepts": Refuses,
        "worker-known": TellsTwice,
        "worker-wait": WaitsNot,
        "worker-success": Fails,
        "worker-bytes": Swaps,
        "worker-bytes again": Short,
        "worker-neighbours": Spills,
        "worker-size": Boasts,
        "worker-returns": Breaks,
    }


def pairs(worker: Callable[[Any, int], Copier]) -> Callable[[int], WorkerSetup]:
    """Makers of a clean manager with this worker."""

    def make(frames: int) -> WorkerSetup:
        memory = np.zeros((BLOCKS, PAGE), dtype=np.int8)
        tensor = SimpleNamespace(tensor=memory.view(Row), page_size_bytes=PAGE)
        ref = SimpleNamespace(tensor_idx=0, page_size_bytes=PAGE)
        caches = SimpleNamespace(tensors=[tensor], group_data_refs=[[ref]])
        return WorkerSetup(Shelf(frames), worker(memory, frames), caches, memory)

    return make
