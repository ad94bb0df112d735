"""The table from the event codes of a schedule to their transitions."""

from __future__ import annotations

from fuzzkv.semantics.ops.admission import pause, pressure, queue
from fuzzkv.semantics.ops.generation import grow, verify
from fuzzkv.semantics.ops.renewal import ask_sleep, ask_weights
from fuzzkv.semantics.ops.rewind import abort
from fuzzkv.semantics.ops.workload import arrive, fail_copy, finish, late_copy, relevance, step, tick
from fuzzkv.semantics.vocabulary import *


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


def apply_queue(s: State, a: Int, b: Int) -> None:
    """A session opens and waits."""
    queue(s, True, a, b)


def apply_text(s: State, a: Int, b: Int) -> None:
    """The next session has a text that others may have too."""
    put(s, R_NEXT, a, b)


def apply_grow(s: State, a: Int, b: Int) -> None:
    """A session generates tokens."""
    grow(s, True, a, b, False)


def apply_verify(s: State, a: Int, b: Int) -> None:
    """Drafts are accepted or taken back."""
    verify(s, True, a, b)


def apply_abort(s: State, a: Int, b: Int) -> None:
    """A user takes text back."""
    abort(s, True, a, b)


def apply_pause(s: State, a: Int, b: Int) -> None:
    """A session is set aside."""
    pause(s, True, a)


def apply_weights(s: State, a: Int, b: Int) -> None:
    """New weights are published."""
    ask_weights(s, True)


def apply_sleep(s: State, a: Int, b: Int) -> None:
    """Sleep is asked for."""
    ask_sleep(s, True, a)


def apply_pressure(s: State, a: Int, b: Int) -> None:
    """Memory pressure changes."""
    pressure(s, True, a, b)
