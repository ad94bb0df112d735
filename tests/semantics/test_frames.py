"""Frames that several pages refer to, and the fence behind which frames are freed."""

# The vocabulary is imported as a whole, so that a rule reads like a rule.
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Sequence

from fuzzkv.api import *
from fuzzkv.core.results import Outcome
from fuzzkv.semantics.layout import COLUMNS
from fuzzkv.semantics.schedule import ARRIVE, FINISH, PAUSE, QUEUE, STEP, TEXT, TICK, Event
from fuzzkv.simulator.interpreters import plain_apply
from fuzzkv.simulator.outcome import ending
from fuzzkv.simulator.start import first_state
from tests.broken import CONFIG, OPEN, A, policy


def run(rule: Rule, events: Sequence[Event]) -> tuple[list[int], Outcome]:
    """The last state of a schedule for one rule, and what it came to."""
    chosen = (policy("x", rule),)
    state = first_state(CONFIG, chosen)
    apply = plain_apply(chosen)
    for op, a, b in events:
        apply(state, op, a, b, 1)
    return state, ending(state, ("x",))


def of_owner(state: Sequence[int], owner: int) -> int:
    """How many device frames have this owner."""
    return state[COLUMNS["D_PAGE"] : COLUMNS["D_PAGE"] + ND].count(owner)


def shares_and_stores(s: State, k: Int) -> None:
    """Publishes a page, maps it into the other session and stores it from there."""
    publish(s, True, k, 0, KEY_ALL)
    mapped = hit(s, True, k, PAGES, KEY_ALL)
    begin_store(s, mapped, k, PAGES)


def test_a_shared_frame_names_one_of_its_pages() -> None:
    events = ((TEXT, 0, 1), (TEXT, 1, 1), OPEN, A, (QUEUE, 1, 1), A, (TICK, 8, 0))
    state, outcome = run(shares_and_stores, events)
    assert state[COLUMNS["DEV"]] == state[COLUMNS["DEV"] + PAGES] >= 0
    assert hosted(state, PAGES)
    assert not outcome.failures


def defers(s: State, k: Int) -> None:
    """Defers frees; its second act lets a step run ahead."""
    run_ahead(s, get(s, DEFER, 0) == 1, k, 0)
    defer_frees(s, True, k)


def test_what_ends_between_two_steps_waits_for_no_step() -> None:
    for event in ((FINISH, 0, 0), (PAUSE, 0, 0)):
        state, _ = run(defers, (OPEN, A, event))
        assert of_owner(state, PENDING) == 0


def test_a_frame_waits_for_the_step_that_ran_ahead() -> None:
    ends = (OPEN, (ARRIVE, 1, 1), A, A, (FINISH, 0, 0))
    state, _ = run(defers, ends)
    assert of_owner(state, PENDING) == 1
    step = (STEP, 1, 0)
    state, _ = run(defers, (*ends, step))
    assert of_owner(state, PENDING) == 1
    state, _ = run(defers, (*ends, step, step))
    assert of_owner(state, PENDING) == 0
