"""``python -m fuzzkv.targets.vllm.replay.worker JOB.json OUT.ndjson``: one engine, some arms of one job, round by round.

``JOB.json`` holds ``{"job": ..., "arms": [indices], "rounds": [[replica numbers], ...], "device": ...}``. A
round waits until ``OUT.ndjson.go`` names it (``{"round": n, "arms": [indices still wanted]}``; round -1:
stop), so two workers stay in step and what they count never depends on who was faster. Every line of
``OUT.ndjson`` is one JSON object: ``ready``, ``round``, ``done`` or ``error``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final

from fuzzkv.errors import FuzzkvError
from fuzzkv.targets.vllm.replay.bench import Bench
from fuzzkv.targets.vllm.replay.engine import ReplayEngine
from fuzzkv.targets.vllm.replay.latency import TimedArmRun
from fuzzkv.targets.vllm.replay.link import ThrottledLink
from fuzzkv.targets.vllm.replay.models import build
from fuzzkv.targets.vllm.replay.runner import ArmRun, ReplayOutcome
from fuzzkv.targets.vllm.replay.script import ReplayJob, job_from_dict

PAGES_AT_ONCE: Final = 256
"""Pages of all replicas that run side by side (1.5 MB each with SmolLM2)."""
WARM_UP: Final = 3


def main(argv: list[str]) -> int:
    """Run the worker; 0 when done, 1 after an error (which the last line of the output tells)."""
    source, target = Path(argv[0]), Path(argv[1])
    with target.open("a", encoding="utf-8") as out:
        parent = os.getppid()

        def say(kind: str, **data: Any) -> None:
            if os.getppid() != parent:
                raise SystemExit("the parent is gone")
            out.write(json.dumps({"type": kind, **data}, separators=(",", ":")) + "\n")
            out.flush()

        try:
            _work(json.loads(source.read_text(encoding="utf-8")), Path(f"{target}.go"), say)
        except FuzzkvError as e:
            say("error", **e.as_dict())
            return 1
        except BaseException as e:
            traceback.print_exc()
            say(
                "error",
                code="FKV052",
                value=type(e).__name__,
                reason=str(e)[:500],
                cure="Read the worker's log.",
            )
            return 1
        say("done")
    return 0


def _work(plan: dict[str, Any], go: Path, say: Any) -> None:
    began = time.perf_counter()
    job = job_from_dict(plan["job"])
    model = build("smollm2" if job.kind == "quality" else "tiny")
    each = sum(job.sessions().values())
    chunk = 1 if job.kind == "latency" else max(1, PAGES_AT_ONCE // each)
    gc.disable()  # a quarter of the engine's start is collecting while modules load
    engine = ReplayEngine(str(model.path), device=plan["device"], pages=chunk * each + 128)
    gc.enable()
    say(
        "ready",
        engine=engine.version,
        model=model.name,
        digest=model.digest,
        pid=os.getpid(),
        seconds=round(time.perf_counter() - began, 2),
        layout=engine.layout(),
    )
    for number, replicas in enumerate(plan["rounds"]):
        arms = _permission(go, number)
        if arms is None:
            return
        began = time.perf_counter()
        wanted = [a for a in plan["arms"] if a in arms]
        if job.kind == "latency":
            found = _timed(engine, job, wanted, replicas, say)
        else:
            found = _batched(engine, job, model.vocab, wanted, replicas, chunk, say, number)
        say(
            "round",
            round=number,
            replicas=len(replicas),
            arms=found,
            seconds=round(time.perf_counter() - began, 2),
        )


def _permission(go: Path, number: int) -> list[int] | None:
    """The arms wanted in this round, once the parent says so; None to stop (or when the parent is gone)."""
    parent = os.getppid()
    while os.getppid() == parent:
        try:
            data = json.loads(go.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            data = {"round": -2}
        if data["round"] == -1:
            return None
        if data["round"] >= number:
            return list(data["arms"])
        time.sleep(0.02)
    return None


def _batched(
    engine: ReplayEngine,
    job: ReplayJob,
    vocab: dict[str, int],
    arms: list[int],
    replicas: list[int],
    chunk: int,
    say: Any,
    number: int,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        str(a): {"right": "", "tie": "", "nll": [], "context": [], "tokens": [], "counters": {}} for a in arms
    }
    for start in range(0, len(replicas), chunk):
        bench = Bench(engine, job, vocab, replicas[start : start + chunk])
        for a in arms:
            _add(found[str(a)], ArmRun(bench, job.arms[a], job.kind).run())
            say(
                "progress",
                round=number,
                arm=a,
                done=min(start + chunk, len(replicas)),
                right=found[str(a)]["right"].count("1"),
            )
        bench.close()
    return found


def _add(total: dict[str, Any], outcome: ReplayOutcome) -> None:
    for key in sorted(outcome.right):
        total["right"] += "".join("01"[x] for x in outcome.right[key])
        total["tie"] += "".join("01"[x] for x in outcome.tie[key])
        total["context"] += outcome.context[key]
        total["nll"] += [round(x * 1e6) for x in outcome.nll[key]]
    for label, rows in outcome.tokens:
        total["tokens"] += [
            [label, [[t, round(min(gap, 99.0) * 1e6) if gap == gap else -1] for t, gap in row]]
            for row in rows
        ]
    for name, n in outcome.counters.items():
        total["counters"][name] = total["counters"].get(name, 0) + n


def _timed(
    engine: ReplayEngine, job: ReplayJob, arms: list[int], replicas: list[int], say: Any
) -> dict[str, Any]:
    """Arms take turns replica by replica, in a rotating order, so noise of the machine hits all alike."""
    found: dict[str, Any] = {str(a): {"us": [], "counters": {}} for a in arms}
    link = ThrottledLink(job.tick_us / 1e6)
    for i, replica in enumerate([*replicas[:1] * WARM_UP, *replicas]):
        bench = Bench(engine, job, {}, [replica])
        for slot in bench.contexts:
            bench.arrive(slot)
        for turn in range(len(arms)):
            a = arms[(turn + i) % len(arms)]
            run = TimedArmRun(bench, job.arms[a], link)
            outcome = run.run()
            link.drain()
            if i >= WARM_UP:
                found[str(a)]["us"].append(run.latencies)
                for name, n in outcome.counters.items():
                    found[str(a)]["counters"][name] = found[str(a)]["counters"].get(name, 0) + n
        bench.close()
        if i % 10 == 9:
            for a in arms:
                say("progress", round=0, arm=a, done=max(0, i + 1 - WARM_UP), right=-1)
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
