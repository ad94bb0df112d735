"""Reports that are written once, at the end of a gate: JUnit and JSON, each atomically."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fuzzkv.core.canonical import file_bytes
from fuzzkv.core.files import atomic_write
from fuzzkv.errors import EnvironmentFailure, FuzzkvError
from fuzzkv.events import Event, GateFinished, plain

Render = Callable[[Mapping[str, Any]], bytes]


class WrittenReport:
    """A listener that writes the report of a gate to ``path``; an old file there stays until the new one is whole.

    Its folder is made at once, so that a run of minutes isn't lost to a wrong path. FKV081 where that, or the
    writing, can't be done.
    """

    def __init__(self, path: Path, render: Render) -> None:
        self.path, self.render = path, render
        if path.is_dir():
            raise self._failure("it is a folder")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failure(error.strerror or str(error)) from error

    def __call__(self, event: Event) -> None:
        if isinstance(event, GateFinished):
            try:
                atomic_write(self.path, self.render(event.report))
            except FuzzkvError as error:
                raise self._failure(error.reason) from error

    def _failure(self, why: str) -> EnvironmentFailure:
        return EnvironmentFailure(
            code="FKV081",
            value=self.path,
            reason=f"the report could not be written ({why})",
            cure="Free space or choose another file with --report.",
        )


def json_bytes(report: Mapping[str, Any]) -> bytes:
    """The report as JSON: sorted keys, numbers with a fraction as decimal strings."""
    return file_bytes(plain(report))
