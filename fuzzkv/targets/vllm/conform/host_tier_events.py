"""Translates the log's rows of the host tier: which page a transfer moves, and which operation that is."""

from __future__ import annotations

from collections.abc import Sequence

from fuzzkv.semantics.layout import PAGES
from fuzzkv.targets.vllm.conform.bookkeeping import DEVICE_KEYS, STORE_KEYS, Cut, ModelTransfer, Offer
from fuzzkv.targets.vllm.conform.differences import NO_WORD, REFUSED, STATE
from fuzzkv.targets.vllm.conform.model_mirror import FETCH, SPILL
from fuzzkv.targets.vllm.conform.read_ahead import Ahead
from fuzzkv.targets.vllm.history import LiveHistory


class Hosting(Ahead):
    """Offers, stores, loads and evictions of the host."""

    def __init__(self, history: LiveHistory, frames: int) -> None:
        super().__init__(history, frames)
        self._claimed: dict[int, list[int]] = {}

    def _offer(self, numbers: Sequence[int]) -> None:
        request, *keys = numbers
        held = list(self.held.get(request, ()))
        for one in self.lingering.values():
            if one.request == request:
                held, one.late_offer = one.blocks, False
        self.offers.append(Offer(request, keys, held))

    def _store(self, numbers: Sequence[int]) -> None:
        job, pairs = numbers[0], list(zip(numbers[1::2], numbers[2::2], strict=True))
        moved = [b for b, _ in pairs]
        fits = (
            o
            for o in self.offers
            if not o.begun and len(o.keys) == len(moved) and set(moved) <= set(o.blocks)
        )
        offer = next(fits, None)
        if offer is None or offer.request not in self.slots:
            self.differ(REFUSED, "store", f"transfer {job} stores blocks {moved} that nobody offered")
            return
        offer.begun = True
        slot = self.slots[offer.request]
        places = [offer.blocks.index(b) for b in moved]
        pages = [slot * PAGES + place for place in places]
        self.jobs[job] = ModelTransfer(True, pages, moved, list(offer.keys))
        self._several(job, len(pages))
        for key, (block, host), place, page in zip(offer.keys, pairs, places, pages, strict=True):
            self.name(key, self.chains.chain(offer.request, place))
            if self.mirror.at("DEV", page) != self.frame.get(block):
                self.differ(
                    STATE, "store-source", f"transfer {job} reads block {block}, another frame in the model"
                )
            if self.mirror.entry(page, DEVICE_KEYS) >= 0:
                there = int(self.mirror.entry(page, STORE_KEYS) >= 0)
                self.differ(REFUSED, "spill", f"key {key} is on both tiers", on_device=1, on_store=there)
            if not self.mirror.room_in_index():
                raise Cut("more keys than the model's index has")
            if not self.mirror.room_in_flight():
                raise Cut("more copies in flight than the model has")
            if not self.mirror.do("spill", page, STORE_KEYS, 0):
                self.differ(REFUSED, "spill-refused", f"the model doesn't store block {block}")
            others = [k for k in self.stored if k != key and self.host_page.get(k) == host]
            if others:
                self.differ(REFUSED, "host-page", f"host page {host} gets key {key} and has key {others[0]}")
            self.stored[key], self.host_page[key] = self.mirror.entry(page, STORE_KEYS), host

    def _load(self, numbers: Sequence[int]) -> None:
        job, pairs = numbers[0], list(zip(numbers[1::2], numbers[2::2], strict=True))
        into = [b for b, _ in pairs]
        holder = self.holder(into[0]) if into else None
        if holder is None:
            self.differ(REFUSED, "load", f"transfer {job} loads into blocks {into} that nobody has")
            return
        request = holder[0]
        keys, held = self._claimed.pop(request, []), self.held[request]
        pages = [self.slots[request] * PAGES + held.index(b) for b in into if b in held]
        self.jobs[job] = ModelTransfer(False, pages, into, keys)
        self._several(job, len(pages))
        if len(pages) != len(into) or len(keys) != len(into):
            self.differ(STATE, "load", f"transfer {job} loads {len(into)} pages, {len(keys)} were claimed")
        for key, (block, host) in zip(keys, pairs, strict=True):
            if self.keys.get(key) != self.chains.chain(request, held.index(block)):
                self.differ(
                    STATE, "load-key", f"transfer {job} loads key {key}, another page, into block {block}"
                )
            if self.host_page.get(key) != host:
                self.differ(STATE, "load-source", f"key {key} was not stored on host page {host}")
        if self.mirror.copies_of(self.slots[request], FETCH) < len(pages):
            self.differ(STATE, "load", f"transfer {job}: the model loads fewer pages of request {request}")

    def _several(self, job: int, pages: int) -> None:
        if pages > 1:
            self.differ(NO_WORD, "copy", f"transfer {job} moves {pages} pages as one", pages=pages)

    def _moved(self, numbers: Sequence[int]) -> None:
        job = self.jobs.get(numbers[0])
        if job is None or job.moved:
            self.differ(REFUSED, "end", f"transfer {numbers[0]} ends, and none is under way")
            return
        job.moved = True
        ended = self.mirror.end_copies(job.pages, SPILL if job.store else FETCH)
        self.check_invariants()
        if ended != len(job.pages):
            self.differ(
                STATE, "end", f"transfer {numbers[0]} moved {len(job.pages)} pages, {ended} in the model"
            )
        self.settle()

    def _told(self, numbers: Sequence[int]) -> None:
        job = self.jobs.get(numbers[0])
        if job is not None and job.moved:
            job.told = True
            return
        self.differ(
            STATE, "told", f"transfer {numbers[0]} is said to have ended, and its bytes have not moved"
        )

    def _retry(self, numbers: Sequence[int]) -> None:
        job = self.jobs.get(numbers[0])
        self.differ(
            NO_WORD, "retry", f"an attempt of transfer {numbers[0]} failed, and it goes on",
            begun=int(job is not None), ended=int(job is not None and job.moved),
        )  # fmt: skip

    def _ready(self, numbers: Sequence[int]) -> None:
        for key in numbers:
            if not self.mirror.store_entries().get(self.stored.get(key, -1), False):
                self.differ(STATE, "ready", f"key {key} can be loaded, and the model has not stored it")
            self.heard.add(key)

    def _drop(self, numbers: Sequence[int]) -> None:
        for key in numbers:
            if any(key in job.keys and not job.store and not job.moved for job in self.jobs.values()):
                self.differ(REFUSED, "drop-in-use", f"key {key} leaves the host while a load reads it")
            entry = self.stored.pop(key, -1)
            if entry < 0 or not self.mirror.do("unpublish", entry):
                self.differ(REFUSED, "drop", f"key {key} leaves the host, and the model's store hasn't it")
            self.heard.discard(key)
            for job in self.jobs.values():
                # What a later transfer does with this key is another matter.
                job.keys = [-1 if k == key else k for k in job.keys]

    def _lost(self, numbers: Sequence[int]) -> None:
        self.differ(NO_WORD, "lost", f"the stores of keys {list(numbers)} failed for good")

    def _claim(self, numbers: Sequence[int]) -> None:
        self._claimed[numbers[0]] = list(numbers[1:])

    def _release(self, numbers: Sequence[int]) -> None:
        """The host page may be evicted again: the model's store has no pin to take back."""
