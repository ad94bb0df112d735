"""The shortest schedule of a class: asked for fewer events than the best one known, until there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fuzzkv.semantics.schedule import Event
from fuzzkv.solver.asking import SolverQuestion, Space
from fuzzkv.solver.unrolling import Breach

Events = tuple[Event, ...]
Judge = Callable[[Events], Events | None]
"""What the machine says of a schedule: it up to the violation if it shows the class, else ``None``."""
Tell = Callable[[int, bool], None]
"""Hears how many events are asked about, and whether behind time that passes first."""


@dataclass(frozen=True)
class Shortest:
    """The shortest schedule known; ``proved`` says that the solver found none with fewer events in the space.

    ``spurious`` answers were schedules that don't show the class on the machine; ``questions`` were asked.  ``denied``: the
    last answer was one although no smaller set fails under it; then the interpreters differ, in this window at least.
    """

    events: Events
    proved: bool
    spurious: int
    questions: int
    denied: bool = False


def shortest(
    space: Space, target: Breach, events: Events, judge: Judge, *, seconds: float, tell: Tell | None = None
) -> Shortest:
    """Look for ever shorter schedules of a class, from one that shows it, for so long."""
    until = time.monotonic() + seconds
    best, spurious, questions = events, 0, 0
    # Time that passes before the first session is rarely of use, and never if rules only compare times.
    for delayed in (False, True):
        while len(best) > 1 + delayed:
            left = until - time.monotonic()
            if left <= 0:
                return Shortest(best, False, spurious, questions)
            if tell is not None:
                tell(len(best) - 1, delayed)
            questions += 1
            asked = SolverQuestion(space, len(best) - 1, target=target, delayed=delayed, seconds=left)
            answer = asked.answer()
            if answer is False:
                break
            shorter = (
                None if answer is None or answer is True else _judged(judge, answer, cut=bool(space.arms))
            )
            if shorter is None or len(shorter) >= len(best):
                if answer is None or space.arms:
                    return Shortest(best, False, spurious, questions, answer is not None)
                # A smaller set fails under it as well: from now on those are run beside.
                spurious += 1
                space = space.beside(list(range(1, (1 << len(space.policies)) - 1)))
                continue
            best = shorter
    return Shortest(best, True, spurious, questions)


def _judged(judge: Judge, events: Events, *, cut: bool) -> Events | None:
    """What the machine says of a schedule, or of the shortest part of it that shows the class: a smaller set may fail later."""
    whole = judge(events)
    if whole is not None or not cut:
        return whole
    parts = (judge(events[:n]) for n in range(1, len(events)))
    return next((part for part in parts if part is not None), None)


def absent(
    space: Space, target: Breach, depth: int, *, seconds: float, tell: Tell | None = None
) -> bool | None:
    """Whether no schedule of up to ``depth`` events shows a class; ``None`` if that wasn't known in time."""
    until = time.monotonic() + seconds
    for delayed in (False, True):
        left = until - time.monotonic()
        if left <= 0:
            return None
        if tell is not None:
            tell(depth, delayed)
        answer = SolverQuestion(space, depth, target=target, delayed=delayed, seconds=left).answer()
        if answer is None:
            return None
        if answer is not False:
            return False
    return True
