"""What ``bench.solver`` measures: the scopes, the solver's ascent and the explicit-state search on each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuzzkv.modelcheck.explorer import Explorer
from fuzzkv.modelcheck.results import Explored
from fuzzkv.modelcheck.scope import LONGEST_TICK, Scope, default_ticks
from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import FAIL, LATE, Config, Event
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.asking import SolverQuestion, Space
from fuzzkv.solver.unrolling import Breach
from fuzzkv.solver.verify import Verification
from fuzzkv.strategies.covering_arrays import enabled
from tests.field.sglang_31427 import REPORT

MEMORY = 1000 << 20
"""Bytes of the search's process."""
PLENTY = 99
"""A budget beyond every depth."""
FULL = 0b11
SPURIOUS = -1
"""In the place of a length: the Python interpreter doesn't see what was found."""
SIZES = ("chosen", "every")
"""Sizes of idle times of the search."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A pair on one scope, in one form, and the class that is looked for."""

    name: str
    form: str
    policies: tuple[Policy, ...]
    config: Config
    target: Breach
    depth: int
    requests: int
    pages: int
    enforce: bool = False

    @property
    def machine(self) -> Config:
        """The configuration, without device frames that no session can fill."""
        return replace(self.config, device_frames=min(self.config.device_frames, self.requests * self.pages))

    @property
    def space(self) -> Space:
        """The solver's schedules."""
        machine = self.machine
        window = Window(
            requests=self.requests,
            pages=self.pages,
            device=machine.device_frames,
            host=machine.host_frames,
            policies=len(self.policies),
        )
        codes = tuple(code for code in enabled(self.policies) if code not in (FAIL, LATE))
        return Space(policies=self.policies, config=machine, window=window, codes=codes, enforce=self.enforce)

    def scope(self, sizes: tuple[int, ...]) -> Scope:
        """The search's schedules."""
        return Scope(
            pages=self.pages,
            requests=self.requests,
            sessions=PLENTY,
            steps=PLENTY,
            ticks=PLENTY,
            tick_sizes=sizes,
            extra=PLENTY,
        )

    def sizes(self, which: str) -> tuple[int, ...]:
        """Idle times of a run of the search."""
        if which == "chosen":
            return default_ticks(self.policies, self.config)
        return tuple(range(1, LONGEST_TICK + 1))

    def shown(self, events: tuple[Event, ...]) -> bool:
        """Whether the Python interpreter sees the class, with both policies alone passing."""
        judge = Verification(self.policies, self.machine, self.space.window)
        return self.target in judge.judge(FULL, events).shown


def subjects(quick: bool) -> list[Subject]:
    """All scopes, the small ones first: a report of the field on 2 to 16 pages, the default pair on 4 and 8."""
    found = []
    field: Breach = ("I2", "host-lru", "drop_host")
    default: Breach = ("I1", "quant", "drop_host")
    for requests, pages in ((1, 2), (1, 4)) if quick else ((1, 2), (1, 4), (1, 8), (2, 8)):
        for form, policies in (("refuted", REPORT.policies), ("clean", REPORT.twins)):
            found.append(
                Subject(
                    name=REPORT.name,
                    form=form,
                    policies=policies,
                    config=REPORT.config,
                    target=field,
                    depth=6,
                    requests=requests,
                    pages=pages,
                )
            )
    for pages, forms in () if quick else ((4, ("refuted", "clean")), (8, ("refuted",))):
        for form in forms:
            found.append(
                Subject(
                    name="offload + quant",
                    form=form,
                    policies=resolve(("offload", "quant")),
                    config=Config(),
                    target=default,
                    depth=7,
                    requests=1,
                    pages=pages,
                    enforce=form == "clean",
                )
            )
    return found


def peak() -> float | None:
    """Megabytes that the children of this thread have held at most, so far; ``None`` where the system doesn't say."""
    try:
        children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
        told = [Path(f"/proc/{child}/status").read_text() for child in children]
    except OSError:
        return None
    found = [line.split()[1] for text in told for line in text.splitlines() if line.startswith("VmHWM")]
    return max((int(kilobytes) / 1024 for kilobytes in found), default=None)


def ask(subject: Subject, depth: int, delayed: bool, seconds: float) -> tuple[dict[str, Any], Any]:
    """One question: what it took, and the answer."""
    began = time.perf_counter()
    asked = SolverQuestion(subject.space, depth, target=subject.target, delayed=delayed, seconds=seconds)
    built, most = time.perf_counter(), 0.0
    while asked.running:
        most = max(most, peak() or 0.0)
        time.sleep(0.005)
    answer = asked.answer()
    took = {
        "delayed": delayed,
        "build_s": round(built - began, 3),
        "question_s": round(time.perf_counter() - built, 3),
        "gates": asked.gates,
        "clauses": asked.clauses,
        "z3_mb": round(most),
    }
    return took, answer


def solve(subject: Subject, cap: float, hear: Callable[[str], None]) -> dict[str, Any]:
    """One event deeper at a time, until the class is found, the depth is reached or the time is over.

    For each depth both questions are asked, that about schedules which begin with time that passes apart.
    """
    rows: list[dict[str, Any]] = []
    total, found, ending = 0.0, None, "depth"
    for depth in range(1, subject.depth + 1):
        asked: list[dict[str, Any]] = []
        for delayed in (False, True)[: 1 + (depth > 1)]:
            hear(f"{depth} events")
            took, answer = ask(subject, depth, delayed, max(1.0, cap - total))
            asked.append(took)
            total += took["build_s"] + took["question_s"]
            if answer is None:
                ending = "time"
            elif answer is not False:
                found, ending = depth if subject.shown(answer) else SPURIOUS, "found"
            if ending != "depth":
                break
        if ending != "time":
            rows.append({"depth": depth, "questions": asked, "so_far_s": round(total, 3)})
        if ending != "depth":
            break
    return {"depths": rows, "ending": ending, "shortest": found, "seconds": round(total, 3)}


def search(subject: Subject, which: str, cap: float, hear: Callable[[str], None]) -> dict[str, Any]:
    """The same by the explicit-state search, which goes through all states of a depth before the next; until the class is
    found (looked at once a second), the depth is reached, or the time or the memory is over.
    """
    rows: dict[int, dict[str, Any]] = {}
    found: dict[int, float] = {}

    def tell(now: Explored) -> None:
        hear(f"{now.depth} events, idle times: {which}")
        seconds = round(now.seconds, 3)
        rows.setdefault(now.depth, {"depth": now.depth, "so_far_s": seconds, "states": now.states})
        for witness in now.witnesses:
            shown = witness.failure_class
            if (shown.invariant, shown.actor, shown.action) == subject.target and not found:
                length = len(witness.events) if subject.shown(witness.events) else SPURIOUS
                found[length] = seconds
                rows.setdefault(length, {"depth": length, "so_far_s": seconds, "states": now.states})
                # The way to end a search: it keeps what it has.
                raise KeyboardInterrupt

    sizes = subject.sizes(which)
    explorer = Explorer(
        subject.policies, subject.machine, subject.scope(sizes), memory=MEMORY, enforce=subject.enforce
    )
    done = explorer.explore(FULL, safe=range(FULL), depth=subject.depth, seconds=cap, tell=tell)
    with suppress(KeyboardInterrupt):
        tell(done)
    if done.ending == "interrupted" and not found:
        raise KeyboardInterrupt
    return {
        "sizes": sizes,
        "depths": [row for depth, row in rows.items() if depth],
        "ending": "found" if found else done.ending,
        "shortest": next(iter(found), None),
        "seconds": next(iter(found.values()), round(done.seconds, 3)),
        "states": done.states,
        "merged": done.relative,
    }
