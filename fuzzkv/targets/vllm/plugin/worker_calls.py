"""Has an ``OffloadingWorker`` move real bytes for its own manager, and looks at every byte of the device afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzkv.targets.vllm.plugin.exercise import Exercised
from fuzzkv.targets.vllm.plugin.manager_calls import Mover, exercise_manager
from fuzzkv.targets.vllm.plugin.parts import PLAIN, Parts
from fuzzkv.targets.vllm.plugin.record import Report
from fuzzkv.targets.vllm.plugin.worker import watch_worker

BLOCKS = 64
"""Device blocks."""
SCRUBBED = 0x5A
"""What a block that waits for a load is full of."""

Memory = NDArray[np.int8]


@dataclass(frozen=True)
class WorkerSetup:
    """A manager with its worker, the device's caches that the worker got, and their bytes (blocks, page)."""

    manager: Any
    worker: Any
    caches: Any
    memory: Memory
    blocks_per_chunk: int = 1


class DeviceMover:
    """Moves the chunks of keys between device blocks and the manager's places, with the worker under test."""

    def __init__(self, pair: WorkerSetup, parts: Parts, report: Report) -> None:
        self.pair, self.parts, self.report = pair, parts, report
        self.watch = watch_worker(
            pair.worker, report, caches=pair.caches, blocks_per_chunk=pair.blocks_per_chunk
        )
        self.next = 0
        self.loads: dict[int, tuple[list[int], Sequence[bytes]]] = {}
        self.open: set[int] = set()
        self.meant = pair.memory.copy()

    def store(self, job: int, keys: Sequence[bytes], spec: Any) -> None:
        """Fill device blocks with what the keys stand for, and begin a store."""
        blocks = self._blocks(len(keys))
        for block, content in zip(blocks, self._contents(keys), strict=True):
            self.pair.memory[block] = self.meant[block] = content
        self.open.add(job)
        self.report.told(f"  submit_store({job}, blocks {blocks})")
        self.pair.worker.submit_store(job, self._spec(blocks), spec)

    def load(self, job: int, keys: Sequence[bytes], spec: Any) -> None:
        """Scrub device blocks, and begin a load into them."""
        blocks = self._blocks(len(keys))
        self.pair.memory[blocks] = self.meant[blocks] = SCRUBBED
        self.loads[job] = (blocks, keys)
        self.open.add(job)
        self.report.told(f"  submit_load({job}, blocks {blocks})")
        self.pair.worker.submit_load(job, spec, self._spec(blocks))

    def finish(self, job: int) -> None:
        """Wait for a transfer if it isn't reported yet, take the results, and look at the device."""
        if job in self.open:
            self.report.told(f"  wait({{{job}}}), get_finished()")
            self.pair.worker.wait({job})
        self._results()

    def settled(self) -> None:
        """Nothing is under way any more."""
        self._results()
        self.watch.settled()

    def _results(self) -> None:
        for result in self.pair.worker.get_finished():
            self.open.discard(result.job_id)
            blocks, keys = self.loads.pop(result.job_id, ([], ()))
            for block, content in zip(blocks, self._contents(keys), strict=True):
                self.meant[block] = content
                same = bool((self.pair.memory[block] == content).all())
                text = "block {} doesn't have the bytes that were stored for it"
                self.report.check("worker-bytes", same, text, block, page=block)
        loading = [block for blocks, _ in self.loads.values() for block in blocks]
        differs = (self.pair.memory != self.meant).any(axis=1)
        differs[loading] = False
        strange = [int(block) for block in np.flatnonzero(differs)]
        self.report.check(
            "worker-neighbours", not strange, "blocks {} were written, but no load names them", strange
        )

    def _blocks(self, chunks: int) -> list[int]:
        count = chunks * self.pair.blocks_per_chunk
        # Never right after one another, so that an order that is lost shows.
        taken = [(self.next + 3 * i) % BLOCKS for i in range(count)]
        self.next = (self.next + 3 * count) % BLOCKS
        busy = {block for blocks, _ in self.loads.values() for block in blocks}
        return taken if not busy & set(taken) else [b for b in range(BLOCKS) if b not in busy][:count]

    def _contents(self, keys: Sequence[bytes]) -> list[Memory]:
        page = self.pair.memory.shape[1]
        found = []
        for key in keys:
            for i in range(self.pair.blocks_per_chunk):
                seed = hashlib.blake2b(key + bytes([i]), digest_size=64).digest()
                found.append(np.frombuffer(seed * (-(-page // 64)), dtype=np.int8)[:page])
        return found

    def _spec(self, blocks: list[int]) -> Any:
        return self.parts.blocks(blocks, [len(blocks)], [0])


def exercise_pair(
    factory: Callable[[int], WorkerSetup], seed: int, examples: int, *, parts: Parts = PLAIN
) -> Exercised:
    """Exercise managers together with their workers; ``factory(frames)`` makes both of one spec."""
    made: dict[int, WorkerSetup] = {}

    def manager(frames: int) -> Any:
        made.clear()
        pair = factory(frames)
        made[id(pair.manager)] = pair
        return pair.manager

    def mover(of: Any, report: Report) -> Mover:
        return DeviceMover(made[id(of)], parts, report)

    return exercise_manager(manager, seed, examples, parts=parts, mover=mover)
