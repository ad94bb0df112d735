"""The frozen requests of a replay on a live engine: contexts, their sessions, and how to set them back
between arms.

Replicas of one script run side by side: page (request, page) of every replica is acted on at once. A
context is prefilled for real the first time its request arrives; its bytes are kept, and the next arm
starts from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuzzkv.replay.engine import Engine, Session
from fuzzkv.replay.script import Job
from fuzzkv.replay.task import Context, build_context, random_context

_REQUEST_SEED = 1_000_003


class Bench:
    """Contexts of ``replicas`` (their numbers; with the job's seed they decide every token) for one job."""

    def __init__(self, engine: Engine, job: Job, vocab: Mapping[str, int], replicas: Sequence[int]) -> None:
        self.engine, self.job, self.replicas = engine, job, list(replicas)
        self.contexts: dict[int, list[Context]] = {}
        for request, pages in job.sessions().items():
            seeds = [(job.seed * 4 + request) * _REQUEST_SEED + n for n in self.replicas]
            if vocab:
                self.contexts[request] = [build_context(vocab, pages, seed) for seed in seeds]
            else:
                self.contexts[request] = [random_context(engine.vocabulary, pages, seed) for seed in seeds]
        self.sessions: dict[int, list[Session]] = {}
        self._pristine: dict[int, list[Any]] = {}

    def arrive(self, request: int) -> None:
        """Open the request's sessions, or set their pages back to the prefilled bytes."""
        if request not in self.sessions:
            self.sessions[request] = self.engine.open([c.tokens for c in self.contexts[request]])
            self._pristine[request] = self.engine.copy_out(self.blocks(request))
        else:
            self.engine.copy_in(self.blocks(request), self._pristine[request])
        self.engine.mark(self.blocks(request), absent=False)

    def blocks(self, request: int, page: int | None = None) -> list[int]:
        """Physical blocks of all replicas: of one page, or of every page of the request."""
        return [
            b
            for s in self.sessions[request]
            for b in (s.blocks if page is None else s.blocks[page : page + 1])
        ]

    def close(self) -> None:
        """Let every session go; their frames are scrubbed."""
        for sessions in self.sessions.values():
            self.engine.release(sessions)
        self.sessions, self._pristine = {}, {}
