"""What each event of a schedule does: the table from event codes to the texts."""

from __future__ import annotations

from fuzzkv.contract.vocabulary import *
from fuzzkv.contract.workload import arrive, fail_copy, finish, late_copy, relevance, step, tick


def apply_tick(s: State, a: Int, b: Int) -> None:
    """Time passes."""
    tick(s, True, a)


def apply_arrive(s: State, a: Int, b: Int) -> None:
    """A session opens."""
    arrive(s, True, a, b)


def apply_step(s: State, a: Int, b: Int) -> None:
    """A step runs."""
    step(s, True, a, b)


def apply_fade(s: State, a: Int, b: Int) -> None:
    """A page fades from attention."""
    relevance(s, True, a, b)


def apply_finish(s: State, a: Int, b: Int) -> None:
    """A session ends."""
    finish(s, True, a)


def apply_fail(s: State, a: Int, b: Int) -> None:
    """A copy fails."""
    fail_copy(s, True)


def apply_late(s: State, a: Int, b: Int) -> None:
    """The link stalls."""
    late_copy(s, True, a)
