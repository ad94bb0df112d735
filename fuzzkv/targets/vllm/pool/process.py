"""An engine in a process of its own: started, asked schedule by schedule, killed when it hangs. Its hang or death is a result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fuzzkv.core.childproc import Child, ChildDied, ChildHung
from fuzzkv.core.files import atomic_write
from fuzzkv.core.interpreter import HERE, Interpreter
from fuzzkv.core.scratch import Scratch
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.engine.internals import environment
from fuzzkv.targets.vllm.history import LiveHistory, history_from_json
from fuzzkv.targets.vllm.pool.engine_pool import EngineDied
from fuzzkv.targets.vllm.schedule import LiveSchedule

START_SECONDS: Final = 240.0
RUN_SECONDS: Final = 120.0
MEMORY: Final = 2048
"""MiB. An engine with the tiny model was seen to grow from 0.7 to 1.1 GB over its first 750 schedules, more slowly with time;
the same schedules over again add nothing, so it is what the engine keeps for sizes that it hasn't met before."""


class EngineProcess:
    """One engine. ``watchers`` are ``module:factory`` names of oracles that look on inside; ``folder`` gets job and log (by default one
    that is removed at the end, unless the engine refused); ``interpreter`` runs it; ``command`` replaces the worker: a fork server's
    stand-in, or a toy.

    An engine that said that its engine can't be trusted any more, or that has taken more than ``memory`` MiB, is started anew at the
    next run. :attr:`rss` is the most memory that
    its process had so far (MiB), :attr:`starts` how many processes there were. Raises FKV052 when the engine can't start.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        watchers: Sequence[str] = (),
        checks: bool = True,
        folder: Path | None = None,
        start_seconds: float = START_SECONDS,
        run_seconds: float = RUN_SECONDS,
        memory: int = MEMORY,
        interpreter: Interpreter = HERE,
        command: Sequence[str] | None = None,
    ) -> None:
        self.config, self.run_seconds, self.start_seconds, self.memory = (
            config,
            run_seconds,
            start_seconds,
            memory,
        )
        self._scratch = Scratch()
        self.folder = folder or self._scratch.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "engine.log"
        self.rss = self.starts = 0
        self.engine = ""
        self._job = self.folder / "engine.job.json"
        job = {"config": config.as_json(), "watchers": list(watchers), "checks": checks}
        atomic_write(self._job, json.dumps(job).encode())
        self._command = list(command or interpreter.command("fuzzkv.targets.vllm.engine.worker"))
        self._environment = interpreter.environment(environment(), self._scratch)
        self._child: Child | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        """Run one schedule from a reset engine. Raises ``EngineDied`` (``died``, ``hung``); the next run starts another process."""
        if self._child is None:
            self._start()
        assert self._child is not None
        self._child.send(json.dumps(schedule.as_json(), separators=(",", ":")).encode())
        answer = self._answer(self.run_seconds)
        if answer["type"] != "history":
            text = f"{answer.get('code')}: {answer.get('reason')}"
            self._end()
            raise EngineDied("died", text)
        try:
            history = history_from_json(answer["history"])
        except (KeyError, TypeError, ValueError) as error:
            self._end()
            raise EngineDied("died", f"its answer is no history ({error})") from error
        if answer.get("over") or int(answer.get("rss", 0)) > self.memory:
            self._end()
        return history

    def close(self) -> None:
        """End the process, without asking, and remove what it has left in the temporary folder."""
        self._end()
        self._scratch.remove()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._child = Child(
            [*self._command, str(self._job)],
            environment=self._environment,
            log=self.log,
            stdin=True,
            answers="descriptor",
        )
        self.starts += 1
        try:
            answer = self._answer(self.start_seconds)
        except EngineDied as death:
            raise self._refused(f"it {death.what} while it started: {death.text}") from death
        if answer["type"] != "ready":
            raise self._refused(str(answer.get("reason")), str(answer.get("code", "FKV052")))
        self.engine = str(answer.get("engine", ""))

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next line, or :class:`EngineDied` and a dead process."""
        assert self._child is not None
        try:
            line = self._child.line(seconds)
        except (ChildDied, ChildHung) as error:
            self._child = None
            what = "hung" if isinstance(error, ChildHung) else "died"
            raise EngineDied(what, str(error)) from error
        try:
            answer = json.loads(line)
            self.rss = max(self.rss, int(answer.get("rss", 0)))
            kind = answer["type"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._end()
            raise EngineDied("died", f"its answer is not well formed ({error})") from error
        return {**answer, "type": kind}

    def _refused(self, reason: str, code: str = "FKV052") -> EnvironmentFailure:
        self._end()
        log = self._scratch.leave(self.log) if self.folder == self._scratch.folder else self.log
        return EnvironmentFailure(
            code=code,
            value="a live engine",
            reason=reason,
            cure=f"Read {log}, or leave out a policy that this build lacks.",
        )
