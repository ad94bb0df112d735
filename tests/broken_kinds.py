"""More mutants and clean twins, for the invariants that reuse, rewind, schedule, relocate, renew and recover
policies can break.

Each pair is one programme with one word changed: ``PARAM`` 0 of the mutant's policy isn't used; the twin is a
function of its own that calls the same lines with the right word.
"""

# The vocabulary is imported as a whole, so that a rule reads like a rule.
# ruff: noqa: F403, F405

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import FAIL, FINISH, PAUSE, QUEUE, TEXT, TICK
from tests.broken import AWAY, OPEN, WAIT, A, Plant, ask


def scales_for_layout(s: State, k: Int, layout: Int) -> None:
    """The pool is laid out anew, then a page's scales are written where they lie in ``layout``."""
    line = get(s, NOTE, k)
    relayout(s, line == 0, k, 1)
    write_scale(s, line == 1, k, 1, layout)
    add_if(s, True, NOTE, k, 1)


def scales_of_the_old_layout(s: State, k: Int) -> None:
    """I5: the scales land on a payload."""
    scales_for_layout(s, k, 0)


def scales_of_this_layout(s: State, k: Int) -> None:
    """The twin asks for the layout first."""
    scales_for_layout(s, k, get(s, LAYOUT, 0))


def frees_a_cached_page(s: State, k: Int, what: Int) -> None:
    """A page with scales is published; after its session its frame is freed, and the next session encodes
    its pages.
    """
    line = get(s, NOTE, k)
    write_scale(s, line == 0, k, 1, 0)
    publish(s, line == 0, k, 1, KEY_ALL)
    expire(s, line == 1, k, 0, what)
    for p in each(PAGES):
        write_scale(s, line == 2, k, p, 0)
        encode(s, line == 3, k, p)
    add_if(s, True, NOTE, k, 1)


def frees_without_scales(s: State, k: Int) -> None:
    """I6: the payload is reset, the scales stay."""
    frees_a_cached_page(s, k, PAYLOAD + ENTRY)


def frees_with_scales(s: State, k: Int) -> None:
    """The twin resets both."""
    frees_a_cached_page(s, k, PAYLOAD + SCALES + ENTRY)


def reuses_by(s: State, k: Int, covers: Int) -> None:
    """A page is published; the next session has the same text and another adapter."""
    line = get(s, NOTE, k)
    publish(s, line == 0, k, 1, covers)
    serve_as(s, line == 1, k, 0, 1, 0)
    hit(s, line == 2, k, 1, covers)
    add_if(s, True, NOTE, k, 1)


def reuses_across_adapters(s: State, k: Int) -> None:
    """I7: the key leaves the adapter out."""
    reuses_by(s, k, KEY_ALL - KEY_ADAPTER)


def reuses_by_everything(s: State, k: Int) -> None:
    """The twin's key covers everything."""
    reuses_by(s, k, KEY_ALL)


def expires(s: State, k: Int, what: Int) -> None:
    """A page is published; after its session its frame is freed."""
    line = get(s, NOTE, k)
    publish(s, line == 0, k, 1, KEY_ALL)
    expire(s, line == 1, k, 0, what)
    add_if(s, True, NOTE, k, 1)


def expires_and_keeps_the_entry(s: State, k: Int) -> None:
    """I8: the entry names a frame that holds nothing."""
    expires(s, k, PAYLOAD + SCALES)


def expires_entry_and_all(s: State, k: Int) -> None:
    """The twin clears the entry too."""
    expires(s, k, PAYLOAD + SCALES + ENTRY)


def rewinds(s: State, k: Int, parts: Int) -> None:
    """A page with a host copy is rewound; later the device gives it up if the host has it."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 2)
    rewind(s, line == 1, k, 0, 2, parts)
    drop_device(s, and_(line == 2, hosted(s, 2)), k, 2)
    add_if(s, True, NOTE, k, 1)


def rewinds_the_device(s: State, k: Int) -> None:
    """I9: the host keeps the old branch."""
    rewinds(s, k, DEVICE_PART)


def rewinds_everything(s: State, k: Int) -> None:
    """The twin restores all parts."""
    rewinds(s, k, ALL_PARTS)


def resumes_where_nothing_was_kept(s: State, k: Int) -> None:
    """I10: attention has four pages, the recurrent group has no state there."""
    line = get(s, NOTE, k)
    split_groups(s, line == 0, k, 0)
    resume(s, line == 2, k, 0, 4)
    add_if(s, True, NOTE, k, 1)


def resumes_where_a_state_was_kept(s: State, k: Int) -> None:
    """The twin kept the state at that boundary."""
    line = get(s, NOTE, k)
    split_groups(s, line == 0, k, 0)
    checkpoint(s, line == 1, k, 0)
    resume(s, line == 2, k, 0, 4)
    add_if(s, True, NOTE, k, 1)


def claims_from_the_wrong_queue(s: State, k: Int) -> None:
    """I11: a frame is filed in one queue and claimed from another."""
    line = get(s, NOTE, k)
    enqueue(s, line == 0, k, 0, 0)
    dequeue(s, line == 1, k, 0, 1)
    add_if(s, True, NOTE, k, 1)


def claims_from_its_queue(s: State, k: Int) -> None:
    """The twin remembers the queue."""
    line = get(s, NOTE, k)
    enqueue(s, line == 0, k, 0, 0)
    dequeue(s, line == 1, k, 0, 0)
    add_if(s, True, NOTE, k, 1)


def schedules(s: State, k: Int) -> None:
    """One round: preempt the running session for the waiting one, then admit that."""
    line = get(s, NOTE, k)
    preempt(s, line == 0, k, 0)
    admit(s, True, k, 1)
    end_round(s, True, k)
    add_if(s, True, NOTE, k, 1)


def preempts_behind_a_fence(s: State, k: Int) -> None:
    """I13: frees wait for a step that nobody runs."""
    defer_frees(s, True, k)
    schedules(s, k)


def preempts(s: State, k: Int) -> None:
    """The twin's frees are at once."""
    schedules(s, k)


def stores_some(s: State, k: Int, skipped: Int) -> None:
    """Stores three pages but one, then says that it serves all three."""
    line = get(s, NOTE, k)
    for p in each(3):
        begin_store(s, and_(line == p, p != skipped), k, p)
    report(s, line == 3, k, 0, 3)
    add_if(s, True, NOTE, k, 1)


def serves_with_a_hole(s: State, k: Int) -> None:
    """I15: the hit will stop at the hole."""
    stores_some(s, k, 1)


def serves_all(s: State, k: Int) -> None:
    """The twin leaves none out."""
    stores_some(s, k, -1)


def trusts_its_load(s: State, k: Int) -> None:
    """I16: counts a page as valid while its load is in flight, and the load fails."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    begin_load(s, line == 2, k, 1)
    trust(s, line == 2, k, 1)
    add_if(s, True, NOTE, k, 1)


def waits_for_its_load(s: State, k: Int) -> None:
    """The twin waits."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    begin_load(s, line == 2, k, 1)
    add_if(s, True, NOTE, k, 1)


SHARED = ((TEXT, 0, 1), (QUEUE, 0, 4))
"""A session with a text that the next one has too."""
KIND_PLANTS: tuple[Plant, ...] = (
    Plant("I5", "layout", scales_of_the_old_layout, scales_of_this_layout, (OPEN, A, A, ask(1))),
    Plant(
        "I6",
        "layout",
        frees_without_scales,
        frees_with_scales,
        (OPEN, A, (FINISH, 0, 0), A, OPEN, A, A, ask(1)),
    ),
    Plant(
        "I7",
        "version",
        reuses_across_adapters,
        reuses_by_everything,
        (*SHARED, ask(0), A, (FINISH, 0, 0), (QUEUE, 0, 4), A, A, ask(1)),
    ),
    Plant("I8", "index", expires_and_keeps_the_entry, expires_entry_and_all, (OPEN, A, (FINISH, 0, 0), A)),
    Plant("I9", "boundary", rewinds_the_device, rewinds_everything, (OPEN, A, WAIT, A, ask(0), A, ask(2))),
    Plant(
        "I10",
        "boundary",
        resumes_where_nothing_was_kept,
        resumes_where_a_state_was_kept,
        ((QUEUE, 0, 4), ask(0), A, A, (PAUSE, 0, 0), A, ask(0)),
    ),
    Plant("I11", "accounting", claims_from_the_wrong_queue, claims_from_its_queue, (OPEN, A, A)),
    Plant("I13", "progress", preempts_behind_a_fence, preempts, (OPEN, (QUEUE, 1, 8), A, A)),
    Plant("I15", "progress", serves_with_a_hole, serves_all, (OPEN, A, WAIT, A, WAIT, A, WAIT, A)),
    Plant("I16", "fail-closed", trusts_its_load, waits_for_its_load, (*AWAY, A, (FAIL, 0, 0), (TICK, 8, 0))),
)
"""One for each invariant that ``tests.broken.PLANTS`` hasn't."""
