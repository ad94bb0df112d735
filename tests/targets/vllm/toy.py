"""A toy engine for tests of the hunt: a block pool, a prefix cache and a host tier in ordinary Python.

``fault`` plants an interplay fault: where both the tier and the prefix cache are on, a block is given away while its store
is in flight, so the copy that ends late takes another request's bytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import LiveHistory, Row
from fuzzkv.targets.vllm.pool.engine_pool import EngineDied
from fuzzkv.targets.vllm.schedule import BLOCK, LiveSchedule, fits, prompt, size, tail

Key = tuple[int, ...]


@dataclass
class _Request:
    prompt: tuple[int, ...]
    limit: int
    tokens: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    state: str = "waiting"


@dataclass
class _Store:
    block: int
    key: Key


class ToyLife:
    """One engine.  ``alone``: the tier fails without any help; ``deadly``: aborts while a store is in flight kill it, where
    the prefix cache is on too; ``inert``: the tier never serves."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        fault: bool = False,
        alone: bool = False,
        deadly: bool = False,
        inert: bool = False,
    ) -> None:
        self.config, self.alone, self.inert = config, alone, inert
        both = config.tier is not None and config.prefix_cache
        self.fault, self.deadly = fault and both, deadly and both
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        self.pool = schedule.pool
        self.chunk = schedule.chunk
        self.free = list(range(schedule.pool))
        self.bytes: dict[int, Key] = {}
        self.index: dict[Key, int] = {}
        self.host: dict[Key, Key] = {}
        self.stores: list[_Store] = []
        self.held = False
        self.requests: list[_Request] = []
        self.counters: Counter[str] = Counter()
        self.log: list[Row] = []
        self.failures: list[Failure] = []
        self.steps = self.event = 0
        for self.event, event in enumerate(schedule.events):
            self._do(event)
        self.held = False
        for _ in range(2000):
            if all(r.state in ("done", "aborted") for r in self.requests):
                break
            self._step()
        return LiveHistory(
            tokens=tuple((*r.tokens, -1) if r.state == "aborted" else tuple(r.tokens) for r in self.requests),
            log=tuple(self.log),
            counters=dict(self.counters),
            failures=tuple(self.failures),
            steps=self.steps,
            prompts=tuple(r.prompt for r in self.requests),
        )

    def _do(self, event: tuple[str, int, int, int]) -> None:
        op, a, b, c = event
        if op == "step":
            for _ in range(a):
                self._step()
        elif op == "arrive":
            self._add(prompt(a, size(b)), c)
        elif op == "fork" and self.requests:
            parent = self.requests[a % len(self.requests)]
            self._add((*parent.prompt, *parent.tokens, *tail(len(self.requests), size(b))), c)
        elif op == "abort":
            running = [r for r in self.requests if r.state in ("waiting", "running")]
            if running:
                self._end(running[a % len(running)], "aborted")
                self.counters["aborts"] += 1
                if self.deadly and self.counters["aborts"] > 1 and self.stores:
                    raise EngineDied("died", "exit status -11")
        elif op == "reset":
            self.index.clear()
            if a:
                self.host.clear()
        elif op == "hold":
            self.held = bool(a)
        elif op == "complete" and self.stores:
            self._ended(self.stores.pop(a % len(self.stores)))

    def _add(self, tokens: tuple[int, ...], limit: int) -> None:
        if fits(len(tokens), limit, pool=self.pool, context=self.config.context):
            self.requests.append(_Request(tokens, limit))
            self.log.append(("arrive", len(self.requests) - 1))

    def _step(self) -> None:
        self.steps += 1
        self.log.append(("step", self.steps))
        for request in self.requests:
            if request.state == "waiting" and not self._admit(request):
                break
        for number, request in enumerate(self.requests):
            if request.state == "running":
                request.tokens.append(16 + (7 * number + len(request.tokens)) % 400)
                if len(request.tokens) >= request.limit:
                    self._end(request, "done")
        if not self.held:
            for store in self.stores:
                self._ended(store)
            self.stores = []

    def _admit(self, request: _Request) -> bool:
        need = -(-(len(request.prompt) + request.limit) // BLOCK)
        if need > len(self.free):
            if self.pool < self.config.pages:
                self.counters["preemptions"] += 1
            return False
        if len(request.prompt) > self.chunk:
            self.counters["partial_prefills"] += 1
        request.state = "running"
        for i in range(need):
            key = request.prompt[: (i + 1) * BLOCK]
            whole = (i + 1) * BLOCK <= len(request.prompt)
            if whole and self.config.prefix_cache and key in self.index:
                self.counters["hits"] += 1
                self.log.append(("hit", len(self.requests), self.index[key]))
                continue
            block = self._take()
            request.blocks.append(block)
            self.log.append(("alloc", len(self.requests), block))
            if whole and key in self.host and not self.inert:
                self.counters["loads"] += 1
                self.counters["loaded_pages"] += 1
                self.bytes[block] = self.host[key]
                if self.alone:
                    self._broken("I16", "short", block, "a load that failed counts as done")
                continue
            self.bytes[block] = key
            if whole and self.config.prefix_cache:
                self.index[key] = block
                self.log.append(("publish", block, len(self.index)))
            if whole and self.config.tier is not None:
                self.stores.append(_Store(block, key))
                self.counters["stores"] += 1
                self.counters["stored_pages"] += 1
        return True

    def _take(self) -> int:
        block = self.free.pop(0)
        self.index = {key: at for key, at in self.index.items() if at != block}
        if not self.fault:
            for store in [s for s in self.stores if s.block == block]:
                self._ended(store)
                self.stores.remove(store)
        return block

    def _ended(self, store: _Store) -> None:
        if self.bytes[store.block] != store.key:
            self._broken("I4", "foreign", store.block, "the bytes that were stored are another prompt's")
        self.host[store.key] = self.bytes[store.block]

    def _end(self, request: _Request, state: str) -> None:
        request.state = state
        self.free = [*request.blocks, *self.free] if state == "aborted" else [*self.free, *request.blocks]
        request.blocks = []

    def _broken(self, invariant: str, what: str, page: int, text: str) -> None:
        self.failures.append(
            Failure(invariant, what, event=self.event, stamp=self.steps, page=page, text=text)
        )
