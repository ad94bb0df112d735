"""Mutants and their clean twins: small rule policies, each written to break one invariant, or just not to.

They follow a fixed programme on a few pages of session 0; ``NOTE`` of their slot is the line they are at.
``PLANTS`` pairs them with a schedule on which the mutant breaks its invariant and the twin breaks nothing.
"""

# The vocabulary is imported as a whole, so that a rule reads like a rule.
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import dataclass, replace

from fuzzkv.semantics.contract.evidence import Action, Evidence, Manifest
from fuzzkv.semantics.facts import hosted, page_in_flight
from fuzzkv.semantics.ops.primitives import (
    begin_load,
    begin_store,
    condemn,
    drop_device,
    drop_host,
    promise,
    quantise,
)
from fuzzkv.semantics.policy import Policy, Rule
from fuzzkv.semantics.schedule import ACT, ARRIVE, STEP, TICK, Config, Event
from fuzzkv.semantics.vocabulary import *


def quotes_and_drops(s: State, k: Int) -> None:
    """I1: promises page 1, then gives up its only copy."""
    line = get(s, NOTE, k)
    promise(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    add_if(s, True, NOTE, k, 1)


def stores_quotes_and_drops(s: State, k: Int) -> None:
    """The twin: the host has the page before it is promised and dropped."""
    line = get(s, NOTE, k)
    ready = and_(line == 1, hosted(s, 1))
    begin_store(s, line == 0, k, 1)
    promise(s, ready, k, 1)
    drop_device(s, ready, k, 1)
    add_if(s, or_(line == 0, ready), NOTE, k, 1)


def drops_unasked(s: State, k: Int) -> None:
    """I1 without a promise: gives up the only copy, says so to nobody, and a reader asks for the page."""
    line = get(s, NOTE, k)
    drop_device(s, line == 0, k, 1)
    add_if(s, True, NOTE, k, 1)


def drops_what_the_host_has(s: State, k: Int) -> None:
    """The twin stored it first."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    add_if(s, True, NOTE, k, 1)


def drops_while_storing(s: State, k: Int) -> None:
    """I2: gives up the device copy while its store reads it."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    add_if(s, True, NOTE, k, 1)


def drops_after_storing(s: State, k: Int) -> None:
    """The twin waits for the store."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, and_(line == 1, not_(page_in_flight(s, 1))), k, 1)
    put_if(s, True, NOTE, k, 1)


def frees_the_source_of_a_load(s: State, k: Int) -> None:
    """I3: the host copy is freed while a load reads it, so the load fills the frame with nothing."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    begin_load(s, line == 2, k, 1)
    drop_host(s, line == 3, k, 1, 0)
    add_if(s, True, NOTE, k, 1)


def frees_the_source_after_the_load(s: State, k: Int) -> None:
    """The twin waits for the load."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    begin_load(s, line == 2, k, 1)
    drop_host(s, and_(line >= 3, not_(page_in_flight(s, 1))), k, 1, 0)
    add_if(s, True, NOTE, k, 1)


def quantises_while_storing(s: State, k: Int) -> None:
    """I4: the bytes change under a store."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    quantise(s, line == 1, k, 1, INT4)
    add_if(s, True, NOTE, k, 1)


def quantises_after_storing(s: State, k: Int) -> None:
    """The twin waits for the store."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    quantise(s, and_(line >= 1, not_(page_in_flight(s, 1))), k, 1, INT4)
    add_if(s, True, NOTE, k, 1)


def quotes_lossy_bytes(s: State, k: Int) -> None:
    """I12: promises exact bytes of a page that it has quantised, with no backup."""
    line = get(s, NOTE, k)
    quantise(s, line == 0, k, 1, INT8)
    promise(s, line == 1, k, 1)
    add_if(s, True, NOTE, k, 1)


def quotes_exact_bytes(s: State, k: Int) -> None:
    """The twin has quantised another page."""
    line = get(s, NOTE, k)
    quantise(s, line == 0, k, 2, INT8)
    promise(s, line == 1, k, 1)
    add_if(s, True, NOTE, k, 1)


def floods_the_link(s: State, k: Int) -> None:
    """I14: puts page 1 on the host, then fills the link with stores before a reader asks for it."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    for p in each(7):
        begin_store(s, and_(line == 2, p >= 2), k, p)
    add_if(s, True, NOTE, k, 1)


def spares_the_link(s: State, k: Int) -> None:
    """The twin stores one page a time."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    begin_store(s, line == 2, k, 2)
    add_if(s, True, NOTE, k, 1)


def condemns_unseen(s: State, k: Int) -> None:
    """I17: condemns page 1 long after it saw it read last."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    condemn(s, line == 2, k, 1)
    add_if(s, True, NOTE, k, 1)


def condemns_seen(s: State, k: Int) -> None:
    """The twin condemns a page that is read in every step."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_device(s, line == 1, k, 1)
    condemn(s, line == 2, k, 2)
    add_if(s, True, NOTE, k, 1)


def loses_too_much(s: State, k: Int) -> None:
    """I18: gives up two pages for good, each of which nearly is the whole budget."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    begin_store(s, line == 1, k, 2)
    for page in each(3):
        gone = and_(page > 0, line == page)
        drop_device(s, gone, k, page)
        drop_host(s, gone, k, page, 1)
    add_if(s, True, NOTE, k, 1)


def loses_little(s: State, k: Int) -> None:
    """The twin gives up exactness only: the page stays at 4 bits."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    quantise(s, line == 1, k, 1, INT4)
    drop_host(s, line == 1, k, 1, 1)
    add_if(s, True, NOTE, k, 1)


def gives_up_a_host_copy(s: State, k: Int) -> None:
    """Tidies the host up: nobody needs a copy of page 1 there while the device has it."""
    line = get(s, NOTE, k)
    begin_store(s, line == 0, k, 1)
    drop_host(s, line == 1, k, 1, 1)
    add_if(s, True, NOTE, k, 1)


def does_nothing(s: State, k: Int) -> None:
    """Never acts."""
    add_if(s, True, NOTE, k, 1)


def policy(name: str, rule: Rule) -> Policy:
    """A policy of this rule with a complete manifest."""
    actions = tuple(
        Action(
            primitive=primitive,
            reversibility="exact",
            authority_copy="host",
            recovery_p95=12,
            quality_budget=0,
        )
        for primitive in ("begin_store", "drop_device", "drop_host", "quantise", "begin_load")
    )
    evidence = Evidence(
        target="near-reuse", horizon=1, confidence=900, provenance="none", calibrated_on="nothing"
    )
    manifest = Manifest(kind="test", actions=actions, evidence=evidence, source="a test", fidelity="[R]")
    return Policy(name=name, version="1", manifest=manifest, rule=rule)


@dataclass(frozen=True)
class Plant:
    """An invariant, who breaks it, who nearly does, and the events on which they are compared."""

    invariant: str
    clause: str
    mutant: Rule
    twin: Rule
    events: tuple[Event, ...]


CONFIG = Config(
    device_frames=12,
    host_frames=8,
    step_cost=10,
    page_cost=4,
    objective=22,
    tolerance=7,
    ledger=200,
    headroom=100,
)
"""The machine on which the plants were written: the defaults may be tuned, and these must not move."""
A: Event = (ACT, 0, 0)
OPEN: Event = (ARRIVE, 0, 8)
WAIT: Event = (TICK, 4, 0)
"""Time for one copy, exactly."""


def ask(page: int) -> Event:
    """A step of session 0 about a page."""
    return (STEP, 0, page)


AWAY = (OPEN, A, WAIT, A)
"""Lines 0 and 1: page 1 goes to the host and leaves the device."""
PLANTS: tuple[Plant, ...] = (
    Plant("I1", "authority", quotes_and_drops, stores_quotes_and_drops, (OPEN, A, WAIT, A, ask(2))),
    Plant("I1", "authority", drops_unasked, drops_what_the_host_has, (OPEN, A, WAIT, A, ask(1))),
    Plant("I2", "fence", drops_while_storing, drops_after_storing, (OPEN, A, A, WAIT, A, ask(1))),
    Plant(
        "I3",
        "fence",
        frees_the_source_of_a_load,
        frees_the_source_after_the_load,
        (*AWAY, A, A, WAIT, A, ask(2)),
    ),
    Plant("I4", "fence", quantises_while_storing, quantises_after_storing, (OPEN, A, A, WAIT, A, ask(1))),
    Plant("I12", "claim", quotes_lossy_bytes, quotes_exact_bytes, (OPEN, A, A, ask(1))),
    Plant("I14", "link-budget", floods_the_link, spares_the_link, (*AWAY, A, ask(1))),
    Plant("I17", "evidence", condemns_unseen, condemns_seen, (*AWAY, ask(2), ask(3), ask(4), A)),
    Plant("I18", "quality-budget", loses_too_much, loses_little, (*AWAY, WAIT, A, ask(3))),
)
"""At least one for every invariant that a policy can break. (I11 and I16 it can't: the primitives don't
allow it.)"""

HASTY = policy("hasty", quotes_and_drops)
CAREFUL = policy("careful", stores_quotes_and_drops)
IDLE = policy("idle", does_nothing)


def without_destroying(name: str) -> Policy:
    """A careful policy whose manifest doesn't declare that it destroys host copies."""
    made = policy(name, stores_quotes_and_drops)
    kept = tuple(action for action in made.manifest.actions if action.primitive != "drop_host")
    return replace(made, manifest=replace(made.manifest, actions=kept))


STORING = without_destroying("storing")
KEEPING = without_destroying("keeping")
"""Together they can break nothing under the contract, whatever they do with what they declare."""
NO_POLICY = {"name": "none"}
"""Something that is no policy."""


def free(name: str, rule: Rule) -> Policy:
    """The same as a free policy: it runs in the Python interpreter, and nothing is compiled for it."""
    return replace(policy(name, rule), free=True)


HASTY_FREE = free("hasty", quotes_and_drops)
CAREFUL_FREE = free("careful", stores_quotes_and_drops)
IDLE_FREE = free("idle", does_nothing)
TIDY_FREE = free("tidy", gives_up_a_host_copy)
"""Gives up page 1's host copy: alone that is within its budget, beside `careful` it takes what that one
promised."""
