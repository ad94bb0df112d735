"""Confirms a case on a real engine: spawns the workers, keeps them in step, judges, and never raises for a
dead worker.

Quality and exact replays use two processes, so that no control ever shares an engine with the set. A
latency replay uses one, with the arms taking turns replica by replica: two processes would differ in memory
layout, warm caches and scheduling, which is the noise that must be shared; that nothing leaks between arms
is what the exact kind shows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fuzzkv.events import ConfirmProgress, Event
from fuzzkv.oracles.thresholds import Thresholds
from fuzzkv.replay.confirmation import Confirmation
from fuzzkv.replay.engine import require
from fuzzkv.replay.process import Worker, WorkerFailed
from fuzzkv.replay.script import Job, validate
from fuzzkv.replay.task import SENTENCES

QUESTIONS_PER_LOOK: Final = 240
MIN_REPLICAS, MAX_REPLICAS = 8, 96
EXACT_REPLICAS: Final = 12
TRIES: Final = 2


@dataclass
class _Run:
    """What one try has got so far."""

    looks: int
    judgement: Any = None
    looks_used: int = 0
    replicas: int = 0
    ready: dict[str, Any] = field(default_factory=dict)


def plan_rounds(job: Job, thresholds: Thresholds, questions: int = QUESTIONS_PER_LOOK) -> list[list[int]]:
    """Replica numbers of every planned look."""
    if job.kind == "quality":
        each = sum(SENTENCES - (p == 0) for _, p in job.endpoints())
        size, looks = max(MIN_REPLICAS, min(MAX_REPLICAS, math.ceil(questions / each))), thresholds.looks
    else:
        size, looks = (EXACT_REPLICAS if job.kind == "exact" else thresholds.min_requests), 1
    return [list(range(look * size, (look + 1) * size)) for look in range(looks)]


def confirm(
    job: Job,
    *,
    thresholds: Thresholds,
    log_dir: Path,
    on_event: Callable[[Event], None] = lambda _: None,
    device: str = "cpu",
    timeout_s: float = 300.0,
    questions: int = QUESTIONS_PER_LOOK,
    command: Sequence[str] | None = None,
) -> Confirmation:
    """Replay ``job`` on a real worker and judge it.

    ``thresholds`` were registered before the run. ``log_dir`` gets jobs, raw outputs and logs. ``on_event``
    receives :class:`fuzzkv.events.ConfirmProgress`. ``timeout_s`` limits each of two tries. ``questions``
    is the least number of paired questions a look adds (quality). ``command`` replaces the worker (for
    tests).

    A worker that hangs or dies twice gives the verdict ``worker-failed``. Raises FKV057 (bad job), FKV050
    and FKV051 (engine).
    """
    validate(job)
    engine = require(device) if command is None else "stub 0"
    began = time.monotonic()
    rounds = plan_rounds(job, thresholds, questions)
    last = len(job.arms) - 1
    teams = (
        {"all": [*range(last + 1)]} if job.kind == "latency" else {"controls": [*range(last)], "set": [last]}
    )
    failure: WorkerFailed | None = None
    run = _Run(len(rounds))
    for attempt in range(1, TRIES + 1):
        run = _Run(len(rounds))
        workers = []
        try:
            for name, arms in teams.items():
                plan = {"job": job.as_dict(), "arms": arms, "rounds": rounds, "device": device}
                workers.append(Worker(f"{name}-{attempt}", plan, log_dir, command))
            _drive(job, thresholds, rounds, workers, run, on_event, time.monotonic() + timeout_s)
            failure = None
        except WorkerFailed as e:
            failure = e
        finally:
            for worker in workers:
                worker.stop(patience=0.0 if failure else 5.0)
        if failure is None or failure.final:
            break
    judged = run.judgement
    return Confirmation(
        case_id=job.case_id,
        kind=job.kind,
        verdict="worker-failed" if failure or judged is None else judged.verdict,
        reason=failure.reason if failure else judged.reason,
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


def _drive(
    job: Job,
    thresholds: Thresholds,
    rounds: list[list[int]],
    workers: list[Worker],
    run: _Run,
    on_event: Callable[[Event], None],
    deadline: float,
) -> None:
    from fuzzkv.replay.judge import QualityJudge, judge_exact, judge_latency

    judge = QualityJudge(job, thresholds) if job.kind == "quality" else None
    wanted: Sequence[int] = range(len(job.arms))
    for number, replicas in enumerate(rounds):
        for worker in workers:
            worker.allow(number, wanted)
        found = _collect(job, workers, number, len(replicas), run, on_event, deadline)
        run.looks_used, run.replicas = number + 1, run.replicas + len(replicas)
        if judge is not None:
            run.judgement = judge.add(found)
        elif job.kind == "exact":
            run.judgement = judge_exact(job, found)
        else:
            run.judgement = judge_latency(job, thresholds, found)
        if run.judgement.verdict is not None:
            return
        wanted = run.judgement.open_arms


def _collect(
    job: Job,
    workers: list[Worker],
    number: int,
    total: int,
    run: _Run,
    on_event: Callable[[Event], None],
    deadline: float,
) -> Mapping[str, Any]:
    """One round's records of all workers, passing progress on."""
    found: dict[str, Any] = {}
    waiting = set(workers)
    while waiting:
        for worker in list(waiting):
            for record in worker.news():
                if record["type"] == "ready":
                    run.ready = record
                elif record["type"] == "round" and record["round"] == number:
                    found.update(record["arms"])
                    waiting.discard(worker)
                elif record["type"] == "progress":
                    arm = job.arms[record["arm"]].policies
                    on_event(
                        ConfirmProgress(
                            job.case_id, arm, record["done"], total, record["right"], number + 1, run.looks
                        )
                    )
        if time.monotonic() > deadline:
            worker = next(iter(waiting), workers[0])
            raise WorkerFailed(
                f"{worker.name}: FKV053: the worker did not finish in time and was killed", worker.log
            )
        if waiting:
            time.sleep(0.05)
    return found
