"""Taps on the engine's page bookkeeping: wrappers that write the page-event log and change nothing. Part of
:mod:`fuzzkv.targets.vllm.engine.internals`: it wraps vLLM's own objects, which it is handed, and imports
nothing of vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fuzzkv.targets.vllm.engine.page_log import Journal
from fuzzkv.targets.vllm.engine.transfer_channel import Link, Transfer

Numbers = Callable[[str], int]
"""The number of a request from the engine's id; -1 for one that isn't of this run."""


class Taps:
    """Wrappers as instance attributes of a block pool, a cache manager, a scheduler and (if there is a host tier) an offloading
    manager and a link. They can be taken off and put on again at any time between two steps."""

    def __init__(
        self,
        journal: Journal,
        numbers: Numbers,
        scheduler: Any,
        offload: Any | None = None,
        link: Link | None = None,
    ) -> None:
        self.journal, self._numbers, self._link = journal, numbers, link
        self._wrapped: list[tuple[Any, str, Any]] = []
        cache = scheduler.kv_cache_manager
        pool = cache.block_pool
        self._plan: list[tuple[Any, str, Callable[[Any], Any]]] = [
            (pool, "get_new_blocks", self._get_new_blocks),
            (pool, "touch", self._touch),
            (pool, "free_blocks", self._free_blocks),
            (pool, "_maybe_evict_cached_block", self._evict),
            (pool, "_insert_block_hash", self._publish),
            (cache, "allocate_slots", self._allocate_slots),
            (cache, "free", self._free),
            (scheduler, "schedule", self._schedule),
            (scheduler, "_preempt_request", self._preempt),
        ]
        if any(type(m).__name__ != "FullAttentionManager" for m in cache.coordinator.single_type_managers):
            self._plan.append((cache.coordinator, "remove_skipped_blocks", self._remove_skipped))
        if offload is not None:
            self._plan += [
                (offload, "prepare_store", self._prepare_store),
                (offload, "complete_store", self._complete_store),
                (offload, "prepare_load", self._prepare_load),
                (offload, "complete_load", self._complete_load),
            ]

    @property
    def on(self) -> bool:
        """Whether they are on."""
        return bool(self._wrapped)

    def put_on(self) -> None:
        """Begin to log."""
        if not self._wrapped:
            for owner, name, wrap in self._plan:
                self._wrapped.append((owner, name, owner.__dict__.get(name)))
                setattr(owner, name, wrap(getattr(owner, name)))
            if self._link is not None:
                self._link.tell = self._transfer

    def take_off(self) -> None:
        """Leave the engine as it was."""
        while self._wrapped:
            owner, name, before = self._wrapped.pop()
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        if self._link is not None:
            self._link.tell = lambda what, transfer: None

    # -- the block pool ----------------------------------------------------------------------------------

    def _get_new_blocks(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def get_new_blocks(*args: Any, **kwargs: Any) -> Any:
            blocks = inner(*args, **kwargs)
            if blocks:
                j = self.journal
                j.entries.append(("alloc", j.request, *[b.block_id for b in blocks]))
                j.counters["allocated"] += len(blocks)
            return blocks

        return get_new_blocks

    def _touch(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def touch(blocks: Any) -> Any:
            j = self.journal
            ids = [b.block_id for b in blocks if not b.is_null]
            if ids:
                j.entries.append(("hit", j.request, *ids))
                j.counters["hits"] += len(ids)
            return inner(blocks)

        return touch

    def _free_blocks(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def free_blocks(ordered_blocks: Iterable[Any]) -> Any:
            blocks = list(ordered_blocks)
            ids = [b.block_id for b in blocks if not b.is_null]
            if ids:
                j = self.journal
                j.entries.append(("free", j.request, *ids))
                j.counters["freed"] += len(ids)
            return inner(blocks)

        return free_blocks

    def _evict(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def evict(block: Any) -> Any:
            evicted = inner(block)
            if evicted:
                self.journal.entries.append(("evict", block.block_id))
                self.journal.counters["evictions"] += 1
            return evicted

        return evict

    def _publish(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def publish(key: bytes, block: Any, *args: Any, **kwargs: Any) -> Any:
            self.journal.entries.append(("publish", block.block_id, self.journal.key(key)))
            return inner(key, block, *args, **kwargs)

        return publish

    # -- the cache manager and the scheduler -------------------------------------------------------------

    def _allocate_slots(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def allocate_slots(request: Any, *args: Any, **kwargs: Any) -> Any:
            j = self.journal
            j.request = self._numbers(request.request_id)
            blocks = inner(request, *args, **kwargs)
            j.request = -1
            if blocks is None:
                j.counters["refused"] += 1
            return blocks

        return allocate_slots

    def _free(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def free(request: Any) -> Any:
            self.journal.request = self._numbers(request.request_id)
            try:
                return inner(request)
            finally:
                self.journal.request = -1

        return free

    def _remove_skipped(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def remove_skipped_blocks(*args: Any, **kwargs: Any) -> Any:
            counters = self.journal.counters
            before = counters["freed"]
            result = inner(*args, **kwargs)
            if freed := counters["freed"] - before:
                counters["window_frees"] += freed
            return result

        return remove_skipped_blocks

    def _schedule(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        scheduler = inner.__self__  # type: ignore[attr-defined]

        def schedule(*args: Any, **kwargs: Any) -> Any:
            out = inner(*args, **kwargs)
            counters = self.journal.counters
            requests = scheduler.requests
            for rid in out.num_scheduled_tokens:
                if requests[rid].is_prefill_chunk:
                    counters["partial_prefills"] += 1
            if out.scheduled_spec_decode_tokens:
                counters["drafted"] += sum(map(len, out.scheduled_spec_decode_tokens.values()))
            counters["scheduled_tokens"] += out.total_num_scheduled_tokens
            return out

        return schedule

    def _preempt(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def preempt(request: Any, *args: Any, **kwargs: Any) -> Any:
            self.journal.add("preempt", self._numbers(request.request_id))
            self.journal.counters["preemptions"] += 1
            return inner(request, *args, **kwargs)

        return preempt

    # -- the host tier -----------------------------------------------------------------------------------

    def _prepare_store(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def prepare_store(keys: Any, req_context: Any) -> Any:
            out = inner(keys, req_context)
            j = self.journal
            if out is None:
                j.counters["tier_full"] += 1
                return out
            if out.evicted_keys:
                j.add("drop", *[j.key(k) for k in out.evicted_keys])
                j.counters["tier_evictions"] += len(out.evicted_keys)
            if out.keys_to_store:
                j.add("offer", self._numbers(req_context.req_id), *[j.key(k) for k in out.keys_to_store])
                j.counters["stored_keys"] += len(out.keys_to_store)
            return out

        return prepare_store

    def _complete_store(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def complete_store(keys: Any, req_context: Any, success: bool = True) -> Any:
            j = self.journal
            j.add("ready" if success else "lost", *sorted(j.key(k) for k in keys))
            return inner(keys, req_context, success)

        return complete_store

    def _prepare_load(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def prepare_load(keys: Any, req_context: Any) -> Any:
            j = self.journal
            j.add("claim", self._numbers(req_context.req_id), *[j.key(k) for k in keys])
            j.counters["loaded_keys"] += len(keys)
            return inner(keys, req_context)

        return prepare_load

    def _complete_load(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def complete_load(keys: Any, req_context: Any) -> Any:
            self.journal.add("release", *sorted(self.journal.key(k) for k in keys))
            return inner(keys, req_context)

        return complete_load

    _SIGNS = {"begin": "+", "end": "-", "fail": "!", "short": "~", "told": "="}  # noqa: RUF012

    def _transfer(self, what: str, transfer: Transfer) -> None:
        name = "store" if transfer.store else "load"
        j = self.journal
        if what == "begin":
            j.add(f"{name}+", transfer.job, *[n for pair in transfer.pages for n in pair])
            j.counters[f"{name}s"] += 1
        else:
            j.add(name + self._SIGNS[what], transfer.job)
            if what == "end":
                j.counters[f"{name}d_pages" if name == "store" else "loaded_pages"] += len(transfer.pages)
            elif what in ("fail", "short"):
                j.counters[f"{name}_{what}s"] += 1
