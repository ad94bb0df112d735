"""``python -m fuzzkv.targets.vllm.engine.worker JOB.json FD``: one engine. Reads schedules from standard input,
one JSON line each, and answers each with one JSON line on file descriptor ``FD``; ends when its input
does.

``JOB.json`` holds ``{"config": ..., "watchers": ["module:factory", ...], "checks": bool}``; a factory is
called with the engine and gives a :class:`~fuzzkv.targets.vllm.engine.driver.Watcher`. Answers: ``ready`` or
``error`` once, then ``history`` for each schedule, with the memory of the process (``rss``, MiB) and whether
the engine is ``over``.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from fuzzkv.errors import FuzzkvError
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.engine.driver import Driver
from fuzzkv.targets.vllm.engine.internals import LiveEngine
from fuzzkv.targets.vllm.schedule import schedule_from_json


def main(argv: list[str]) -> int:
    """Run the engine; 0 when its input ended, 1 after an error (which the last line tells)."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    with os.fdopen(int(argv[1]), "w", encoding="utf-8") as out:

        def say(kind: str, **data: Any) -> None:
            out.write(json.dumps({"type": kind, "rss": _rss(), **data}, separators=(",", ":")) + "\n")
            out.flush()

        try:
            _live(json.loads(Path(argv[0]).read_text(encoding="utf-8")), say)
        except FuzzkvError as error:
            say("error", **error.as_dict())
            return 1
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"[:1000]
            say("error", code="FKV052", value="an engine", reason=reason, cure="Read the worker's log.")
            return 1
    return 0


def _live(job: dict[str, Any], say: Any) -> None:
    began = time.perf_counter()
    engine = LiveEngine(EngineConfig.from_json(job["config"]))
    watchers = [_named(name)(engine) for name in job.get("watchers", ())]
    driver = Driver(engine, watchers, checks=bool(job.get("checks", True)))
    say("ready", engine=engine.version, pid=os.getpid(), seconds=round(time.perf_counter() - began, 2))
    for line in sys.stdin:
        began = time.perf_counter()
        history = driver.run(schedule_from_json(json.loads(line)))
        seconds = round(time.perf_counter() - began, 4)
        say("history", history=history.as_json(), over=driver.over, seconds=seconds)
        if driver.over:
            return


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _rss() -> int:
    """Most memory that this process ever had, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (
        1 << 20 if sys.platform == "darwin" else 1024
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
