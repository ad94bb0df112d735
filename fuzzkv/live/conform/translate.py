"""From the page-event log of an engine to a run of the model, row by row. What a row means for pages is the contract's to say; here is
only which act of the contract it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fuzzkv.contract.layout import ENTRY, NR, PAGES, PAYLOAD, SCALES, TOKENS
from fuzzkv.live.conform.books import DEVICE_KEYS, STORE_KEYS, Books, Cut, Job, Offer, Stop
from fuzzkv.live.conform.compare import Look, compare
from fuzzkv.live.conform.differences import NO_WORD, REFUSED, STATE, Difference
from fuzzkv.live.conform.looking import LOOK
from fuzzkv.live.conform.mirror import FETCH, SPILL, tokens_of_page
from fuzzkv.live.history import LiveHistory, Row
from fuzzkv.live.schedule import BLOCK, blocks

CLEAN: Final = PAYLOAD + SCALES + ENTRY
POLL: Final = LOOK + "poll"


@dataclass(frozen=True)
class Translated:
    """What came of a log: differences in their order, page events that were translated, looks that were compared, and why it was cut
    short (empty: it wasn't)."""

    differences: tuple[Difference, ...]
    events: int
    looks: int
    cut: str = ""

    @property
    def unexplained(self) -> tuple[Difference, ...]:
        """Those that no known gap explains."""
        return tuple(d for d in self.differences if not d.gap)


def translate(history: LiveHistory, frames: int) -> Translated:
    """Hold a run of an engine with ``frames`` device blocks, watched by ``looking``, against the model."""
    return Translation(history, frames).run()


class Translation(Books):
    """One log on its way through the model."""

    def __init__(self, history: LiveHistory, frames: int) -> None:
        tokens = [
            (*prompt, *(t for t in made if t >= 0))
            for prompt, made in zip(history.prompts, history.tokens, strict=True)
        ]
        super().__init__(history.prompts, tokens, frames)
        self.history, self.rows = history, history.log
        self.look = Look()
        self.events = self.looks = 0
        self._preempting = -1
        self._done_early: set[int] = set()
        self._to_read: set[int] = set()
        self._after: dict[int, int] = {}
        self._publishing: list[tuple[int, int]] = []
        self._claimed: dict[int, list[int]] = {}
        self._do: dict[str, Callable[[Sequence[int]], None]] = {
            "step": self._step, "arrive": self._arrive, "alloc": self._alloc, "hit": self._hit, "free": self._free,
            "publish": self._publish, "evict": self._evict, "preempt": self._preempt, "offer": self._offer,
            "drop": self._drop, "ready": self._ready, "lost": self._lost, "claim": self._claim, "release": self._release,
            "store+": self._store, "load+": self._load, "store-": self._moved, "load-": self._moved,
            "store=": self._told, "load=": self._told, "store!": self._retry, "load!": self._retry,
            "store~": self._retry, "load~": self._retry, "finish": self._ended, "abort": self._ended, "reset": self._reset,
        }  # fmt: skip

    def run(self) -> Translated:
        """Go through the log."""
        cut = ""
        try:
            for row, (what, *numbers) in enumerate(self.rows):
                self.row = row
                if row in self._done_early:
                    continue
                self._one(str(what), [int(n) for n in numbers])
                self.check_invariants()
            self._end_of_run()
        except Stop:
            pass
        except Cut as reason:
            cut = str(reason)
        return Translated(tuple(self.differences), self.events, self.looks, cut)

    def _one(self, what: str, numbers: Sequence[int]) -> None:
        if what == LOOK + "end":
            self._read()
            compare(self, self.look)
            self.looks += 1
            self.look = Look()
        elif what == POLL:
            self._read()
        elif what.startswith(LOOK):
            self.look.take(what.removeprefix(LOOK), numbers)
        elif what in self._do:
            self.events += what != "step"
            self._do[what](numbers)
        else:
            self.differ(NO_WORD, what, f"the log's {what!r} has no translation")

    def _end_of_run(self) -> None:
        for violation in self.history.violations:
            self.differ(STATE, "violation", f"{violation.invariant} {violation.what}: {violation.text}")
        if self.slots:
            self.differ(
                STATE,
                "left-open",
                f"requests {sorted(self.slots)} have ended in the engine, not in the model",
            )

    # -- requests and steps ------------------------------------------------------------------------------

    def _arrive(self, numbers: Sequence[int]) -> None:
        request = numbers[0]
        if all(self.mirror.active(r) for r in range(NR)):
            self.differ(
                REFUSED, "queue", f"no free session for request {request}", sessions=NR,
                blocks=len(self.held.get(request, ())),
            )  # fmt: skip
        else:
            self.open(request)

    def _step(self, numbers: Sequence[int]) -> None:
        self.step = numbers[0]
        before = _pairs(self._row_before("at:tokens"))
        self._after = _pairs(self._row_after("at:tokens"))
        ended = {int(r[1]) for r in self._segment() if r[0] == "finish"}
        grown = {r for r, n in self._after.items() if n > before.get(r, 0)}
        # A load counts as computed too: who runs has nothing on its way.
        self._to_read = {r for r in grown | ended if not self._loads(r)}

    def _read(self) -> None:
        """The step's forward pass, once everything that was scheduled before it is done: those that ran read their pages."""
        running, self._to_read = sorted(self._to_read), set()
        for request in running:
            if request not in self.slots:
                self.differ(STATE, "ran", f"request {request} ran, and the model has no session for it")
            slot = self.slots[request]
            if not self.mirror.running(slot) and self.ready(request):
                self.admit(request)
            if not self.mirror.running(slot):
                self.differ(REFUSED, "step", f"request {request} ran; the model still waits for pages of it")
            if request in self._after:
                self._grow_to(request, self._after[request])
            if not self.mirror.step(slot):
                self.differ(REFUSED, "step", f"the model makes no step of request {request}")
            self.check_invariants()

    def _grow_to(self, request: int, tokens: int) -> None:
        slot = self.slots[request]
        pages, rest = self.mirror.at("R_N", slot), self.mirror.at("R_RES", slot)
        goal = tokens_of_page(tokens, BLOCK) or TOKENS
        have = rest or TOKENS
        if pages != blocks(tokens) or have > goal:
            text = f"request {request}: {tokens} tokens computed, {pages} pages with {have} of {TOKENS} in the last"
            self.differ(STATE, "tokens", text)
        if have < goal:
            self.grow(request, goal - have)

    def _ended(self, numbers: Sequence[int]) -> None:
        request = numbers[0]
        if request not in self.slots:
            return
        slot = self.slots[request]
        if slot in self.lingering:
            self.lingering[slot].end = "finish"
        elif not self.held[request]:
            self.leave(request, "finish", self._offers_next(request))
        elif not self.mirror.copies_of(slot, FETCH):
            self.differ(STATE, "not-freed", f"request {request} has ended, and its blocks were not freed")

    def _preempt(self, numbers: Sequence[int]) -> None:
        self._preempting = numbers[0]

    def _reset(self, numbers: Sequence[int]) -> None:
        connector, worked = numbers
        if connector and (self.stored or self.offers):
            raise Cut("the host tier was reset")
        if worked:
            for x in self.mirror.device_entries():
                self.mirror.do("unpublish", x)
            self.index.clear()
            self.twins.clear()
            self.forget_free()

    # -- blocks ------------------------------------------------------------------------------------------

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
        waiting, self._publishing = self._publishing, []
        for block, key in waiting:
            self._publish((block, key))

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

    def _bring_forward(self, block: int, request: int = -1) -> None:
        """What the engine still does with a block in this step before its forward pass comes before the block is reused: stores of a
        request that has left are decided (where this drops pages of the host), begin and end."""
        for row in range(self.row + 1, len(self.rows)):
            what, *rest = self.rows[row]
            numbers = [int(n) for n in rest]
            if what in (POLL, LOOK + "end"):
                return
            if row in self._done_early:
                continue
            if what == "drop":
                mine = self.rows[row + 1][:2] == ("offer", request)
            elif what == "offer":
                mine = numbers[0] == request
            elif what == "store+":
                mine = block in numbers[1::2] and any(
                    o.request == request and not o.begun and block in o.blocks for o in self.offers
                )
            else:
                job = self.jobs.get(numbers[0]) if what == "store-" else None
                mine = job is not None and not job.moved and block in job.blocks
            if mine:
                self._done_early.add(row)
                self._do[str(what)](numbers)

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
            self._read()
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
                self._publishing.append((block, key))
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

    # -- the host tier -----------------------------------------------------------------------------------

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
        self.jobs[job] = Job(True, pages, moved, list(offer.keys))
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
        self.jobs[job] = Job(False, pages, into, keys)
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
        if job is None or not job.moved:
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
            if not self.mirror.do("unpublish", self.stored.pop(key, 0)):
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

    # -- looking ahead -----------------------------------------------------------------------------------

    def _segment(self) -> list[Row]:
        """The rest of this step: what lies before it is looked at again."""
        found: list[Row] = []
        for row in self.rows[self.row + 1 :]:
            if row[0] == LOOK + "end":
                break
            found.append(row)
        return found

    def _loading(self) -> set[int]:
        """Blocks into which a load begins in this step."""
        return {int(b) for row in self._segment() if row[0] == "load+" for b in row[2::2]}

    def _offers_next(self, request: int) -> bool:
        """Whether the next step that the engine makes offers pages of the request."""
        steps = 0
        for what, *numbers in self.rows[self.row + 1 :]:
            steps += what == "step"
            if steps == 1 and what == "offer" and numbers[0] == request:
                return True
            if steps > 1:
                return False
        return False

    def _ends(self, request: int) -> bool:
        """Whether the request was aborted before, or ends before the next step."""
        if ("abort", request) in self.rows[: self.row]:
            return True
        for what, *numbers in self.rows[self.row :]:
            if what == "step":
                return False
            if what in ("finish", "abort") and numbers == [request]:
                return True
        return False

    def _loads(self, request: int) -> bool:
        """Whether the request claims pages of the host in this step."""
        return any(row[0] == "claim" and row[1] == request for row in self._segment())

    def _row_before(self, what: str) -> Sequence[int | str]:
        return next((r[1:] for r in reversed(self.rows[: self.row]) if r[0] == what), ())

    def _row_after(self, what: str) -> Sequence[int | str]:
        return next((r[1:] for r in self._segment() if r[0] == what), ())


def _pairs(numbers: Sequence[int | str]) -> dict[int, int]:
    return {int(a): int(b) for a, b in zip(numbers[::2], numbers[1::2], strict=True)}
