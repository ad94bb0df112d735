"""An engine in its own process, with a toy worker in the engine's place: answers, death, hang, an engine that is over."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.pool.engine_pool import EngineDied
from fuzzkv.targets.vllm.pool.process import EngineProcess
from fuzzkv.targets.vllm.schedule import LiveSchedule

TOY = """
import json, os, sys, time
job, fd = json.load(open(sys.argv[1])), int(sys.argv[2])
out = os.fdopen(fd, "w")
def say(**data):
    out.write(json.dumps({"rss": 7, **data}) + "\\n"); out.flush()
mode = job["watchers"][0]
if mode == "refuse":
    say(type="error", code="FKV052", reason="no such dtype"); sys.exit(1)
say(type="ready", engine="toy 1")
empty = {"tokens": [], "margins": [], "log": [], "counters": {}, "failures": [], "steps": 3}
for line in sys.stdin:
    pool = json.loads(line)["pool"]
    if mode == "die" and pool == 9:
        print("last words", file=sys.stderr); sys.exit(5)
    if mode == "hang" and pool == 9:
        print("hanging", flush=True); time.sleep(60)
    if mode == "babble" and pool == 9:
        out.write("not json\\n"); out.flush(); continue
    say(type="history", history={**empty, "steps": os.getpid()}, over=mode == "over")
"""


def instance(tmp_path: Path, mode: str, seconds: float = 20.0, memory: int = 100) -> EngineProcess:
    toy = tmp_path / "toy.py"
    toy.write_text(TOY, encoding="utf-8")
    return EngineProcess(
        EngineConfig(),
        watchers=[mode],
        folder=tmp_path,
        run_seconds=seconds,
        memory=memory,
        command=(sys.executable, str(toy)),
    )


def test_many_schedules_one_process(tmp_path: Path) -> None:
    with instance(tmp_path, "well") as toy:
        pids = {toy.run(LiveSchedule(pool=9)).steps for _ in range(3)}
        assert len(pids) == 1 and toy.starts == 1
        assert toy.rss == 7 and toy.engine == "toy 1"


@pytest.mark.parametrize(
    ("mode", "what", "words"), [("die", "died", "last words"), ("babble", "died", "not well formed")]
)
def test_a_death_is_told_and_the_next_run_lives(tmp_path: Path, mode: str, what: str, words: str) -> None:
    with instance(tmp_path, mode) as toy:
        with pytest.raises(EngineDied, match=words) as death:
            toy.run(LiveSchedule(pool=9))
        assert death.value.what == what
        assert toy.run(LiveSchedule(pool=10)).steps and toy.starts == 2


def test_a_hang_is_told(tmp_path: Path) -> None:
    with instance(tmp_path, "hang", seconds=0.5) as toy:
        with pytest.raises(EngineDied, match="hanging") as death:
            toy.run(LiveSchedule(pool=9))
        assert death.value.what == "hung"
        assert toy.run(LiveSchedule(pool=10)).steps


def test_a_life_that_is_over_starts_anew(tmp_path: Path) -> None:
    with instance(tmp_path, "over") as toy:
        first, second = toy.run(LiveSchedule()).steps, toy.run(LiveSchedule()).steps
        assert first != second and toy.starts == 2


def test_a_life_that_has_taken_much_memory_starts_anew(tmp_path: Path) -> None:
    with instance(tmp_path, "well", memory=6) as toy:
        assert toy.run(LiveSchedule()).steps != toy.run(LiveSchedule()).steps and toy.starts == 2


def test_an_engine_that_refuses_is_an_error_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="no such dtype"):
        instance(tmp_path, "refuse")
