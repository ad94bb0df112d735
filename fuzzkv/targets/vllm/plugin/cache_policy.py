"""A watch on a vLLM ``CachePolicy``: what is in it, what it evicts, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fuzzkv.targets.vllm.plugin.record import Report
from fuzzkv.targets.vllm.plugin.watching import Watch

Key = Any
"""An ``OffloadKey``: bytes."""


class PolicyWatch(Watch):
    """The ledger: each key that was put in and not taken out since, with its chunk and that chunk's place."""

    returns = "policy-returns"

    def __init__(self, policy: Any, report: Report) -> None:
        super().__init__(policy, report)
        self.inside: dict[Key, tuple[Any, int]] = {}
        self.left: set[Key] = set()
        for name in ("touch", "on_store_miss", "on_request_finished", "mark_evictable", "mark_non_evictable"):
            self.around(name, self._unmoved(name))
        self.around("get", self._get)
        self.around("insert", self._insert)
        self.around("remove", self._remove)
        self.around("evict", self._evict)
        self.around("clear", self._clear)

    def forget(self) -> None:
        """The policy is empty."""
        self.inside.clear()
        self.left.clear()

    def _get(self, call: Callable[..., Any], key: Key) -> Any:
        found = call(key)
        self._found("policy-get", key, found)
        return found

    def _insert(self, call: Callable[..., Any], key: Key, chunk: Any) -> None:
        counts = self._counts()
        call(key, chunk)
        self.inside[key] = (chunk, int(chunk.chunk_id))
        self.left.discard(key)
        self._whole("policy-get", counts)

    def _remove(self, call: Callable[..., Any], key: Key) -> None:
        counts = self._counts()
        call(key)
        self.inside.pop(key, None)
        self.left.add(key)
        self._whole("policy-remove", counts)

    def _unmoved(self, name: str) -> Callable[..., Any]:
        def checked(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            counts = self._counts()
            given = [
                list(a) if name in ("touch", "on_store_miss") and i == 0 else a for i, a in enumerate(args)
            ]
            result = call(*given, **kwargs)
            self._whole("policy-keep", counts)
            return result

        return checked

    def _evict(self, call: Callable[..., Any], n: int, protected: set[Key]) -> Any:
        check, counts, spared = self.report.check, self._counts(), set(protected)
        free = [key for key, (chunk, _) in self.inside.items() if chunk.ref_cnt == 0 and key not in spared]
        gone = call(n, protected)
        if gone is None:
            check(
                "policy-evict-able", len(free) < n, "evict({}) gave None, {} may go: {}", n, len(free), free
            )
            self._whole("policy-evict-none", counts)
            return gone
        gone = list(gone)
        check("policy-evict-exact", len(gone) == n, "evict({}) gave {} chunks", n, len(gone))
        seen: set[Key] = set()
        for key, chunk in gone:
            kept, place = self.inside.get(key, (None, -1))
            true = kept is not None and chunk is kept and key not in seen
            check("policy-evict-truth", true, "evict({}) gave {}, which wasn't there so", n, key)
            check("policy-evict-protected", key not in spared, "evict({}) took {}, protected", n, key)
            readers = counts.get(key, 0)
            check(
                "policy-evict-idle",
                readers == 0,
                "evict({}) took {}, whose ref_cnt is {}",
                n,
                key,
                readers,
                page=place,
            )
            seen.add(key)
        for key in seen:
            self.inside.pop(key, None)
            counts.pop(key, None)
        self._absent("policy-evict-truth", seen)
        self._whole("policy-evict-exact", counts)
        self.left |= seen
        return gone

    def _clear(self, call: Callable[..., Any]) -> None:
        call()
        before = set(self.inside)
        self.inside.clear()
        self.left |= before
        self._absent("policy-clear", before)

    def _counts(self) -> dict[Key, int]:
        return {key: int(chunk.ref_cnt) for key, (chunk, _) in self.inside.items()}

    def _found(self, rule: str, key: Key, found: Any) -> None:
        chunk = self.inside.get(key, (None, -1))[0]
        what = "nothing" if found is None else "a chunk" if chunk is None else "another chunk"
        self.report.check(rule, found is chunk, "get({}) gave {}", key, what)

    def _absent(self, rule: str, keys: Iterable[Key]) -> None:
        get = self.own("get")
        for key in keys:
            self.report.check(rule, get(key) is None, "{} is still there", key)

    def _whole(self, rule: str, counts: dict[Key, int]) -> None:
        """All that was there is there, nothing that left came back, and no chunk was written to."""
        get = self.own("get")
        for key, (chunk, place) in self.inside.items():
            self.report.check(rule, get(key) is chunk, "{} is lost or another", key)
            same = int(chunk.chunk_id) == place and int(chunk.ref_cnt) == counts.get(key, int(chunk.ref_cnt))
            self.report.check("policy-owner", same, "the chunk of {} was written to", key, page=place)
        if len(self.left) > 4 * len(self.inside) + 64:
            self.left.clear()  # what left long ago isn't asked for again
        for key in self.left:
            self.report.check(rule, get(key) is None, "{} came back", key)


def watch_policy(policy: Any, report: Report) -> PolicyWatch:
    """Check every call of ``policy``, which has to be empty now.  ``CPUOffloadingManager`` has it as ``_policy``."""
    return PolicyWatch(policy, report)
