"""The console report: live progress on a terminal, a few plain lines anywhere else, and a summary at the end.

On a terminal one small block is redrawn in place, and what stays (conflicts, confirmations, warnings)
scrolls above it. Without a terminal every lasting fact is one line, and progress at most one line every few
seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fuzzkv import events as ev
from fuzzkv.core.glossary import counted
from fuzzkv.report.gate import gate_page
from fuzzkv.report.summary import policy_text, summary

PHASES: Final = ("accept", "solver", "search", "shrink", "confirm", "file")
GATE_PHASES: Final = ("accept", "replay", "search", "shrink")
PHASE_TEXT: Final = {
    "accept": "accepting each policy alone",
    "replay": "replaying the corpus",
    "solver": "asking the solver",
    "search": "searching for conflicts",
    "shrink": "shrinking",
    "confirm": "confirming on a real engine",
    "file": "filing",
}


class _Console(Console):
    """A console whose reader may go away (``| head``): the rest is unsaid, and the command keeps its own exit code."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def make_console(*, no_color: bool = False, stderr: bool = False) -> Console:
    """A console that obeys ``--no-color`` and NO_COLOR; files and pipes get 100 columns where none are
    known.
    """
    off = no_color or bool(os.environ.get("NO_COLOR"))
    console = _Console(stderr=stderr, no_color=off or None, highlight=False, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 100
    return console


class ConsoleReport:
    """A listener that shows a hunt to a person.

    Parameters: ``names`` maps invariant ids to names; ``live`` forces or forbids the redrawn block
    (default: on a terminal); ``every`` is the least time in seconds between two plain progress lines;
    ``clock`` is for tests; ``verbosity`` -1 shows warnings and the end only, 1 every step of the progress.
    """

    def __init__(
        self,
        console: Console,
        *,
        names: Mapping[str, str],
        live: bool | None = None,
        every: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        verbosity: int = 0,
    ) -> None:
        self.console = console
        self.names = names
        self.verbosity = verbosity
        self.every = 0.0 if verbosity > 0 else every
        self.clock = clock
        redrawn = console.is_terminal and not console.is_dumb_terminal if live is None else live
        self.live_wanted = redrawn and verbosity == 0
        self.cases: dict[str, Mapping[str, Any]] = {}
        self._live: Live | None = None
        self._phase = ""
        self._phases: tuple[str, ...] = PHASES
        self._left_out = "; left out"
        self._seen: list[str] = []
        self._progress: ev.Progress | None = None
        self._arms: dict[tuple[str, ...], ev.ConfirmProgress] = {}
        self._last_line = -1e9

    def __call__(self, event: ev.Event) -> None:
        handler: Callable[[Any], None] | None = getattr(self, f"_on_{type(event).__name__}", None)
        if handler is not None:
            handler(event)
            if self._live is not None:
                self._live.update(self._block())

    def close(self) -> None:
        """Stop redrawing and leave the cursor below; more than once is allowed."""
        if self._live is not None:
            self._live.update(Text())
            self._live.stop()
            self._live = None

    def __enter__(self) -> ConsoleReport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- events, one handler each

    def _on_HuntStarted(self, event: ev.HuntStarted) -> None:
        head = f"hunting {policy_text(event.policies)}, seed {event.seed}, contract {event.contract}"
        engine = "no engine: model only" if event.engine == "none" else f"engine {event.engine}"
        self._start(f"{head}, {engine}")

    def _start(self, head: str) -> None:
        self._say(Text.assemble(("fuzzkv ", "bold"), head))
        if self.live_wanted:
            self._live = Live(
                Text(), console=self.console, refresh_per_second=8, transient=True, redirect_stderr=False
            )
            self._live.start()

    def _on_GateStarted(self, event: ev.GateStarted) -> None:
        beside = policy_text(event.against) if event.against or not event.engine else "the corpus"
        where = event.engine or "the model"
        head = f"gating {event.candidate} against {beside}, seed {event.seed}, on {where}"
        self._phases, self._left_out = GATE_PHASES, ""
        self._start(head)

    def _on_PhaseStarted(self, event: ev.PhaseStarted) -> None:
        self._phase, self._progress = event.phase, None
        self._arms.clear()
        if event.phase not in self._seen:
            self._seen.append(event.phase)
        if not self.live_wanted:
            total = f" ({event.total:,})" if event.total else ""
            self._say(f"{event.text or PHASE_TEXT.get(event.phase, event.phase)}{total}")
            self._last_line = self.clock()

    def _on_Progress(self, event: ev.Progress) -> None:
        self._progress = event
        self._now_and_then(progress_text(event))

    def _on_AcceptanceDone(self, event: ev.AcceptanceDone) -> None:
        word = ("passes alone", "green") if event.passed else ("fails alone (single-policy)", "magenta")
        reason = f": {event.reason}" if event.reason else ""
        left = "" if event.passed else self._left_out
        self._say(
            Text.assemble(
                f"  {event.policy} ", word, f", {counted(event.schedules, 'schedule')}{reason}{left}"
            )
        )

    def _on_ProofDone(self, event: ev.ProofDone) -> None:
        narrow = (
            f"; {', '.join(event.narrow)} for these rules on a small machine only" if event.narrow else ""
        )
        rest = "; there is nothing left to search" if event.settled else ""
        self._say(
            f"  {event.proved} of {event.of} invariants proved for schedules of any length{narrow}{rest}"
        )

    def _on_SolverDone(self, event: ev.SolverDone) -> None:
        shown = f"shows {counted(event.classes, 'class')} of failure" if event.classes else "is safe"
        ended = f"; {event.ended}" if event.ended else ""
        window = f"{event.requests} x {event.pages} pages"
        self._say(
            f"  every schedule of up to {counted(event.depth, 'event')} of {counted(event.sets, 'set')} {shown} ({window}){ended}"
        )

    def _on_SearchDone(self, event: ev.SearchDone) -> None:
        for line in search_lines(event):
            self._say(f"  {line}")

    def _on_EngineSearchDone(self, event: ev.EngineSearchDone) -> None:
        self._say(
            f"  {counted(event.schedules, 'schedule')} of {counted(event.sets, 'set')} on {counted(event.engines, 'engine')}, "
            f"{counted(event.steps, 'step')} in all; "
            f"{event.pairs} of {event.of_pairs} pairs, {event.triples} of {event.of_triples} triples; "
            f"{event.states:,} abstract states"
        )

    def _on_ConflictFound(self, event: ev.ConflictFound) -> None:
        label = f" [{event.label}]" if event.label else ""
        name = self.names.get(event.invariant, "")
        what = f"{policy_text(event.policies)} break {event.invariant} {name}".rstrip()
        after = f" after {counted(event.schedules, 'schedule')}" if event.schedules else ""
        where = f" at {event.action}" if event.action else ""
        self._say(
            Text.assemble(
                ("  conflict ", "bold red"), f"{what}{where}{label}, {counted(event.events, 'event')}{after}"
            )
        )

    def _on_ShrinkStep(self, event: ev.ShrinkStep) -> None:
        self._now_and_then(
            f"{policy_text(event.policies)} {event.invariant}: {event.before} -> {counted(event.after, 'event')}"
        )

    def _on_ConfirmProgress(self, event: ev.ConfirmProgress) -> None:
        if any(arm.case_id != event.case_id for arm in self._arms.values()):
            self._arms.clear()
        self._arms[event.arm] = event
        self._now_and_then(f"{event.case_id} {arm_text(event)}")

    def _on_Confirmed(self, event: ev.Confirmed) -> None:
        style = "bold red" if event.verdict == "confirmed" else "magenta"
        detail = f": {event.detail}" if event.detail else ""
        took = f" ({event.seconds:.0f} s)" if event.seconds else ""
        self._arms.clear()
        self._say(
            Text.assemble((f"  {event.verdict} ", style), f"{event.case_id} on {event.target}{detail}{took}")
        )

    def _on_CaseWithdrawn(self, event: ev.CaseWithdrawn) -> None:
        self.cases.pop(event.case_id, None)

    def _on_CaseFiled(self, event: ev.CaseFiled) -> None:
        if event.case:
            self.cases[event.case_id] = event.case
        self._say(f"  {'filed' if event.new else 'updated'} {event.path}")

    def _on_WarningRaised(self, event: ev.WarningRaised) -> None:
        cure = f" {event.cure}" if event.cure else ""
        self._print(
            Text.assemble(("  warning ", "bold magenta"), f"{event.code}: {event.text.rstrip('.')}.{cure}")
        )

    def _on_HuntFinished(self, event: ev.HuntFinished) -> None:
        self.close()
        self.console.print()
        cases = list(self.cases.values())
        self.console.print(summary(event, cases, self.names, width=self.console.width))

    def _on_GateFinished(self, event: ev.GateFinished) -> None:
        self.close()
        self.console.print()
        self.console.print(gate_page(event.report, width=self.console.width), crop=False)

    # -- the redrawn block and the plain lines

    def _block(self) -> RenderableType:
        steps = Text("  ")
        for phase in self._phases:
            style = "bold reverse" if phase == self._phase else "green" if phase in self._seen else "dim"
            steps.append(f" {phase} ", style=style)
        parts: list[RenderableType] = [steps]
        if self._progress is not None:
            if self._progress.total:
                bar = Table.grid(padding=(0, 1))
                bar.add_row(
                    " ", ProgressBar(total=self._progress.total, completed=self._progress.done, width=40)
                )
                parts.append(bar)
            parts.append(Text(f"   {progress_text(self._progress)}"))
        parts += [Text(f"   {arm_text(arm)}") for arm in self._arms.values()]
        return Group(*parts)

    def _say(self, line: str | Text) -> None:
        if self.verbosity >= 0:
            self._print(line)

    def _print(self, line: str | Text) -> None:
        if self.live_wanted:
            # What goes on in a further line stands right of where it began.
            text = Text(line) if isinstance(line, str) else line
            indent = len(text.plain) - len(text.plain.lstrip()) + 2
            parts = text.wrap(self.console, self.console.width - indent)
            for part in parts[1:]:
                part.pad_left(indent)
            self.console.print(Text("\n").join(parts))
            return
        self.console.print(line, markup=False, soft_wrap=True)

    def _now_and_then(self, line: str) -> None:
        if not self.live_wanted and self.clock() - self._last_line >= self.every:
            self._last_line = self.clock()
            self._say(f"  {line}")


def progress_text(event: ev.Progress) -> str:
    """``"12,000 of 40,000, 3,100 schedules/s, 8.2 million events/s, 12 failing in 3 kinds"``."""
    parts = [f"{event.done:,} of {event.total:,}" if event.total else f"{event.done:,}"]
    if event.schedules_per_s:
        parts.append(f"{event.schedules_per_s:,.0f} schedules/s")
    if event.events_per_s:
        parts.append(f"{rate_text(event.events_per_s)} events/s")
    if event.cases or event.classes:
        parts.append(f"{event.cases:,} failing in {counted(event.classes, 'class')}")
    return ", ".join(parts)


def search_lines(event: ev.SearchDone) -> list[str]:
    """What the search reached, and how likely a longer one is to show something new."""
    word = {2: "pairs", 3: "triples"}[event.strength]
    by = f" by {event.workers} workers" if event.workers > 1 else ""
    ended = ", ended by --stop-risk" if event.early else ""
    risk = f"{event.risk:.2g}" if event.risk else "0"
    return [
        f"{counted(event.schedules, 'schedule')}{by}{ended}; {word} of levels {event.covered:,} of {event.combinations:,}; "
        f"{event.states:,} transitions between abstract states",
        f"residual risk: the next schedule shows a new class of failure with probability {risk} "
        f"(estimated; {event.bound:.2g} with its sampling error; {event.singletons} of {event.classes} kinds were seen once)",
    ]


def arm_text(event: ev.ConfirmProgress) -> str:
    """``"evict + offload   40 of 120 requests, 31 right"``."""
    right = f", {event.right} right" if event.right >= 0 else ""
    look = f", look {event.look} of {event.looks}" if event.looks else ""
    return f"{policy_text(event.arm):<26} {event.done:,} of {event.total:,} requests{right}{look}"


def rate_text(rate: float) -> str:
    """``"8.2 million"`` or ``"9,400"``."""
    return f"{rate / 1e6:.1f} million" if rate >= 1e6 else f"{rate:,.0f}"
