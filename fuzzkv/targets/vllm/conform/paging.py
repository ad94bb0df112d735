"""Translates the log's rows of device blocks: who gets, shares and loses them, and what the prefix index says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fuzzkv.semantics.layout import ENTRY, PAGES, PAYLOAD, SCALES, TOKENS
from fuzzkv.targets.vllm.conform.bookkeeping import DEVICE_KEYS, STORE_KEYS, Cut
from fuzzkv.targets.vllm.conform.differences import REFUSED, STATE
from fuzzkv.targets.vllm.conform.host_tier_events import Hosting
from fuzzkv.targets.vllm.history import LiveHistory

CLEAN: Final = PAYLOAD + SCALES + ENTRY


class Paging(Hosting):
    """Hits, allocations, frees, publications and evictions."""

    def __init__(self, history: LiveHistory, frames: int) -> None:
        super().__init__(history, frames)
        self._preempting = -1
        self._early: set[tuple[int, int]] = set()
        """(block, key) of pages that were published while their request waited."""

    def read_pages(self) -> None:
        """The step's forward pass, if it has not been."""
        raise NotImplementedError

    def _hit(self, numbers: Sequence[int]) -> None:
        request, *found = numbers
        self.open(request)
        for block in found:
            if any(b == block for b, _ in self.twins):
                raise Cut("a hit on a second block of a key")
            page = self.place(request, block)
            if not self.mirror.do("hit", page, DEVICE_KEYS):
                self.differ(REFUSED, "hit", f"request {request}: the model's index has no block {block}")
            if self.mirror.at("DEV", page) != self.frame.get(block):
                self.differ(
                    STATE, "hit", f"request {request} shares block {block}, another frame in the model"
                )

    def _alloc(self, numbers: Sequence[int]) -> None:
        request, *taken = numbers
        slot = self.open(request)
        coming = self._loading()
        fetched = [b for b in taken if b in coming]
        for block in taken:
            self._take_over(block)
        first = len(self.held[request])
        pages = [self.place(request, block) for block in taken]
        for block, page in zip(taken, pages, strict=True):
            if block in fetched:
                if not self.mirror.room_in_flight():
                    raise Cut("more copies in flight than the model has")
                if not self.mirror.do("hit", page, STORE_KEYS):
                    self.differ(
                        REFUSED, "fetch", f"request {request} loads a page that the model's store has not"
                    )
        if len(fetched) < len(taken):
            if not self.mirror.running(slot):
                self.admit(request)
            while self.mirror.at("R_N", slot) < first + len(taken):
                self.grow(request, 1)
        for block, page in zip(taken, pages, strict=True):
            if self.mirror.at("DEV", page) < 0:
                self.differ(
                    STATE, "alloc", f"request {request} gets block {block}, the model's page gets no frame"
                )
            self.bind(block, page)
        self._publish_early(request)

    def _take_over(self, block: int) -> None:
        """A block is about to be somebody else's: nobody may have it, and stores from it have to end before."""
        if self.holder(block) is not None:
            self.differ(REFUSED, "alloc", f"block {block} is given to a second owner")
        if any(b == block for b, _ in self.index):
            self.differ(REFUSED, "alloc", f"block {block} is given away while it can still be found")
        for slot, one in list(self.lingering.items()):
            if block not in one.blocks:
                continue
            page = slot * PAGES + one.blocks.index(block)
            self._bring_forward(block, one.request)
            if slot in self.lingering:
                self.mirror.do("drop_device", page)
                self.forget_free()
        self.check_invariants()
        if block in self.frame:
            self.differ(REFUSED, "alloc", f"block {block} is given away, the model's frame is in use")

    def _free(self, numbers: Sequence[int]) -> None:
        request, *freed = numbers
        if sorted(freed) != sorted(self.held.get(request, ())):
            self.differ(REFUSED, "free", f"request {request} frees {freed}, and has {self.held.get(request)}")
        if self._preempting == request:
            self._preempting = -1
            self.leave(request, "preempt")
        else:
            if not self._ends(request):
                self.differ(
                    REFUSED, "free", f"request {request} loses its blocks, and neither ends nor is preempted"
                )
            self.read_pages()
            self.leave(request, "finish", self._offers_next(request))

    def _publish(self, numbers: Sequence[int]) -> None:
        block, key = numbers
        holder = self.holder(block)
        if holder is None:
            self.differ(REFUSED, "publish-free", f"block {block} is published, and nobody has it")
            return
        request, place = holder
        slot, mirror = self.slots[request], self.mirror
        page = slot * PAGES + place
        self.name(key, self.chains.chain(request, place))
        if mirror.at("TODO", page) == 1:
            if not self.ready(request):
                filled = int(mirror.present(page))
                text = f"block {block} is published while request {request} waits"
                self.differ(REFUSED, "publish-waiting", text, todo=1, filled=filled)
                self.index.add((block, key))
                self.twins.add((block, key))
                self._early.add((block, key))
                return
            self.admit(request)
        if place == mirror.at("R_N", slot) - 1 and mirror.at("R_RES", slot) > 0:
            self.grow(request, TOKENS - mirror.at("R_RES", slot))
        self.index.add((block, key))
        if (x := mirror.entry(page, DEVICE_KEYS)) >= 0:
            same = mirror.at("X_FRAME", x) == mirror.at("DEV", page)
            listed = (self.entries.get(x, (-1, -1))[0], key) in self.index
            self.differ(
                REFUSED, "publish", f"key {key} has another block already", entry=1, same_frame=int(same),
                same_tag=int(mirror.at("X_TAG", x) == mirror.at("WANT", page)), listed=int(listed),
            )  # fmt: skip
            self.twins.add((block, key))
            return
        if not mirror.room_in_index():
            raise Cut("more keys than the model's index has")
        if not mirror.do("publish", page, DEVICE_KEYS):
            self.differ(REFUSED, "publish-refused", f"the model doesn't publish block {block}")
        self.entries[mirror.entry(page, DEVICE_KEYS)] = (block, key)

    def _publish_early(self, request: int) -> None:
        """A request that waited is computed: what was published before is published in the model too."""
        if not self.mirror.running(self.slots[request]):
            return
        mine = sorted(pair for pair in self._early & self.twins if pair[0] in self.held[request])
        for block, key in mine:
            self._early.discard((block, key))
            self.twins.discard((block, key))
            self.index.discard((block, key))
            self._publish((block, key))

    def _evict(self, numbers: Sequence[int]) -> None:
        block = numbers[0]
        keys = [k for b, k in self.index if b == block]
        if not keys:
            self.differ(REFUSED, "evict", f"block {block} leaves the index, and isn't in it")
        self.index -= {(block, key) for key in keys}
        for key in keys:
            if (block, key) in self.twins:
                self.twins.discard((block, key))
                continue
            entry = next((x for x, pair in self.entries.items() if pair == (block, key)), -1)
            self._bring_forward(block, self._lingering_with(block))
            act = ("expire", entry, CLEAN) if self.mirror.cached_only(max(entry, 0)) else ("unpublish", entry)
            if entry < 0 or not self.mirror.do(*act):
                self.differ(REFUSED, "evict", f"the model can't take block {block} out of its index")
            self.forget_free()
            self._promote(key)

    def _lingering_with(self, block: int) -> int:
        """The request that has left and whose block it was, or -1."""
        return next((one.request for one in self.lingering.values() if block in one.blocks), -1)

    def _promote(self, key: int) -> None:
        """Another block is now the only one of its key."""
        for block, other in sorted(self.twins):
            if other == key and self.holder(block) is not None:
                self.twins.discard((block, key))
                self.index.discard((block, key))
                self._publish((block, key))
                return
