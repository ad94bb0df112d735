"""The listeners of one command, opened and closed together, with the summary on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from fuzzkv import events as ev
from fuzzkv.errors import EXIT_INTERRUPTED, FuzzkvError
from fuzzkv.report.console import ConsoleReport, make_console
from fuzzkv.report.ndjson import NdjsonReport


class ReportSession:
    """Console and, with ``report_dir``, ``events.ndjson``. Give :attr:`listeners` to the hunt. ``verbosity`` as of
    :class:`~fuzzkv.report.console.ConsoleReport`.

    It also counts what went by, so that a run that was cut short still ends with ``HuntFinished``.
    """

    def __init__(
        self, *, no_color: bool, report_dir: Path | None, names: Mapping[str, str], verbosity: int = 0
    ) -> None:
        self.ndjson = NdjsonReport(report_dir / "events.ndjson") if report_dir is not None else None
        self.console = ConsoleReport(make_console(no_color=no_color), names=names, verbosity=verbosity)
        reports: list[ev.Listener] = [self.console] if self.ndjson is None else [self.ndjson, self.console]
        self.listeners: tuple[ev.Listener, ...] = (self._count, *reports)
        self._started = time.monotonic()
        self._schedules = 0
        self._classes = 0
        self._confirmed: set[str] = set()
        self._filed: set[str] = set()
        self._finished = False

    def interrupted(self) -> None:
        """Say what was found so far, unless the hunt said it already."""
        self._end("interrupted", EXIT_INTERRUPTED)

    def failed(self, error: FuzzkvError) -> None:
        """Say what was found before the error, where a hunt had begun."""
        if self._schedules or self._filed:
            self._end("failed", error.exit_code)

    def line(self, text: str) -> None:
        """Print one line."""
        self.console.console.print(text, markup=False, soft_wrap=True)

    def __enter__(self) -> ReportSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.console.close()
        if self.ndjson is not None:
            self.ndjson.close()

    def _end(self, outcome: ev.Outcome, exit_code: int) -> None:
        if not self._finished:
            finished = ev.HuntFinished(
                outcome=outcome,
                exit_code=exit_code,
                seconds=time.monotonic() - self._started,
                schedules=self._schedules,
                classes=max(self._classes, len(self._filed)),
                confirmed=len(self._confirmed),
                unconfirmed=tuple(sorted(self._filed - self._confirmed)),
            )
            ev.emit(self.listeners, finished)

    def _count(self, event: ev.Event) -> None:
        if isinstance(event, ev.Progress) and event.phase == "search":
            self._schedules, self._classes = event.done, event.classes
        elif isinstance(event, ev.CaseFiled):
            self._filed.add(event.case_id)
        elif isinstance(event, ev.CaseWithdrawn):
            self._filed.discard(event.case_id)
        elif isinstance(event, ev.Confirmed) and event.verdict == "confirmed":
            self._confirmed.add(event.case_id)
        elif isinstance(event, ev.HuntFinished):
            self._finished = True
