"""Executes one arm's script on a live engine, for all replicas of a bench at once.

Quality: every endpoint page is audited (all its questions) when its session ends; an ``ask`` inside the
script runs one question. Exact: every ``ask`` and every audit decodes greedily. Latency: see
:mod:`fuzzkv.targets.vllm.replay.latency`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from fuzzkv.targets.vllm.replay.bench import Bench
from fuzzkv.targets.vllm.replay.engine import ReplaySession, Scored
from fuzzkv.targets.vllm.replay.script import Op, ReplayArm, Slot
from fuzzkv.targets.vllm.replay.task import Context

NLL_CAP: Final = 25.0
"""Nats per token; also what NaN logprobs (poison was read) count as."""
TIE: Final = 1e-4
"""Logprob difference in nats below which two tokens are tied."""
GREEDY_TOKENS: Final = 8
ASK_SAMPLE: Final = 8
"""Replicas (of those side by side) that run a question for an ``ask`` inside a quality script; audits
decide, so all run those."""


PageKey = tuple[int, int, int]
"""Request, which arrival of it, page."""


@dataclass
class ReplayPage:
    """The state of a page in a replay: is it read, where its host copy is, what is in flight."""

    resident: bool = True
    host: list[Any] | None = None
    flight: str = ""
    failed: bool = False
    early: bool = False


@dataclass
class ReplayOutcome:
    """One arm's results on one bench. The order inside is replicas, then
    questions."""

    right: dict[PageKey, list[bool]] = field(default_factory=dict)
    nll: dict[PageKey, list[float]] = field(default_factory=dict)
    tie: dict[PageKey, list[bool]] = field(default_factory=dict)
    context: dict[PageKey, list[int]] = field(default_factory=dict)
    tokens: list[tuple[str, list[list[tuple[int, float]]]]] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)


class ArmRun:
    """One arm on one bench. :meth:`run` returns its outcome; page state is per session and page."""

    def __init__(self, bench: Bench, arm: ReplayArm, kind: str) -> None:
        self.bench, self.arm, self.kind, self.engine = bench, arm, kind, bench.engine
        self.pages: dict[PageKey, ReplayPage] = {}
        self.open: dict[int, Slot] = {}
        self.arrivals: Counter[int] = Counter()
        self.out = ReplayOutcome()

    def run(self) -> ReplayOutcome:
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
            slot = (op.request, self.arrivals[op.request])
            self.arrivals[op.request] += 1
            self.bench.arrive(slot)
            self.open[op.request] = slot
            self.pages.update({(*slot, p): ReplayPage() for p in range(op.arg)})
        elif op.verb == "wait":
            self.wait(op.arg)
        elif op.request in self.open:
            if op.verb == "finish":
                self.audit(op.request)
                del self.open[op.request]
            else:
                getattr(self, op.verb if op.verb != "await" else "block")(op)

    def key(self, op: Op) -> PageKey:
        """The page that an operation on an open session means."""
        return (*self.open[op.request], op.page)

    def blocks(self, key: PageKey) -> list[int]:
        """Physical blocks of a page, of all replicas."""
        return self.bench.blocks(key[:2], key[2])

    # -- copies ------------------------------------------------------------------------------------------

    def store(self, op: Op) -> None:
        """A device-to-host copy begins."""
        page = self.pages[self.key(op)]
        page.flight, page.failed = "store", False

    def stored(self, op: Op) -> None:
        """It ends: the bytes that are on the device now become the host copy."""
        page = self.pages[self.key(op)]
        if self._ends(page, "store"):
            page.host = self.engine.copy_out(self.blocks(self.key(op)))

    def load(self, op: Op) -> None:
        """A host-to-device copy begins; without a host copy it never will deliver anything."""
        page = self.pages[self.key(op)]
        page.flight, page.failed, page.early = "load", False, False
        if page.host is None:
            page.failed = True
            self.out.counters["lost_loads"] += 1

    def loaded(self, op: Op) -> None:
        """It ends: the host's bytes are on the device, and the page is read again."""
        page = self.pages[self.key(op)]
        if page.early:
            page.early = False
        elif self._ends(page, "load"):
            self._arrive(self.key(op), page)

    def block(self, op: Op) -> None:
        """The session waits for a load in flight, so it ends here."""
        page = self.pages[self.key(op)]
        if page.flight == "load":
            self.loaded(op)
            page.early = True

    def fail(self, op: Op) -> None:
        """The copy in flight delivers nothing."""
        self.pages[self.key(op)].failed = True
        self.out.counters["failed_copies"] += 1

    def _ends(self, page: ReplayPage, kind: str) -> bool:
        delivers = page.flight == kind and not page.failed
        self.out.counters["ends_without_copy"] += page.flight != kind
        page.flight, page.failed = "", False
        return delivers

    def _arrive(self, key: PageKey, page: ReplayPage) -> None:
        if page.host is None:  # deleted while the load was in flight
            self.out.counters["lost_loads"] += 1
            return
        blocks = self.blocks(key)
        self.engine.copy_in(blocks, page.host)
        self.engine.mark(blocks, absent=False)
        page.resident = True

    # -- copies given up, bytes changed ------------------------------------------------------------------

    def discard_device(self, op: Op) -> None:
        """The frame is poisoned, and the page is left out of attention."""
        blocks = self.blocks(self.key(op))
        self.engine.poison(blocks)
        self.engine.mark(blocks, absent=True)
        self.pages[self.key(op)].resident = False

    def discard_host(self, op: Op) -> None:
        """The host copy is deleted."""
        self.pages[self.key(op)].host = None

    def quantise(self, op: Op) -> None:
        """The device copy is quantised in place; a page that isn't there is left alone."""
        if self.pages[self.key(op)].resident:
            self.engine.quantise(self.blocks(self.key(op)), op.arg)
        else:
            self.out.counters["idle_quantisations"] += 1

    # -- reading -----------------------------------------------------------------------------------------

    def wait(self, ticks: int) -> None:
        """Time passes: nothing to do outside latency replays."""

    def ask(self, op: Op) -> None:
        """A step of the session about this page."""
        if self.kind == "exact":
            self._decode("ask", self.key(op))
        else:
            which = self.out.counters["asks"]
            scored = self._score(self.key(op), which)
            self.out.counters["asks"] += 1
            self.out.counters["asked"] += len(scored)
            self.out.counters["asked_right"] += sum(_right(s) for s in scored)

    def audit(self, request: int) -> None:
        """The questions of every endpoint page of this session."""
        keys = [k for k in self.bench.job.audited() if k[:2] == self.open[request]]
        self.out.counters["absent_at_audit"] += sum(not self.pages[k].resident for k in keys)
        if self.kind == "exact":
            for k in keys:
                self._decode("audit", k)
            return
        for k, answers in self._score_pages(self.open[request], keys).items():
            self.out.right[k] = [_right(a) for a in answers]
            self.out.nll[k] = [_nll(a) for a in answers]
            self.out.tie[k] = [_tied(a) for a in answers]
            each = len(answers) // len(self.bench.replicas)
            self.out.context[k] = [n for n in self.bench.replicas for _ in range(each)]

    def _score_pages(self, slot: Slot, keys: list[PageKey]) -> dict[PageKey, list[tuple[Scored, ...]]]:
        prompts = [
            (k, (session, q.cue, q.gold))
            for session, context in self._replicas(slot)
            for k in keys
            for q in context.questions[k[2]]
        ]
        answers: dict[PageKey, list[tuple[Scored, ...]]] = {k: [] for k in keys}
        for (k, _), scored in zip(prompts, self.engine.score([x for _, x in prompts]), strict=True):
            answers[k].append(scored)
        return answers

    def _score(self, key: PageKey, which: int) -> list[tuple[Scored, ...]]:
        asked = [(s, c.questions[key[2]]) for s, c in self._replicas(key[:2])[:ASK_SAMPLE]]
        return self.engine.score(
            [(s, q[which % len(q)].cue, q[which % len(q)].gold) for s, q in asked],
        )

    def _decode(self, verb: str, key: PageKey) -> None:
        prompts = [(s, c.questions[key[2]][0].cue) for s, c in self._replicas(key[:2])]
        label = " ".join(map(str, (verb, *key)))
        self.out.tokens.append((label, self.engine.decode(prompts, GREEDY_TOKENS)))

    def _replicas(self, slot: Slot) -> list[tuple[ReplaySession, Context]]:
        return list(zip(self.bench.sessions[slot], self.bench.contexts[slot], strict=True))


def _right(answer: tuple[Scored, ...]) -> bool:
    return all(s.rank == 1 and not math.isnan(s.logprob) for s in answer)


def _nll(answer: tuple[Scored, ...]) -> float:
    values = [NLL_CAP if math.isnan(s.logprob) else min(-s.logprob, NLL_CAP) for s in answer]
    return sum(values) / len(values)


def _tied(answer: tuple[Scored, ...]) -> bool:
    """Wrong, but only by a tie."""
    return not _right(answer) and all(s.rank == 1 or s.gap < TIE for s in answer)
