"""Storage of the nodes of the explicit-state search, and how a node's state is made again.

A node is the states of the arms (the set, and those proper subsets that may fail in this scope) under one schedule, with
what the schedule has used of the scope's budgets.  Only its 128-bit fingerprint, those budgets, its parent and its event are
kept; the states come back by going the schedule again, from the last place that it shares with the node before.

Two different nodes are taken for one if their fingerprints are the same: for n nodes a chance of less than n * n / 2**129,
10**-24 for 25 million.  Witnesses don't depend on it: each is a schedule that was run, and runs again.

The functions are compiled behind the core, like those of ``modelcheck.kernel``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fuzzkv.semantics.layout import NR
from fuzzkv.semantics.schedule import ARRIVE, FAIL, LATE, OPS, QUEUE, STEP, TEXT, TICK

# Budgets of a scope, and what of them a schedule has used: arrivals (a session that waits is one, too), ticks, faults, then
# steps session by session, then each kind of event that policies ask for.
U_ARRIVALS, U_TICKS, U_FAULTS, U_STEPS = range(4)
U_EXTRA = U_STEPS + NR
"""The first of the budgets that are counted only if policies ask for such events."""
U_SIZE = U_EXTRA + len(OPS) - TEXT


class Plan(NamedTuple):
    """The constants of a search: how states are compared (``form``, ``places``), the masks of the arms (the set
    last), the budgets, the events (code, a, b), which invariants' violations
    bring which with them, and the rules' addresses.
    """

    form: Any
    places: Any
    arms: Any
    limits: Any
    events: Any
    causes: Any
    rules: Any


class Store(NamedTuple):
    """The nodes: fingerprints of all arms, budgets used, parents, events, and the hash table of node numbers (one more than
    the number, 0: empty).
    """

    keys: Any
    spent: Any
    parent: Any
    via: Any
    table: Any


class Trail(NamedTuple):
    """The path to the current node: states, budgets used and nodes by depth."""

    stack: Any
    used: Any
    path: Any


class NodeBuffers(NamedTuple):
    """Buffers of the kernel: states after an event, fingerprints before and after it, which arms fail, budgets used."""

    work: Any
    marks: Any
    fresh: Any
    fails: Any
    spent: Any


class Found(NamedTuple):
    """The result of a search: sums, the classes (invariant, actor, primitive), where each was met first (node,
    event), and merges to be looked at (node, event, the node that it was taken for).
    """

    sums: Any
    kinds: Any
    at: Any
    samples: Any


# Text of the compiled module.
apply: Any = None
stir: Any = None


def spend(used: Any, then: Any, limits: Any, op: int, a: int) -> Any:
    """Take an event from the budgets; returns whether they have it.

    What is used depends on the events alone, never on what they did: a schedule with some events left out has used no
    more, so that a set that passes the whole scope also passes as an arm of a larger one.
    """
    then[:] = used
    at = -1
    if op in (ARRIVE, QUEUE):
        at = U_ARRIVALS
    elif op == TICK:
        at = U_TICKS
    elif op in (FAIL, LATE):
        at = U_FAULTS
    elif op == STEP:
        at = U_STEPS + a
    elif op >= TEXT:
        at = U_EXTRA + op - TEXT
    if at < 0:
        return True
    then[at] += 1
    return then[at] <= limits[at]


def transfer(s: Any, source: Any) -> None:
    """Copy a state; a plain loop is what becomes the fastest code."""
    for i in range(len(s)):
        s[i] = source[i]


def go(plan: Any, states: Any, used: Any, after: Any, then: Any, event: Any) -> None:
    """Run one event for all arms, from ``states`` to ``after``."""
    spend(used, then, plan.limits, event[0], event[1])
    for m in range(len(plan.arms)):
        transfer(after[m], states[m])
        apply(after[m], event[0], event[1], event[2], plan.arms[m], plan.rules)


def unroll(
    plan: Any, store: Any, node: int, event: int, template: Any, states: Any, used: Any, rows: Any
) -> int:
    """Go the schedule of a node again, and one event more if it is not -1; returns its length, its events in ``rows``."""
    length = 0 if event < 0 else 1
    n = node
    while n != 0:
        length += 1
        n = store.parent[n]
    at = length
    if event >= 0:
        at -= 1
        rows[at] = plan.events[event]
    n = node
    while n != 0:
        at -= 1
        rows[at] = plan.events[store.via[n]]
        n = store.parent[n]
    for m in range(len(plan.arms)):
        transfer(states[m], template)
    used[:] = 0
    for i in range(length):
        go(plan, states, used, states, used, rows[i])
    return length


def retrace(plan: Any, store: Any, trail: Any, node: int, depth: int) -> None:
    """Bring the states of a node at this depth to ``stack[depth]``, from where its path leaves that of the last one."""
    n = node
    d = depth
    while trail.path[d] != n:
        trail.path[d] = n
        n = store.parent[n]
        d -= 1
    for i in range(d + 1, depth + 1):
        event = plan.events[store.via[trail.path[i]]]
        go(plan, trail.stack[i - 1], trail.used[i - 1], trail.stack[i], trail.used[i], event)


def seal(marks: Any, h: Any) -> None:
    """The fingerprint of all arms from those of each."""
    h[0] = np.uint64(0xA4093822299F31D0)
    h[1] = np.uint64(0x082EFA98EC4E6C89)
    for m in range(len(marks)):
        stir(h, marks[m, 0])
        stir(h, marks[m, 1])
    stir(h, h[1] >> np.uint64(32))


def insert(store: Any, h: Any, spent: Any, count: int) -> Any:
    """Look for a node with this fingerprint that has used no more of any budget: it can do all that this one can.

    Returns its number, or -1 if there is none, and then it is now node ``count``.
    """
    size = np.uint64(len(store.table) - 1)
    at = h[0] & size
    while store.table[at] != 0:
        n = store.table[at] - 1
        if store.keys[n, 0] == h[0] and store.keys[n, 1] == h[1]:
            covered = True
            for i in range(len(spent)):
                if store.spent[n, i] > spent[i]:
                    covered = False
            if covered:
                return n
        at = (at + np.uint64(1)) & size
    store.table[at] = count + 1
    store.keys[count, 0] = h[0]
    store.keys[count, 1] = h[1]
    store.spent[count] = spent
    return -1
