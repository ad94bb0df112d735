"""Executes one arm's script on a live engine, for all replicas of a bench at once.

Quality: every endpoint page is audited (all its questions) when its session ends; an ``ask`` inside the
script runs one question. Exact: every ``ask`` and every audit decodes greedily. Latency: see
:mod:`fuzzkv.replay.latency`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from fuzzkv.replay.bench import Bench
from fuzzkv.replay.engine import Scored
from fuzzkv.replay.script import Arm, Op

NLL_CAP: Final = 25.0
"""Nats per token; also what NaN logprobs (poison was read) count as."""
TIE: Final = 1e-4
"""Logprob difference in nats below which two tokens are tied."""
GREEDY_TOKENS: Final = 8


@dataclass
class Page:
    """What the replay knows of a page: is it read, where its host copy is, what is in flight."""

    resident: bool = True
    host: list[Any] | None = None
    flight: str = ""
    failed: bool = False
    early: bool = False


@dataclass
class Outcome:
    """One arm's results on one bench. Keys are (request, page); the order inside is replicas, then
    questions."""

    right: dict[tuple[int, int], list[bool]] = field(default_factory=dict)
    nll: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    tie: dict[tuple[int, int], list[bool]] = field(default_factory=dict)
    context: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    tokens: list[tuple[str, list[list[tuple[int, float]]]]] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)


class ArmRun:
    """One arm on one bench. :meth:`run` returns its outcome; page state is per (request, page)."""

    def __init__(self, bench: Bench, arm: Arm, kind: str) -> None:
        self.bench, self.arm, self.kind, self.engine = bench, arm, kind, bench.engine
        self.pages: dict[tuple[int, int], Page] = {}
        self.open: set[int] = set()
        self.out = Outcome()

    def run(self) -> Outcome:
        """Execute the whole script, then audit what is still open."""
        for op in self.arm.script:
            self.do(op)
        for request in sorted(self.open):
            self.audit(request)
        self.out.counters["operations"] = len(self.arm.script)
        return self.out

    def do(self, op: Op) -> None:
        """Execute one operation. What concerns an ended session does nothing."""
        if op.verb == "arrive":
            self.bench.arrive(op.request)
            self.open.add(op.request)
            self.pages.update({(op.request, p): Page() for p in range(op.arg)})
        elif op.verb == "wait":
            self.wait(op.arg)
        elif op.request in self.open:
            if op.verb == "finish":
                self.audit(op.request)
                self.open.discard(op.request)
            else:
                getattr(self, op.verb if op.verb != "await" else "block")(op)

    # -- copies ------------------------------------------------------------------------------------------

    def store(self, op: Op) -> None:
        """A device-to-host copy begins."""
        page = self.pages[op.request, op.page]
        page.flight, page.failed = "store", False

    def stored(self, op: Op) -> None:
        """It ends: the bytes that are on the device now become the host copy."""
        page = self.pages[op.request, op.page]
        if self._ends(page, "store"):
            page.host = self.engine.copy_out(self.bench.blocks(op.request, op.page))

    def load(self, op: Op) -> None:
        """A host-to-device copy begins; without a host copy it never will deliver anything."""
        page = self.pages[op.request, op.page]
        page.flight, page.failed, page.early = "load", False, False
        if page.host is None:
            page.failed = True
            self.out.counters["lost_loads"] += 1

    def loaded(self, op: Op) -> None:
        """It ends: the host's bytes are on the device, and the page is read again."""
        page = self.pages[op.request, op.page]
        if page.early:
            page.early = False
        elif self._ends(page, "load"):
            self._arrive(op.request, op.page, page)

    def block(self, op: Op) -> None:
        """The session waits for a load in flight, so it ends here."""
        page = self.pages[op.request, op.page]
        if page.flight == "load":
            self.loaded(op)
            page.early = True

    def fail(self, op: Op) -> None:
        """The copy in flight delivers nothing."""
        self.pages[op.request, op.page].failed = True
        self.out.counters["failed_copies"] += 1

    def _ends(self, page: Page, kind: str) -> bool:
        delivers = page.flight == kind and not page.failed
        self.out.counters["ends_without_copy"] += page.flight != kind
        page.flight, page.failed = "", False
        return delivers

    def _arrive(self, request: int, number: int, page: Page) -> None:
        if page.host is None:  # deleted while the load was in flight
            self.out.counters["lost_loads"] += 1
            return
        blocks = self.bench.blocks(request, number)
        self.engine.copy_in(blocks, page.host)
        self.engine.mark(blocks, absent=False)
        page.resident = True

    # -- copies given up, bytes changed ------------------------------------------------------------------

    def discard_device(self, op: Op) -> None:
        """The frame is poisoned, and the page is left out of attention."""
        blocks = self.bench.blocks(op.request, op.page)
        self.engine.poison(blocks)
        self.engine.mark(blocks, absent=True)
        self.pages[op.request, op.page].resident = False

    def discard_host(self, op: Op) -> None:
        """The host copy is deleted."""
        self.pages[op.request, op.page].host = None

    def quantise(self, op: Op) -> None:
        """The device copy is quantised in place; a page that isn't there is left alone."""
        if self.pages[op.request, op.page].resident:
            self.engine.quantise(self.bench.blocks(op.request, op.page), op.arg)
        else:
            self.out.counters["idle_quantisations"] += 1

    # -- reading -----------------------------------------------------------------------------------------

    def wait(self, ticks: int) -> None:
        """Time passes: nothing to do outside latency replays."""

    def ask(self, op: Op) -> None:
        """A step of the session about this page."""
        if self.kind == "exact":
            self._decode(f"ask {op.request} {op.page}", op.request, op.page)
        else:
            which = self.out.counters["asks"]
            scored = self._score(op.request, op.page, which)
            self.out.counters["asks"] += 1
            self.out.counters["asked"] += len(scored)
            self.out.counters["asked_right"] += sum(_right(s) for s in scored)

    def audit(self, request: int) -> None:
        """The questions of every endpoint page of this session."""
        pages = [p for r, p in self.bench.job.endpoints() if r == request]
        self.out.counters["absent_at_audit"] += sum(not self.pages[request, p].resident for p in pages)
        if self.kind == "exact":
            for p in pages:
                self._decode(f"audit {request} {p}", request, p)
            return
        for p, answers in self._score_pages(request, pages).items():
            self.out.right[request, p] = [_right(a) for a in answers]
            self.out.nll[request, p] = [_nll(a) for a in answers]
            self.out.tie[request, p] = [_tied(a) for a in answers]
            each = len(answers) // len(self.bench.replicas)
            self.out.context[request, p] = [n for n in self.bench.replicas for _ in range(each)]

    def _score_pages(self, request: int, pages: list[int]) -> dict[int, list[tuple[Scored, ...]]]:
        sessions, contexts = self.bench.sessions[request], self.bench.contexts[request]
        prompts = [
            (p, (session, q.cue, q.gold))
            for session, context in zip(sessions, contexts, strict=True)
            for p in pages
            for q in context.questions[p]
        ]
        answers: dict[int, list[tuple[Scored, ...]]] = {p: [] for p in pages}
        for (p, _), scored in zip(prompts, self.engine.score([x for _, x in prompts]), strict=True):
            answers[p].append(scored)
        return answers

    def _score(self, request: int, page: int, which: int) -> list[tuple[Scored, ...]]:
        pairs = zip(self.bench.sessions[request], self.bench.contexts[request], strict=True)
        questions = [(s, c.questions[page][which % len(c.questions[page])]) for s, c in pairs]
        return self.engine.score([(s, q.cue, q.gold) for s, q in questions])

    def _decode(self, label: str, request: int, page: int) -> None:
        pairs = zip(self.bench.sessions[request], self.bench.contexts[request], strict=True)
        prompts = [(s, c.questions[page][0].cue) for s, c in pairs]
        self.out.tokens.append((label, self.engine.decode(prompts, GREEDY_TOKENS)))


def _right(answer: tuple[Scored, ...]) -> bool:
    return all(s.rank == 1 and not math.isnan(s.logprob) for s in answer)


def _nll(answer: tuple[Scored, ...]) -> float:
    values = [NLL_CAP if math.isnan(s.logprob) else min(-s.logprob, NLL_CAP) for s in answer]
    return sum(values) / len(values)


def _tied(answer: tuple[Scored, ...]) -> bool:
    """Wrong, but only by a tie."""
    return not _right(answer) and all(s.rank == 1 or s.gap < TIE for s in answer)
