"""The frozen requests of a replay on a live engine: contexts, their sessions, and how to set them back
between arms.

Replicas of one script run side by side: page (request, page) of every replica is acted on at once. A
context is prefilled for real the first time its request arrives; its bytes are kept, and the next arm
starts from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuzzkv.targets.vllm.replay.engine import ReplayEngine, ReplaySession
from fuzzkv.targets.vllm.replay.script import ReplayJob, Slot
from fuzzkv.targets.vllm.replay.task import Context, build_context, random_context

_REQUEST_SEED = 1_000_003


class Bench:
    """Contexts of ``replicas`` (their numbers; with the job's seed they decide every token) for one job."""

    def __init__(
        self, engine: ReplayEngine, job: ReplayJob, vocab: Mapping[str, int], replicas: Sequence[int]
    ) -> None:
        self.engine, self.job, self.replicas = engine, job, list(replicas)
        self.contexts: dict[Slot, list[Context]] = {}
        for slot, pages in job.sessions().items():
            seeds = [((job.seed * 16 + slot[1]) * 4 + slot[0]) * _REQUEST_SEED + n for n in self.replicas]
            if vocab:
                self.contexts[slot] = [build_context(vocab, pages, seed) for seed in seeds]
            else:
                self.contexts[slot] = [random_context(engine.vocabulary, pages, seed) for seed in seeds]
        self.sessions: dict[Slot, list[ReplaySession]] = {}
        self._pristine: dict[Slot, list[Any]] = {}

    def arrive(self, slot: Slot) -> None:
        """Open the sessions of all replicas, or set their pages back to the prefilled bytes."""
        if slot not in self.sessions:
            self.sessions[slot] = self.engine.open([c.tokens for c in self.contexts[slot]])
            self._pristine[slot] = self.engine.copy_out(self.blocks(slot))
        else:
            self.engine.copy_in(self.blocks(slot), self._pristine[slot])
        self.engine.mark(self.blocks(slot), absent=False)

    def blocks(self, slot: Slot, page: int | None = None) -> list[int]:
        """Physical blocks of all replicas: of one page, or of every page of the session."""
        sessions = self.sessions[slot]
        return [b for s in sessions for b in (s.blocks if page is None else s.blocks[page : page + 1])]

    def close(self) -> None:
        """Let every session go; their frames are scrubbed."""
        for sessions in self.sessions.values():
            self.engine.release(sessions)
        self.sessions, self._pristine = {}, {}
