"""NDJSON report: one JSON object a line, one line an event, written as it happens.

Every line is complete when it is written and flushed, so a killed hunt leaves a readable file.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import IO

from fuzzkv.errors import EnvironmentFailure
from fuzzkv.events import Event


class NdjsonReport:
    """A listener that appends events to ``path`` (its folder is made). FKV081 where that can't be done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise _cannot_write(path, error) from error

    def __call__(self, event: Event) -> None:
        line = json.dumps(event.as_dict(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            raise _cannot_write(self.path, error) from error

    def close(self) -> None:
        """Close the file; more than once is allowed."""
        self._file.close()

    def __enter__(self) -> NdjsonReport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cannot_write(path: Path, error: OSError) -> EnvironmentFailure:
    return EnvironmentFailure(
        code="FKV081",
        value=path,
        reason=f"the report could not be written ({error.strerror or error})",
        cure="Free space or choose another folder with --report-dir.",
    )
