"""The state of a translation from log to model: which session, page and frame stands for which request and block, and
the transfers under way.

A block of the engine and a frame of the model are the same while a page of a session, or the index, has them; a request is a session
from the time that the model has a free one. A session *lingers* when the engine has freed its blocks while stores from them go on: the
model's session ends, or is preempted, when these have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from fuzzkv.semantics.layout import CACHED, NR, PAGES
from fuzzkv.targets.vllm.conform.chains import Chains, TooManyTexts
from fuzzkv.targets.vllm.conform.differences import INVARIANT, NO_WORD, REFUSED, STATE, Difference
from fuzzkv.targets.vllm.conform.known import explained
from fuzzkv.targets.vllm.conform.model_mirror import (
    DEVICE_KEYS,
    FETCH,
    SPILL,
    STORE_KEYS,
    Mirror,
    tokens_of_page,
)
from fuzzkv.targets.vllm.schedule import BLOCK, blocks


class Stop(Exception):
    """A difference that nothing explains: what follows it means nothing."""


class Cut(Exception):
    """The run has left the model's size; the reason is its text."""


@dataclass
class ModelTransfer:
    """A transfer: the pages of the model that it moves, and the engine's blocks and keys."""

    store: bool
    pages: list[int]
    blocks: list[int]
    keys: list[int] = field(default_factory=list)
    moved: bool = False
    told: bool = False


@dataclass
class Offer:
    """Keys that the host tier accepted, with the blocks that their request had then; its transfer may not have begun."""

    request: int
    keys: list[int]
    blocks: list[int]
    begun: bool = False


@dataclass
class Lingering:
    """A session whose blocks the engine has freed."""

    request: int
    blocks: list[int]
    end: Literal["finish", "preempt"]
    late_offer: bool = False


class Books:
    """The model's run and the names of everything in it; ``prompts`` and ``tokens`` are what each request was given and ever held."""

    def __init__(
        self, prompts: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]], frames: int
    ) -> None:
        self.mirror = Mirror(frames)
        self.prompts, self.chains = prompts, Chains(tokens, BLOCK)
        self.row = self.step = -1
        self.differences: list[Difference] = []
        self.slots: dict[int, int] = {}
        """Request to session."""
        self.held: dict[int, list[int]] = {}
        """Request to its blocks, by the log."""
        self.frame: dict[int, int] = {}
        """Block to frame."""
        self.lingering: dict[int, Lingering] = {}
        """By session."""
        self.jobs: dict[int, ModelTransfer] = {}
        self.offers: list[Offer] = []
        self.keys: dict[int, tuple[int, ...]] = {}
        """Key to the tokens that it stands for."""
        self.index: set[tuple[int, int]] = set()
        """(block, key) that can be found, by the log."""
        self.twins: set[tuple[int, int]] = set()
        """Those of them that the model has no entry for, because it has one for another block."""
        self.entries: dict[int, tuple[int, int]] = {}
        """Device entry of the model to (block, key)."""
        self.stored: dict[int, int] = {}
        """Key to the model's store entry."""
        self.host_page: dict[int, int] = {}
        self.heard: set[int] = set()
        self.standing: set[tuple[str, str]] = set()
        """(what, text) of the differences of this look."""
        self.lasting: set[tuple[str, str]] = set()
        """The same of the look before: each is looked at again, and counted once."""
        self._broken: dict[str, int] = {}

    # -- differences -------------------------------------------------------------------------------------

    def differ(self, kind: str, what: str, text: str, **facts: int) -> None:
        """Note a difference. Raises :class:`Stop` if no known gap explains it."""
        difference = explained(Difference(kind, what, text, self.row, self.step, facts))
        if (what, text) not in self.lasting or not difference.gap:
            self.differences.append(difference)
        if not difference.gap:
            raise Stop
        self.standing.add((what, text))

    def check_invariants(self, **facts: int) -> None:
        """Note invariants of the model that have been broken since the last call; ``facts`` are about the act in between."""
        broken, before = self.mirror.broken(), self._broken
        self._broken = broken
        for name, count in broken.items():
            if count > before.get(name, 0):
                told = {"preempted": 0, "alone": 0, "shared": 0, **facts}
                self.differ(INVARIANT, name, f"the model says that {name} is broken", **told)

    # -- sessions ----------------------------------------------------------------------------------------

    def open(self, request: int) -> int:
        """The session of a request, opened if it isn't. Raises :class:`Cut` where there is no room for it."""
        if request in self.slots:
            slot = self.slots[request]
            if slot in self.lingering:
                # The engine ends a preempted request's stores before it is back; else the model's fence is broken.
                self._end(request, self.lingering.pop(slot).end)
            return slot
        free = [r for r in range(NR) if not self.mirror.active(r)]
        prompt = self.prompts[request]
        pages = blocks(len(prompt))
        if not free:
            raise Cut("more than two sessions")
        if pages > PAGES:
            raise Cut("more pages than a session has")
        try:
            text = self.chains.text(request)
            branches = [self.chains.branch(request, i) for i in range(pages)]
        except TooManyTexts:
            raise Cut("more texts than the model tells apart") from None
        if (residue := len(prompt) % BLOCK) != 0:
            self.differ(
                NO_WORD, "queue", f"request {request} ends inside a block", residue=residue, request=request
            )
        if branch := max(branches):
            parts = f"request {request} shares only the beginning of its text"
            first = next(i for i, b in enumerate(branches) if b)
            self.differ(NO_WORD, "text", parts, branch=branch, behind=first)
        slot = free[0]
        if not self.mirror.open(slot, text, branches, tokens_of_page(len(prompt), BLOCK)):
            self.differ(REFUSED, "open", f"no session of {pages} pages opens for request {request}")
        self.slots[request], self.held[request] = slot, []
        return slot

    def admit(self, request: int) -> None:
        """A session that waits and lacks nothing that the engine wouldn't compute now is computed."""
        slot = self.slots[request]
        if not self.mirror.do("admit", slot):
            self.differ(REFUSED, "admit", f"the model doesn't admit request {request}")

    def ready(self, request: int) -> bool:
        """Whether a waiting session has all that it waited for."""
        slot, mirror = self.slots[request], self.mirror
        return mirror.missing(slot) == 0 and not mirror.copies_of(slot, FETCH)

    def grow(self, request: int, tokens: int) -> None:
        """The session generates tokens of the model."""
        slot = self.slots[request]
        pages, rest = self.mirror.at("R_N", slot), self.mirror.at("R_RES", slot)
        if rest == 0 and pages >= PAGES:
            raise Cut("more pages than a session has")
        try:
            branch = self.chains.branch(request, pages if rest == 0 else pages - 1)
        except TooManyTexts:
            raise Cut("more texts than the model tells apart") from None
        if not self.mirror.grow(slot, tokens, branch):
            self.differ(REFUSED, "grow", f"request {request} can't grow in the model")

    def leave(self, request: int, end: Literal["finish", "preempt"], late_offer: bool = False) -> None:
        """The engine has freed all blocks of a request: the session ends or waits again, at once or when its stores have ended.
        ``late_offer``: the engine's next step will offer more of its pages."""
        slot = self.slots[request]
        mirror = self.mirror
        offered = sum(len(o.keys) for o in self.offers if o.request == request and not o.begun)
        stores, loads = mirror.copies_of(slot, SPILL) + offered, mirror.copies_of(slot, FETCH)
        gone, self.held[request] = self.held[request], []
        if stores or loads or late_offer:
            text = f"request {request} leaves with {stores} stores and {loads} loads of pages under way"
            self.differ(REFUSED, end, text, stores=stores, loads=loads, late_offer=int(late_offer))
            self.lingering[slot] = Lingering(request, gone, end, late_offer)
            return
        self._end(request, end)

    def settle(self) -> None:
        """Sessions that lingered and have nothing under way any more end."""
        for slot, one in list(self.lingering.items()):
            offered = any(o.request == one.request and not o.begun for o in self.offers)
            if not one.late_offer and not offered and not self.mirror.copies_of(slot, SPILL):
                del self.lingering[slot]
                self._end(one.request, one.end)

    def _end(self, request: int, end: str) -> None:
        slot = self.slots[request]
        if end == "preempt":
            self._preempt_session(request, slot)
        elif self.mirror.finish(slot):
            del self.slots[request]
        else:
            self.differ(REFUSED, "finish-refused", f"request {request}: its session doesn't end in the model")
        self.forget_free()

    def _preempt_session(self, request: int, slot: int) -> None:
        mirror = self.mirror
        if not mirror.running(slot):
            filled = sum(f >= 0 for f in mirror.frames_of(slot))
            loads = mirror.copies_of(slot, FETCH)
            text = f"request {request} is preempted while it waits"
            self.differ(REFUSED, "preempt-waiting", text, running=0, filled=filled, loads=loads)
            self._reopen(request, slot)
            return
        alone, shared = mirror.read_frames(slot)
        if not mirror.do("preempt", slot):
            self.differ(REFUSED, "preempt-refused", f"request {request}: the model doesn't preempt it")
        self.check_invariants(preempted=1, alone=alone, shared=shared)

    def _reopen(self, request: int, slot: int) -> None:
        """The session ends and opens again with the same pages, all to be computed."""
        mirror = self.mirror
        pages, residue = mirror.at("R_N", slot), mirror.at("R_RES", slot)
        branches = [self.chains.branch(request, i) for i in range(pages)]
        if not mirror.finish(slot) or not mirror.open(slot, self.chains.text(request), branches, residue):
            self.differ(REFUSED, "open", f"no session of {pages} pages opens again for request {request}")

    # -- blocks and frames -------------------------------------------------------------------------------

    def holder(self, block: int) -> tuple[int, int] | None:
        """(request, place) of a request that has the block."""
        for request, held in self.held.items():
            if block in held:
                return request, held.index(block)
        return None

    def place(self, request: int, block: int) -> int:
        """The request gets the block as its next page; the page of the model. Raises :class:`Cut`."""
        held = self.held[request]
        if len(held) >= PAGES:
            raise Cut("more pages than a session has")
        held.append(block)
        return self.slots[request] * PAGES + len(held) - 1

    def bind(self, block: int, page: int) -> None:
        """Block and the page's frame are the same from now on."""
        self.frame[block] = self.mirror.at("DEV", page)

    def forget_free(self) -> None:
        """Frames that nothing refers to any more are no block's."""
        used = {b: f for b, f in self.frame.items() if self.mirror.at("D_PAGE", f) >= 0}
        cached = {b: f for b, f in self.frame.items() if self.mirror.at("D_PAGE", f) == CACHED}
        self.frame = used | cached
        there = self.mirror.device_entries()
        self.entries = {x: pair for x, pair in self.entries.items() if x in there}

    def name(self, key: int, chain: tuple[int, ...]) -> None:
        """A key stands for these tokens."""
        if self.keys.setdefault(key, chain) != chain:
            self.differ(STATE, "key", f"key {key} stands for two different pages")

    def lingering_pages(self, frame: int) -> int:
        """Pages of lingering sessions that have the frame."""
        return sum(self.mirror.frames_of(slot).count(frame) for slot in self.lingering)


__all__ = ["DEVICE_KEYS", "STORE_KEYS", "Books", "Cut", "Lingering", "ModelTransfer", "Offer", "Stop"]
