"""Confirms a case on a real engine: spawns the workers, keeps them in step, judges, and never raises for a
dead worker.

Quality and exact replays use two processes, so that no control ever shares an engine with the set. In a
latency replay each of two processes runs half of the replicas with all arms taking turns replica by replica:
arms in processes of their own would differ in memory layout, warm caches and scheduling, which is the noise
that must be shared; that nothing leaks between arms is what the exact kind shows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fuzzkv.oracles.thresholds import Thresholds
from fuzzkv.targets.vllm.replay.confirmation import Confirmation, ReplayProgress
from fuzzkv.targets.vllm.replay.engine import require
from fuzzkv.targets.vllm.replay.process import Worker, WorkerFailed
from fuzzkv.targets.vllm.replay.script import ReplayJob, validate
from fuzzkv.targets.vllm.replay.task import SENTENCES

if TYPE_CHECKING:
    from fuzzkv.targets.vllm.replay.judge import ReplayJudgement

QUESTIONS: Final = 1080
"""Paired questions (at least) of a quality replay that uses every look. Looks grow (1 : 2 : 3 ...), so a
large effect is decided early; the union bound that shares out alpha holds for any spacing.
"""
MIN_REPLICAS: Final = 15
EXACT_REPLICAS: Final = 12
TRIES: Final = 2
SILENCE_S: Final = 120.0
"""A worker that says nothing for so long (start-up, or the work between two progress lines) hangs."""


def plan_rounds(job: ReplayJob, thresholds: Thresholds, questions: int = QUESTIONS) -> list[list[int]]:
    """Replica numbers of every planned look."""
    if job.kind == "quality":
        each = sum(SENTENCES - (p == 0) for _, _, p in job.audited())
        whole = thresholds.looks * (thresholds.looks + 1) / 2
        sizes = [
            max(MIN_REPLICAS, math.ceil(questions / each * (look + 1) / whole))
            for look in range(thresholds.looks)
        ]
    else:
        sizes = [EXACT_REPLICAS if job.kind == "exact" else thresholds.min_requests]
    ends = list(accumulate(sizes))
    return [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def confirm(
    job: ReplayJob,
    *,
    thresholds: Thresholds,
    log_dir: Path,
    on_event: Callable[[ReplayProgress], None] = lambda _: None,
    device: str = "cpu",
    timeout_s: float = 300.0,
    questions: int = QUESTIONS,
    command: Sequence[str] | None = None,
) -> Confirmation:
    """Replay ``job`` on a real worker and judge it.

    ``thresholds`` were registered before the run. ``log_dir`` gets jobs, raw outputs and logs. ``on_event``
    receives raw counts while the replay runs. ``timeout_s`` limits each of two tries; a worker that is
    silent for two minutes is killed before. ``questions`` is the least number of paired questions of all
    looks together (quality). ``command`` replaces the worker (for tests).

    A worker that hangs or dies twice gives the verdict ``worker-failed``, with the path of its log. Raises
    FKV057 (bad job), FKV050 and FKV051 (engine).
    """
    validate(job)
    engine = require(device) if command is None else "stub 0"
    began = time.monotonic()
    rounds = plan_rounds(job, thresholds, questions)
    failure: WorkerFailed | None = None
    run = _ConfirmTry(job, thresholds, rounds, on_event)
    for attempt in range(1, TRIES + 1):
        run = _ConfirmTry(job, thresholds, rounds, on_event)
        try:
            run.start(log_dir, attempt, device, command)
            run.drive(time.monotonic() + timeout_s)
            failure = None
        except WorkerFailed as e:
            failure = e
        finally:
            run.stop()
        if failure is None or failure.final:
            break
    judged = run.judgement if failure is None else None
    return Confirmation(
        case_id=job.case_id,
        kind=job.kind,
        verdict="worker-failed" if judged is None or judged.verdict is None else judged.verdict,
        reason=failure.reason if judged is None and failure else judged.reason if judged else "",
        engine=run.ready.get("engine", engine),
        model=run.ready.get("model", ""),
        model_digest=run.ready.get("digest", ""),
        device=device,
        seed=job.seed,
        replicas=run.replicas,
        looks_used=run.looks_used,
        looks_planned=len(rounds),
        thresholds=thresholds.digest,
        arms=() if judged is None else judged.arms,
        values={} if judged is None else judged.values,
        seconds=f"{time.monotonic() - began:.1f}",
        log=str(failure.log if failure else log_dir),
    )


class _ConfirmTry:
    """One try: its workers, kept in step, and what they have counted so far."""

    def __init__(
        self,
        job: ReplayJob,
        thresholds: Thresholds,
        rounds: list[list[int]],
        on_event: Callable[[ReplayProgress], None],
    ) -> None:
        self.job, self.thresholds, self.rounds, self.on_event = job, thresholds, rounds, on_event
        self.workers: list[Worker] = []
        self.ready: dict[str, Any] = {}
        self.judgement: ReplayJudgement | None = None
        self.looks_used = self.replicas = 0

    def start(self, folder: Path, attempt: int, device: str, command: Sequence[str] | None) -> None:
        """Spawn the workers."""
        last = len(self.job.arms) - 1
        teams = [("controls", [*range(last)], self.rounds), ("set", [last], self.rounds)]
        if self.job.kind == "latency":
            every = [*range(last + 1)]
            halves = [[replicas[start::2] for replicas in self.rounds] for start in (0, 1)]
            teams = [("first-half", every, halves[0]), ("second-half", every, halves[1])]
        for name, arms, rounds in teams:
            plan = {"job": self.job.as_dict(), "arms": arms, "rounds": rounds, "device": device}
            self.workers.append(Worker(f"{name}-{attempt}", plan, folder, command))

    def stop(self) -> None:
        """Let the workers end by themselves after a verdict; otherwise kill them at once."""
        decided = self.judgement is not None and self.judgement.verdict is not None
        for worker in self.workers:
            worker.stop(patience=5.0 if decided else 0.0)

    def drive(self, deadline: float) -> None:
        """Round by round until a verdict."""
        from fuzzkv.targets.vllm.replay.judge import QualityJudge, judge_exact, judge_latency

        quality = QualityJudge(self.job, self.thresholds) if self.job.kind == "quality" else None
        wanted: Sequence[int] = range(len(self.job.arms))
        for number, replicas in enumerate(self.rounds):
            for worker in self.workers:
                worker.allow(number, wanted)
            found = self._collect(number, len(replicas), deadline)
            self.looks_used, self.replicas = number + 1, self.replicas + len(replicas)
            if quality is not None:
                self.judgement = quality.add(found)
            elif self.job.kind == "exact":
                self.judgement = judge_exact(self.job, found)
            else:
                self.judgement = judge_latency(self.job, self.thresholds, found)
            if self.judgement.verdict is not None:
                return
            wanted = self.judgement.open_arms

    def _collect(self, number: int, total: int, deadline: float) -> Mapping[str, Any]:
        """One round's records of all workers, passing progress on."""
        found: dict[str, Any] = {}
        heard = {worker: time.monotonic() for worker in self.workers}
        while heard:
            for worker in list(heard):
                for record in worker.news():
                    heard[worker] = time.monotonic()
                    if record["type"] == "ready":
                        self.ready = record
                    elif record["type"] == "progress":
                        self._tell(record, number + 1, total)
                    elif record["type"] == "round" and record["round"] == number:
                        _merge(found, record["arms"])
                        del heard[worker]
                        break
            for worker, since in heard.items():
                if time.monotonic() > min(deadline, since + SILENCE_S):
                    said = f"{worker.name}: FKV053: the worker did not answer in time and was killed"
                    raise WorkerFailed(said, worker.log)
            if heard:
                time.sleep(0.05)
        return found

    def _tell(self, record: Mapping[str, Any], look: int, total: int) -> None:
        arm = self.job.arms[record["arm"]].policies
        done, right, looks = record["done"], record["right"], len(self.rounds)
        self.on_event(ReplayProgress(self.job.case_id, arm, done, total, right, look, looks))


def _merge(found: dict[str, Any], arms: Mapping[str, Any]) -> None:
    """Add one worker's arms; of two halves of one arm the latencies follow each other and the counters add up."""
    for arm, record in arms.items():
        if arm not in found:
            found[arm] = record
            continue
        found[arm]["us"] += record["us"]
        for name, n in record["counters"].items():
            found[arm]["counters"][name] = found[arm]["counters"].get(name, 0) + n
