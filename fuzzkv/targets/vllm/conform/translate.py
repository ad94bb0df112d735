"""From the page-event log of an engine to a run of the model, row by row. What a row means for pages is the contract's to say; here is
only which act of the contract it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuzzkv.semantics.layout import NR, PAGES, TOKENS
from fuzzkv.targets.vllm.conform.bookkeeping import Cut, Stop
from fuzzkv.targets.vllm.conform.compare import Look, compare
from fuzzkv.targets.vllm.conform.differences import NO_WORD, REFUSED, STATE, Difference
from fuzzkv.targets.vllm.conform.model_mirror import tokens_of_page
from fuzzkv.targets.vllm.conform.observing import LOOK
from fuzzkv.targets.vllm.conform.paging import Paging
from fuzzkv.targets.vllm.conform.read_ahead import POLL
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.schedule import BLOCK, blocks


@dataclass(frozen=True)
class Translated:
    """The result of translating a log: differences in their order, page events that were translated, looks
    that were compared, and why it was cut short (empty: it wasn't).
    """

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


class Translation(Paging):
    """One log on its way through the model."""

    def __init__(self, history: LiveHistory, frames: int) -> None:
        super().__init__(history, frames)
        self.look = Look()
        self.events = self.looks = 0
        self._to_read: set[int] = set()
        self._after: dict[int, int] = {}
        self._do = {
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
        except (KeyError, IndexError, ValueError) as error:
            # A log that names what there isn't: nothing that follows can be compared.
            text = f"row {self.rows[self.row]} names what there isn't ({type(error).__name__}: {error})"
            self.differences.append(Difference(STATE, "log", text, self.row, self.step))
        return Translated(tuple(self.differences), self.events, self.looks, cut)

    def _one(self, what: str, numbers: Sequence[int]) -> None:
        if what == LOOK + "end":
            self.read_pages()
            compare(self, self.look)
            self.looks += 1
            self.look = Look()
        elif what == POLL:
            self.read_pages()
        elif what.startswith(LOOK):
            self.look.take(what.removeprefix(LOOK), numbers)
        elif what in self._do:
            self.events += what != "step"
            self._do[what](numbers)
        else:
            self.differ(NO_WORD, what, f"the log's {what!r} has no translation")

    def _end_of_run(self) -> None:
        for violation in self.history.failures:
            self.differ(STATE, "violation", f"{violation.invariant} {violation.action}: {violation.text}")
        if self.slots:
            self.differ(
                STATE,
                "left-open",
                f"requests {sorted(self.slots)} have ended in the engine, not in the model",
            )

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

    def read_pages(self) -> None:
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
            # The last token of a request that ends here is never computed.
            self._grow_to(request, self._after.get(request, self.chains.length(request) - 1))
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
        else:
            pages = range(slot * PAGES, (slot + 1) * PAGES)
            loads = [j for j in self.jobs.values() if not (j.store or j.told) and set(j.pages) & set(pages)]
            text = f"request {request} has ended and its blocks were not freed; {len(loads)} loads into them are under way"
            self.differ(REFUSED, "abort", text, untold_loads=len(loads))

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


def _pairs(numbers: Sequence[int | str]) -> dict[int, int]:
    return {int(a): int(b) for a, b in zip(numbers[::2], numbers[1::2], strict=True)}
