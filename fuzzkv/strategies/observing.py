"""What Hypothesis generates, as JSON lines in its own published schema: one line a schedule that a test ran."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hypothesis.internal import observability

from fuzzkv.errors import UsageError

TESTCASES: Final = "testcases.jsonl"
"""Where the lines go, within the folder."""


@contextmanager
def observed(folder: Path | None) -> Iterator[None]:
    """While it lasts, write every observation of this thread into ``folder`` (None: nowhere).

    Which lines of fuzzkv ran isn't collected, since nobody fuzzes fuzzkv.  Raises ``UsageError`` (FKV030) for a folder
    that can't be written.
    """
    if folder is None:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / TESTCASES).open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            code="FKV030",
            value=f"--observe {folder}",
            reason=f"it can't be written ({error.strerror})",
            cure="Name another folder.",
        ) from error

    def write(observation: observability.Observation) -> None:
        file.write(json.dumps(plain_data(observation), default=_told) + "\n")
        file.flush()

    collected = observability.OBSERVABILITY_COLLECT_COVERAGE
    observability.OBSERVABILITY_COLLECT_COVERAGE = False
    try:
        with file, observability.with_observability_callback(write):
            yield
    finally:
        observability.OBSERVABILITY_COLLECT_COVERAGE = collected


def plain_data(observation: observability.Observation) -> dict[str, Any]:
    """An observation by the names of the schema."""
    told = {field.name: getattr(observation, field.name) for field in dataclasses.fields(observation)}
    if "metadata" in told:
        told["metadata"] = told["metadata"].to_json()
    return told


def _told(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return repr(value)
