"""SIEVE as a cache policy of vLLM's host tier: a hand sweeps from the oldest chunk to the newest and spares what was
used since it last came by (Zhang et al., NSDI 2024).
"""

from __future__ import annotations

from collections.abc import Iterable

from vllm.v1.kv_offload.base import OffloadKey, ReqContext
from vllm.v1.kv_offload.cpu.policies.base import CachePolicy, ChunkStatus


class Sieve(CachePolicy):
    """Chunks in the order in which they came, a mark for each that was used, and the key where the hand rests."""

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self.chunks: dict[OffloadKey, ChunkStatus] = {}
        self.used: set[OffloadKey] = set()
        self.hand: OffloadKey | None = None

    def get(self, key: OffloadKey) -> ChunkStatus | None:
        return self.chunks.get(key)

    def insert(self, key: OffloadKey, chunk: ChunkStatus) -> None:
        self.chunks[key] = chunk

    def remove(self, key: OffloadKey) -> None:
        if key == self.hand:
            self.hand = self._after(key)
        del self.chunks[key]
        self.used.discard(key)

    def touch(self, keys: Iterable[OffloadKey], req_context: ReqContext) -> None:
        self.used.update(key for key in keys if key in self.chunks)

    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, ChunkStatus]] | None:
        may_go = {key for key, chunk in self.chunks.items() if chunk.ref_cnt == 0 and key not in protected}
        if len(may_go) < n:
            return None
        gone = []
        for _ in range(n):
            key = self.hand if self.hand is not None else next(iter(self.chunks))
            while key not in may_go or key in self.used:
                if key in may_go:
                    self.used.discard(key)
                key = self._after(key) or next(iter(self.chunks))
            may_go.discard(key)
            gone.append((key, self.chunks[key]))
            self.hand = key
            self.remove(key)
        return gone

    def clear(self) -> None:
        self.chunks.clear()
        self.used.clear()
        self.hand = None

    def _after(self, key: OffloadKey) -> OffloadKey | None:
        """The next newer chunk; None after the newest, where the sweep begins anew."""
        keys = iter(self.chunks)
        for other in keys:
            if other == key:
                return next(keys, None)
        return None
