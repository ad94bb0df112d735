"""Calls a ``CachePolicy`` alone, as vLLM's ``CPUOffloadingManager`` would: stores, loads, failures, evictions.

A policy is asked to do in every order what the manager may ask of it, and its answers decide what is asked next.
Where a rule says that a call changes nothing, or that the policy is as new, a second object which never got that
call is asked the same and has to answer the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fuzzkv.targets.vllm.plugin.cache_policy import watch_policy
from fuzzkv.targets.vllm.plugin.exercise import CallCode, Exercised, explore
from fuzzkv.targets.vllm.plugin.parts import PLAIN, Parts, key
from fuzzkv.targets.vllm.plugin.record import Report, named

STORE, DONE, LOAD, LOADED, TOUCH, FINISH, FAIL, CLEAR = range(8)
KINDS = (STORE, DONE, LOAD, LOADED, TOUCH, FINISH, FAIL, CLEAR, STORE, DONE, STORE, DONE)
"""What the first number of a call stands for; stores and their ends come often, or nothing is ever evicted."""
CAPACITIES = (1, 3, 5)
KEYS = 8
"""Blocks that are stored and loaded; more than the largest capacity."""
REQUESTS = 3

PolicyAnswer = tuple[str, Any]


class PolicyUser:
    """Uses one policy as the manager would.  ``skip``: calls of evict, by number, that aren't made, because another
    policy answered them with None.
    """

    def __init__(
        self,
        policy: Any,
        capacity: int,
        parts: Parts,
        tell: Callable[[str], None],
        skip: frozenset[int] = frozenset(),
    ) -> None:
        self.policy, self.parts, self.tell, self.skip = policy, parts, tell, skip
        self.free = list(range(capacity))
        self.chunks: dict[bytes, Any] = {}
        self.pending: list[bytes] = []
        self.loads: list[bytes] = []
        self.seen: list[tuple[list[bytes], set[bytes], set[bytes]]] = [
            ([], set(), set()) for _ in range(REQUESTS)
        ]
        self.contexts = [parts.context(f"r{i}") for i in range(REQUESTS)]
        self.evictions = 0
        self.none: set[int] = set()

    def do(self, call: CallCode) -> list[PolicyAnswer]:
        """Make the calls that this one stands for; what was answered."""
        what, a, b = call
        match KINDS[what]:
            case 0:
                return self._store(a, 1 + b % 4, b % REQUESTS)
            case 1:
                for _ in range(1 + b):
                    self._done(a)
            case 2:
                self._load(a, 1 + b % 3, b % REQUESTS)
            case 3:
                self._loaded(a)
            case 4:
                self._touch(a, 1 + b % 4, b % REQUESTS)
            case 5:
                self._finish(a % REQUESTS)
            case 6:
                self._fail(a)
            case _:
                self._clear()
        return []

    def _store(self, first: int, count: int, request: int) -> list[PolicyAnswer]:
        offered = [key((first + i) % KEYS) for i in range(count)]
        missing = [k for k in offered if self._get(k) is None]
        self._saw(request, offered, inserted=(), reused=[k for k in offered if self._ready(k)])
        if not missing:
            return []
        self.tell(f"on_store_miss({named(missing)}, r{request})")
        self.policy.on_store_miss(list(missing), self.contexts[request])
        short = len(missing) - len(self.free)
        answers: list[PolicyAnswer] = []
        if short > sum(chunk.ref_cnt == 0 for chunk in self.chunks.values()):
            return answers  # the manager doesn't ask then
        if short > 0:
            gone = self._evict(short, set(offered))
            answers.append(("evict", None if gone is None else frozenset(gone)))
            if gone is None:
                return answers
            for k in gone:
                self.free.append(int(self.chunks.pop(k).chunk_id))
        for k in missing:
            chunk = self.parts.chunk(self.free.pop())
            self.tell(f"insert({named(k)}, chunk {chunk.chunk_id})")
            self.policy.insert(k, chunk)
            self.chunks[k] = chunk
            self.pending.append(k)
        self._saw(request, missing, inserted=missing, reused=())
        return answers

    def _evict(self, n: int, protected: set[bytes]) -> list[bytes] | None:
        number, self.evictions = self.evictions, self.evictions + 1
        if number in self.skip:
            return None
        self.tell(f"evict({n}, protected={named(protected)})")
        gone = self.policy.evict(n, protected)
        if gone is None:
            self.tell("  gives None")
            self.none.add(number)
            return None
        self.tell(f"  gives {named([k for k, _ in gone])}")
        return [k for k, _ in gone]

    def _done(self, which: int) -> None:
        if self.pending:
            k = self.pending.pop(which % len(self.pending))
            self.chunks[k].ref_cnt = 0
            self.tell(f"stored: mark_evictable({named(k)})")
            self.policy.mark_evictable(k)

    def _fail(self, which: int) -> None:
        if self.pending:
            k = self.pending.pop(which % len(self.pending))
            self.tell(f"store failed: remove({named(k)})")
            self.policy.remove(k)
            self.free.append(int(self.chunks.pop(k).chunk_id))

    def _load(self, first: int, count: int, request: int) -> None:
        for i in range(count):
            k = key((first + i) % KEYS)
            if self._get(k) is None or not self._ready(k):
                return
            if self.chunks[k].ref_cnt == 0:
                self.tell(f"load begins: mark_non_evictable({named(k)})")
                self.policy.mark_non_evictable(k)
            self.chunks[k].ref_cnt += 1
            self.loads.append(k)
            self._saw(request, [k], inserted=(), reused=[k])

    def _loaded(self, which: int) -> None:
        if self.loads:
            k = self.loads.pop(which % len(self.loads))
            self.chunks[k].ref_cnt -= 1
            if self.chunks[k].ref_cnt == 0:
                self.tell(f"load ends: mark_evictable({named(k)})")
                self.policy.mark_evictable(k)

    def _touch(self, first: int, count: int, request: int) -> None:
        keys = [key((first + i) % KEYS) for i in range(count)]
        self.tell(f"touch({named(keys)}, r{request})")
        self.policy.touch(keys, self.contexts[request])

    def _finish(self, request: int) -> None:
        keys, inserted, reused = self.seen[request]
        self.tell(
            f"on_request_finished([{named(keys)}], {named(inserted - reused)}, {named(reused)}, r{request})"
        )
        self.policy.on_request_finished((tuple(keys),), inserted - reused, reused, self.contexts[request])
        self.seen[request] = ([], set(), set())
        self.contexts[request] = self.parts.context(f"r{request}")

    def _clear(self) -> None:
        self.tell("clear()")
        self.policy.clear()
        self.free += [int(chunk.chunk_id) for chunk in self.chunks.values()]
        self.free.sort()
        self.chunks.clear()
        self.pending.clear()
        self.loads.clear()
        self.contexts = [self.parts.context(f"r{i}") for i in range(REQUESTS)]
        self.seen = [([], set(), set()) for _ in range(REQUESTS)]

    def _get(self, k: bytes) -> Any:
        return self.policy.get(k)

    def _ready(self, k: bytes) -> bool:
        return k in self.chunks and self.chunks[k].ref_cnt >= 0

    def _saw(
        self, request: int, keys: Sequence[bytes], *, inserted: Sequence[bytes], reused: Sequence[bytes]
    ) -> None:
        known, mine, again = self.seen[request]
        known += [k for k in keys if k not in known and k in self.chunks]
        mine |= set(inserted)
        again |= set(reused) - mine


def exercise_policy(
    factory: Callable[[int], Any], seed: int, examples: int, *, parts: Parts = PLAIN
) -> Exercised:
    """Exercise the policies that ``factory(capacity)`` makes.  ``examples`` sequences of calls, the same for a seed.

    ``parts``: what chunks and contexts are; vLLM's own kinds are ``engine_parts()``.
    """
    whole = Exercised()
    for i, capacity in enumerate(CAPACITIES):

        def world(calls: Sequence[CallCode], report: Report, capacity: int = capacity) -> None:
            _compare(factory, capacity, parts, calls, report, whole)

        whole.add(explore(world, len(KINDS), seed=seed + i, examples=-(-examples // len(CAPACITIES))))
    return whole


def _compare(
    factory: Callable[[int], Any],
    capacity: int,
    parts: Parts,
    calls: Sequence[CallCode],
    report: Report,
    whole: Exercised,
) -> None:
    def user(report: Report, skip: frozenset[int] = frozenset()) -> PolicyUser:
        policy = factory(capacity)
        watch_policy(policy, report)
        return PolicyUser(policy, capacity, parts, report.told, skip)

    first = user(report)
    answers = [first.do(call) for call in calls]
    cleared = max((i for i, call in enumerate(calls) if KINDS[call[0]] == CLEAR), default=None)
    if not first.none and cleared is None:
        return
    if _answers(user(Report()), calls) != answers:
        whole.unsteady = True
        return
    if first.none:
        same = _answers(user(Report(), frozenset(first.none)), calls) == answers
        report.check("policy-evict-none", same, "an eviction that gave None changed what is evicted later")
    if cleared is not None:
        same = _answers(user(Report()), calls[cleared:]) == answers[cleared:]
        report.check(
            "policy-clear-forgets", same, "after clear other chunks are evicted than a new policy evicts"
        )


def _answers(user: PolicyUser, calls: Sequence[CallCode]) -> list[list[PolicyAnswer]]:
    return [user.do(call) for call in calls]
