"""A life in a process of its own: started, asked schedule by schedule, killed when it hangs. Its hang or death is a result."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import fuzzkv
from fuzzkv.core.files import atomic_write
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import LiveHistory, history_from_json
from fuzzkv.targets.vllm.pool.engine_pool import LifeDied
from fuzzkv.targets.vllm.schedule import LiveSchedule

START_SECONDS: Final = 240.0
RUN_SECONDS: Final = 120.0
MEMORY: Final = 2048
"""MiB. A life with the tiny model was seen to grow from 0.7 to 1.1 GB over its first 750 schedules, more slowly with time;
the same schedules over again add nothing, so it is what the engine keeps for sizes that it hasn't met before."""
LAST_WORDS: Final = 2000
"""Bytes of the log's end that go into a death's text."""


class ProcessLife:
    """One life. ``watchers`` are ``module:factory`` names of oracles that look on inside; ``folder`` gets job and log; ``command``
    replaces the worker (for tests).

    A life that said that its engine can't be trusted any more, or that has taken more than ``memory`` MiB, is started anew at the
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
        command: Sequence[str] | None = None,
    ) -> None:
        self.config, self.run_seconds, self.start_seconds, self.memory = (
            config,
            run_seconds,
            start_seconds,
            memory,
        )
        self.folder = folder or Path(mkdtemp(prefix="fuzzkv-life-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "life.log"
        self.rss = self.starts = 0
        self.engine = ""
        self._job = self.folder / "life.job.json"
        job = {"config": config.as_json(), "watchers": list(watchers), "checks": checks}
        atomic_write(self._job, json.dumps(job).encode())
        self._command = list(command or (sys.executable, "-m", "fuzzkv.targets.vllm.engine.worker"))
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._rest = b""
        self._start()

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        """Run one schedule from a reset engine. Raises ``LifeDied`` (``died``, ``hung``); the next run starts another process."""
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        line = json.dumps(schedule.as_json(), separators=(",", ":")).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):  # its death is told by the missing answer
            self._process.stdin.write(line)
            self._process.stdin.flush()
        answer = self._answer(self.run_seconds)
        if answer["type"] != "history":
            text = f"{answer.get('code')}: {answer.get('reason')}"
            self.close()
            raise LifeDied("died", text)
        try:
            history = history_from_json(answer["history"])
        except (KeyError, TypeError, ValueError) as error:
            self.close()
            raise LifeDied("died", f"its answer is no history ({error})") from error
        if answer.get("over") or int(answer.get("rss", 0)) > self.memory:
            self.close()
        return history

    def close(self) -> None:
        """End the process, without asking."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with contextlib.suppress(OSError):
            os.close(self._answers)

    def __enter__(self) -> ProcessLife:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        from fuzzkv.targets.vllm.engine.internals import environment

        root = str(Path(fuzzkv.__file__).parents[1])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        self._answers, theirs = os.pipe()
        self._rest = b""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, str(self._job), str(theirs)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(theirs,),
                env={**os.environ, **environment(), "PYTHONPATH": path},
            )
        os.close(theirs)
        self.starts += 1
        try:
            answer = self._answer(self.start_seconds)
        except LifeDied as death:
            raise _refused(f"it {death.what} while it started: {death.text}", self.log) from death
        if answer["type"] != "ready":
            self.close()
            raise _refused(str(answer.get("reason")), self.log, str(answer.get("code", "FKV052")))
        self.engine = str(answer.get("engine", ""))

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next line, or :class:`LifeDied` and a dead process."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, end - time.monotonic())):
                    self._say_where()
                    text = f"no answer in {seconds:g} s: {self._last_words()}"
                    self.close()
                    raise LifeDied("hung", text)
                data = os.read(self._answers, 1 << 20)
                if not data:
                    code = self._process.wait() if self._process else None
                    text = f"the process ended with status {code}: {self._last_words()}"
                    self.close()
                    raise LifeDied("died", text)
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
            self.rss = max(self.rss, int(answer.get("rss", 0)))
            kind = answer["type"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.close()
            raise LifeDied("died", f"its answer is not well formed ({error})") from error
        return {**answer, "type": kind}

    def _say_where(self) -> None:
        """Let a process that hangs write into its log where it is."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGUSR1)
            time.sleep(0.3)

    def _last_words(self) -> str:
        try:
            data = self.log.read_bytes()[-LAST_WORDS:]
        except OSError:
            return ""
        lines = [
            s
            for s in data.decode(errors="replace").splitlines()
            if s.strip() and "nanobind" not in s and " - leaked" not in s
        ]
        return " | ".join(lines[-12:])


def start(config: EngineConfig) -> ProcessLife:
    """A life of this configuration. Raises ``EnvironmentFailure``: FKV052 and what the engine said."""
    return ProcessLife(config)


def _refused(reason: str, log: Path, code: str = "FKV052") -> EnvironmentFailure:
    return EnvironmentFailure(
        code=code,
        value="a live engine",
        reason=reason,
        cure=f"Read {log}, or leave out a policy that this build lacks.",
    )
