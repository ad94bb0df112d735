"""A worker process as its parent sees it: spawned with the engine's environment, read line by line, killed
when it hangs."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fuzzkv.core.childproc import Child
from fuzzkv.core.files import atomic_write
from fuzzkv.core.interpreter import HERE
from fuzzkv.core.scratch import Scratch
from fuzzkv.targets.vllm.replay.engine import environment


class WorkerFailed(Exception):
    """A worker died, hung or reported an error. ``final``: another try would end the same way."""

    def __init__(self, reason: str, log: Path, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.log, self.final = reason, log, final


class Worker:
    """One worker. ``folder`` gets its job, its output and its log, named after ``name``."""

    def __init__(self, name: str, plan: dict[str, Any], folder: Path, command: Sequence[str] | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.out, self.log = name, folder / f"{name}.ndjson", folder / f"{name}.log"
        self.go = folder / f"{name}.ndjson.go"
        job = folder / f"{name}.job.json"
        for stale in (self.out, self.go, self.log):
            stale.unlink(missing_ok=True)
        atomic_write(job, json.dumps(plan).encode())
        self._scratch = Scratch()
        self._child = Child(
            [*(command or HERE.command("fuzzkv.targets.vllm.replay.worker")), str(job), str(self.out)],
            environment=HERE.environment(environment(), self._scratch),
            log=self.log,
        )
        self._read = 0
        self._rest = b""

    def allow(self, number: int, arms: Sequence[int]) -> None:
        """Let the worker run round ``number`` (-1: stop) with these arms."""
        atomic_write(self.go, json.dumps({"round": number, "arms": list(arms)}).encode())

    def news(self) -> list[dict[str, Any]]:
        """The records written since the last call. Raises WorkerFailed for an error record or a dead
        worker."""
        code = self._child.status
        records = self._records()
        for record in records:
            if record.get("type") == "error":
                said = f"{record.get('code')}: {record.get('value')}: {record.get('reason')}"
                raise WorkerFailed(f"{self.name}: {said}", self.log, final=record.get("code") != "FKV052")
        if code is not None and not any(r.get("type") == "done" for r in records):
            raise WorkerFailed(f"{self.name}: the worker ended with exit status {code}", self.log)
        return records

    def _records(self) -> list[dict[str, Any]]:
        try:
            with self.out.open("rb") as f:
                f.seek(self._read)
                data = f.read()
        except OSError:
            return []
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            return [json.loads(line) for line in lines if line]
        except ValueError as e:
            raise WorkerFailed(f"{self.name}: FKV058: its reply is not well formed ({e})", self.log) from e

    def stop(self, patience: float = 5.0) -> None:
        """Ask it to stop, wait a little, then kill its whole process group."""
        if self._child.status is None:
            with contextlib.suppress(Exception):
                self.allow(-1, [])
            end = time.monotonic() + patience
            while self._child.status is None and time.monotonic() < end:
                time.sleep(0.02)
        self._child.kill()
        self._scratch.remove()
