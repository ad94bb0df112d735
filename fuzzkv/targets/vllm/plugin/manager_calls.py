"""Calls an ``OffloadingManager`` alone, as vLLM's offloading connector would, with a worker at its side or without.

Requests come, look blocks up, load what hits, store what is missing and finish; transfers end in any order, or fail.
At the end everything is completed, and then all of the room has to be had again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fuzzkv.targets.vllm.plugin.exercise import CallCode, Exercised, explore
from fuzzkv.targets.vllm.plugin.manager import ManagerWatch, watch_manager
from fuzzkv.targets.vllm.plugin.parts import PLAIN, Parts, key
from fuzzkv.targets.vllm.plugin.record import Report, named

ARRIVE, STORE, DONE, LOAD, FINISH, LOOK, STEP, TOUCH, FAIL, RESET = range(10)
KINDS = (
    *(ARRIVE, STORE, DONE, LOAD, FINISH, LOOK, STEP, TOUCH, FAIL, RESET),
    *(ARRIVE, STORE, DONE, LOAD, STORE, DONE, LOAD),
)
"""What the first number of a call stands for; what fills the cache comes often."""
FRAMES = (2, 5)
"""Chunks that the manager may hold."""
SLOTS = 3
LENGTH = 3
"""Blocks of a request."""
ENOUGH = 16
"""Steps after which a wait counts as one that never ends."""


class Mover(Protocol):
    """Who carries transfers out: moves the bytes of ``keys`` between the device and the places of a spec."""

    def store(self, job: int, keys: Sequence[bytes], spec: Any) -> None:
        """Begin a store."""

    def load(self, job: int, keys: Sequence[bytes], spec: Any) -> None:
        """Begin a load."""

    def finish(self, job: int) -> None:
        """Have a transfer end, and see what came of it."""

    def settled(self) -> None:
        """Nothing is under way any more."""


@dataclass
class ManagerJob:
    """A transfer under way."""

    number: int
    store: bool
    keys: list[bytes]
    request: Request


@dataclass
class Request:
    """A request: its blocks, how many of them were offered to be stored, and its transfers under way."""

    context: Any
    keys: list[bytes]
    offered: int = 0
    jobs: list[ManagerJob] = field(default_factory=list)


ManagerAnswer = tuple[str, Any]


class ManagerUser:
    """Uses one manager as the offloading connector would."""

    def __init__(
        self, manager: Any, parts: Parts, tell: Callable[[str], None], mover: Mover | None = None
    ) -> None:
        self.manager, self.parts, self.tell, self.mover = manager, parts, tell, mover
        self.slots: list[Request | None] = [None] * SLOTS
        self.jobs: list[ManagerJob] = []
        self.new: list[str] = []
        self.count = self.requests = 0

    def do(self, call: CallCode) -> list[ManagerAnswer]:
        """Make the calls that this one stands for; what was answered."""
        what, a, b = call
        request = self.slots[a % SLOTS]
        match KINDS[what]:
            case 0:
                if request is None:
                    self.arrive(a % SLOTS, [key(b % 3 + i) for i in range(LENGTH)])
            case 1:
                return self._store(request, 1 + b % LENGTH)
            case 2:
                for _ in range(1 + b % 3):
                    self._done(a, success=True)
            case 3:
                return self._load(request)
            case 4:
                self._finish(a % SLOTS)
            case 5:
                return [] if request is None else [self._lookup(key(b % 6 + i), request) for i in range(2)]
            case 6:
                self.step()
            case 7:
                if request is not None:
                    self.tell(f"touch({named(request.keys[: 1 + b % 3])}, {request.context.req_id})")
                    self.manager.touch(request.keys[: 1 + b % 3], request.context)
            case 8:
                self._done(a, success=False)
            case _:
                self._reset()
        return []

    def arrive(self, slot: int, keys: list[bytes]) -> Request:
        """A new request."""
        name = f"r{self.requests}"
        self.requests += 1
        context = self.parts.context(name)
        for i, k in enumerate(keys):
            context.set_offload_key_position(k, 16 * (i + 1))
        self.tell(f"on_new_request({name})")
        self.manager.on_new_request(context)
        self.new.append(name)
        made = self.slots[slot] = Request(context, keys)
        return made

    def step(self) -> None:
        """The end of a step, and what is told of it."""
        self.tell("on_schedule_end(), take_events()")
        self.manager.on_schedule_end(self.parts.step_end(tuple(self.new)))
        self.new.clear()
        list(self.manager.take_events())

    def quiet(self) -> None:
        """Every transfer ends, every request finishes."""
        while self.jobs:
            self._done(0, success=True)
        for slot in range(SLOTS):
            self._finish(slot)
        self.step()

    def offer(self, request: Request, keys: list[bytes]) -> Any:
        """Offer blocks to be stored."""
        self.tell(f"prepare_store({named(keys)}, {request.context.req_id})")
        output = self.manager.prepare_store(list(keys), request.context)
        if output is None:
            self.tell("  gives None")
        else:
            self.tell(f"  stores {named(output.keys_to_store)}, evicted {named(output.evicted_keys)}")
        if output is not None and output.keys_to_store:
            job = self._begin(True, list(output.keys_to_store), request)
            if self.mover is not None:
                self.mover.store(job.number, job.keys, output.store_spec)
        return output

    def sweep(self, request: Request, keys: Sequence[bytes]) -> list[ManagerAnswer]:
        """Look blocks up as vLLM does for a prefix: up to the first miss, and past what isn't readable yet."""
        answers: list[ManagerAnswer] = []
        for k in keys:
            answers.append(self._lookup(k, request))
            if answers[-1][1] == "MISS":
                break
        return answers

    def _lookup(self, k: bytes, request: Request) -> ManagerAnswer:
        self.tell(f"lookup({named(k)}, {request.context.req_id})")
        answer = self.manager.lookup(k, request.context).name
        self.tell(f"  gives {answer}")
        return ("lookup", answer)

    def _store(self, request: Request | None, count: int) -> list[ManagerAnswer]:
        if request is None or any(not job.store for job in request.jobs):
            return []  # vLLM stores nothing of a request that still loads
        keys = request.keys[request.offered : request.offered + count]
        if not keys:
            return []
        output = self.offer(request, keys)
        if output is None:
            return [("prepare_store", None)]
        request.offered += len(keys)
        return [("prepare_store", (tuple(output.keys_to_store), frozenset(output.evicted_keys)))]

    def _load(self, request: Request | None) -> list[ManagerAnswer]:
        if request is None or request.jobs:
            return []  # vLLM delays a request that still has transfers
        answers = self.sweep(request, request.keys)
        hits = [k for k, (_, said) in zip(request.keys, answers, strict=False) if said == "HIT"]
        if hits and not waits(answers):
            self.tell(f"prepare_load({named(hits)}, {request.context.req_id})")
            spec = self.manager.prepare_load(list(hits), request.context)
            job = self._begin(False, hits, request)
            request.offered = max(request.offered, len(hits))
            if self.mover is not None:
                self.mover.load(job.number, hits, spec)
        return answers

    def _begin(self, store: bool, keys: list[bytes], request: Request) -> ManagerJob:
        job = ManagerJob(self.count, store, keys, request)
        self.count += 1
        self.jobs.append(job)
        request.jobs.append(job)
        return job

    def _done(self, which: int, *, success: bool) -> None:
        if not self.jobs:
            return
        job = self.jobs[which % len(self.jobs)]
        if not success and (not job.store or self.mover is not None):
            return
        self.jobs.remove(job)
        if job in job.request.jobs:
            job.request.jobs.remove(job)
        if self.mover is not None:
            self.mover.finish(job.number)
        name = job.request.context.req_id
        if not job.store:
            self.tell(f"complete_load({named(job.keys)}, {name})")
            self.manager.complete_load(set(job.keys), job.request.context)
        elif success:
            self.tell(f"complete_store({named(job.keys)}, {name})")
            self.manager.complete_store(set(job.keys), job.request.context)
        else:
            self.tell(f"complete_store({named(job.keys)}, {name}, success=False)")
            self.manager.complete_store(set(job.keys), job.request.context, success=False)

    def _finish(self, slot: int) -> None:
        request = self.slots[slot]
        if request is not None:
            self.tell(f"on_request_finished({request.context.req_id})")
            self.manager.on_request_finished(request.context)
            self.slots[slot] = None

    def _reset(self) -> None:
        self.step()  # the engine takes the events of each step before anything else happens
        self.tell("reset_cache()")
        if self.mover is not None:
            for job in self.jobs:
                self.mover.finish(job.number)  # vLLM has the worker end them before anything new begins
        self.manager.reset_cache()
        self.jobs.clear()
        for request in self.slots:
            if request is not None:
                request.jobs.clear()
                request.offered = 0


def waits(answers: Sequence[ManagerAnswer]) -> bool:
    """Whether vLLM would ask again in the next step."""
    return any(said in ("RETRY", "HIT_PENDING") for _, said in answers)


def exercise_manager(
    factory: Callable[[int], Any],
    seed: int,
    examples: int,
    *,
    parts: Parts = PLAIN,
    mover: Callable[[Any, Report], Mover] | None = None,
    offers: int = 1,
    sole: bool = True,
) -> Exercised:
    """Exercise the managers that ``factory(frames)`` makes, ``examples`` sequences of calls, the same for a seed.

    ``mover`` makes the one who carries transfers out, from the manager's place in its spec and the report; ``offers``:
    how often a block is offered before it is stored (vLLM's ``store_threshold``); not ``sole``: managers of several tiers,
    which keep and move blocks by themselves.
    """
    whole = Exercised()
    for i, frames in enumerate(FRAMES):

        def world(calls: Sequence[CallCode], report: Report, frames: int = frames) -> None:
            manager = factory(frames)
            watch = watch_manager(manager, report, sole=sole)
            moving = None if mover is None else mover(manager, report)
            user = ManagerUser(manager, parts, report.told, moving)
            answers = [user.do(call) for call in calls]
            resets = [j for j, call in enumerate(calls) if KINDS[call[0]] == RESET]
            if resets and moving is None and sole:
                _compare_reset(factory, frames, parts, calls, answers, resets[-1], report, whole)
            _end(user, watch, frames, offers)

        whole.add(explore(world, len(KINDS), seed=seed + i, examples=-(-examples // len(FRAMES))))
    return whole


def _end(user: ManagerUser, watch: ManagerWatch, frames: int, offers: int) -> None:
    """Everything ends; then every wait has to be over and all of the room there."""
    user.quiet()
    watch.settled()
    if user.mover is not None:
        user.mover.settled()
    check, manager = watch.report.check, user.manager
    for first in range(3):
        request = user.arrive(0, [key(first + i) for i in range(LENGTH)])
        steps = 0
        while waits(user.sweep(request, request.keys)) and steps < ENOUGH:
            user.step()
            steps += 1
        check("manager-answer", steps < ENOUGH, "{} get no answer in {} steps", request.keys, ENOUGH)
        user.quiet()
    for _ in range(ENOUGH):
        if manager.has_pending_work():
            user.step()
    request = user.arrive(0, [key(100 + i) for i in range(frames)])
    check("manager-idle", not manager.has_pending_work(), "work is pending after {} idle steps", ENOUGH)
    stored = 0
    for _ in range(max(1, offers)):
        output = user.offer(request, request.keys)
        stored += 0 if output is None else len(output.keys_to_store)
    check(
        "manager-room",
        stored == frames,
        "nothing is under way, yet {} of {} blocks can be stored",
        stored,
        frames,
    )
    user.quiet()


def _compare_reset(
    factory: Callable[[int], Any],
    frames: int,
    parts: Parts,
    calls: Sequence[CallCode],
    answers: list[list[ManagerAnswer]],
    last: int,
    report: Report,
    whole: Exercised,
) -> None:
    """The calls after the last reset have to be answered as by a new manager, in front of which the same requests are."""
    again = ManagerUser(factory(frames), parts, Report().told)
    if [again.do(call) for call in calls] != answers:
        whole.unsteady = True
        return
    fresh = ManagerUser(factory(frames), parts, Report().told)
    for call in calls[:last]:
        if KINDS[call[0]] in (ARRIVE, FINISH):
            fresh.do(call)
    same = [fresh.do(call) for call in calls[last:]] == answers[last:]
    report.check("manager-reset-forgets", same, "after a reset it answers otherwise than a new manager does")
