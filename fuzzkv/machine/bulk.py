"""The bulk search: draw a schedule, run it for a set of policies, and where an oracle fails run every subset.

These functions are put, as they stand, behind the written-out text of the events and compiled with it
(``apply``, ``call_rule`` and ``damage`` are that module's).  They are also ordinary Python, so a test runs both
and compares.  ``rules`` is a row of addresses: of each slot's rule, of what clears its state in Python before a
run (0: nothing), whether there is any such, and whether a rule has raised, so that the search has to stop.
Every draw comes from (seed, number of the schedule), so any schedule of a hunt can be drawn again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzkv.contract.layout import COLUMNS, NCLAUSE, NGOAL, NINV, NK, NP, NPRIM, PAGES
from fuzzkv.contract.schedule import ACT, ARRIVE, FADE, FAIL, FINISH, LATE, STEP, TICK

MAX_EVENTS = 64
"""Longest schedule of the bulk search."""
MAX_CLASSES = 128
"""Most classes of failures that one search keeps."""
KEY = 4
"""Numbers that name a class: mask of the policies, invariant, slot of the actor (-1: nobody), primitive."""
_FIRST = COLUMNS["V_COUNT"]
_PAGE, _ACTOR, _PRIM = COLUMNS["V_PAGE"], COLUMNS["V_ACTOR"], COLUMNS["V_PRIM"]
_WHEN = COLUMNS["V_STAMP"]
_FREED, _NOW, _REFUSED = COLUMNS["FREED"], COLUMNS["NOW"], COLUMNS["REFUSED"]
_EVENT, _PRIMS, _GOAL, _ACTED = COLUMNS["EVENT"], COLUMNS["PRIMS"], COLUMNS["GOAL"], COLUMNS["ACTED"]

FRESH = NK
"""Where the second part of ``rules`` begins."""
STATEFUL = 2 * NK
HALT = 2 * NK + 1
RULES = 2 * NK + 2
"""Numbers in ``rules``."""

# Text of the compiled module; replaced by the written-out functions there.
apply: Any = None
call_rule: Any = None
damage: Any = None


def mix(x: Any) -> Any:
    """One round of splitmix64: a well mixed 63-bit number for a number."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(1))


def draw(seed: int, number: int, slots: int, events: Any, weights: Any) -> Any:
    """Draw schedule ``number`` of a seed into ``events`` (rows of code, a, b); returns its length.

    Swarm: each schedule has its own mix of events, from a few of them to all, and its own length and session
    sizes.
    """
    x = mix(mix(seed) ^ number)
    length = 10 + x % (MAX_EVENTS - 10)
    total = 0
    for op in range(8):
        x = mix(x)
        base = (2, 2, 8, 12, 2, 1, 1, 1)[op]
        # A third of the rarer kinds is left out of each schedule.
        weights[op] = 0 if (op != STEP and op != ACT and x % 3 == 0) else base
        total += weights[op]
    x = mix(x)
    big = PAGES if x % 2 == 0 else 2 + (x // 2) % (PAGES - 1)
    x = mix(x)
    favourite = x % PAGES
    for e in range(length):
        x = mix(x)
        op = ARRIVE
        if e > 0:
            pick = x % total
            op = 0
            while pick >= weights[op]:
                pick -= weights[op]
                op += 1
        x = mix(x)
        a = 0
        b = 0
        if op == TICK:
            a = 1 + x % 16
        elif op == ARRIVE:
            a = 0 if e == 0 else x % 2
            b = big if a == 0 else 1 + (x // 2) % PAGES
        elif op == STEP:
            a = 0 if x % 4 else 1
            b = favourite if (x // 4) % 3 == 0 else (x // 12) % PAGES
        elif op == ACT:
            a = x % slots
        elif op == FADE:
            a = 0 if x % 4 else 1
            b = (x // 4) % PAGES
        elif op == FINISH:
            a = x % 2
        elif op == LATE:
            a = 1 + x % 8
        elif op == FAIL:
            a = 0
        events[e, 0] = op
        events[e, 1] = a
        events[e, 2] = b
    return length


def begin(s: Any, template: Any, mask: int, rules: Any) -> None:
    """A state and the policies of a mask before a run."""
    s[:] = template
    if rules[STATEFUL] != 0:
        for k in range(NK):
            if mask >> k & 1 and rules[FRESH + k] != 0:
                call_rule(rules[FRESH + k], s, k)


def run(s: Any, events: Any, length: int, mask: int, rules: Any) -> None:
    """Run a schedule on a state."""
    for e in range(length):
        s[_EVENT] = e
        apply(s, events[e, 0], events[e, 1], events[e, 2], mask, rules)


def failed(s: Any) -> bool:
    """Whether some invariant is broken in this state."""
    for i in range(1, NINV):
        if s[_FIRST + i] > 0:
            return True
    return False


def acted(s: Any, k: int) -> bool:
    """Whether the policy in slot ``k`` did something."""
    for i in range(NPRIM):
        if s[_ACTED + k * NPRIM + i] > 0:
            return True
    return False


def shows(
    template: Any,
    states: Any,
    events: Any,
    length: int,
    slots: int,
    top: int,
    invariant: int,
    actor: int,
    primitive: int,
    worse: int,
    causes: Any,
    after: Any,
    rules: Any,
) -> bool:
    """Whether a schedule shows a conflict of one kind: the set ``top`` breaks the invariant first by this
    actor's primitive, each of its policies acted, and every proper subset passes.  With ``worse`` the page
    must end worse than in every subset; none of ``causes`` (1 for an invariant) may be broken on that page
    before (I2: on any page).
    """
    s = states[top]
    begin(s, template, top, rules)
    run(s, events, length, top, rules)
    if s[_FIRST + invariant] == 0 or s[_ACTOR + invariant] != actor or s[_PRIM + invariant] != primitive:
        return False
    for k in range(slots):
        if top >> k & 1 and not acted(s, k):
            return False
    page = s[_PAGE + invariant]
    when = s[_WHEN + invariant]
    for i in range(1, NINV):
        earlier = s[_WHEN + i] < when or (s[_WHEN + i] == when and i < invariant)
        if causes[i] == 1 and s[_FIRST + i] > 0 and earlier and (s[_PAGE + i] == page or i == 2):
            return False
    run(s, after, len(after), top, rules)
    worst = damage(s, page)
    if worse == 1 and worst == 0:
        return False
    for sub in range(top):
        if sub & top == sub:
            t = states[sub]
            begin(t, template, sub, rules)
            run(t, events, length, sub, rules)
            if failed(t):
                return False
            if worse == 1:
                run(t, after, len(after), sub, rules)
                if damage(t, page) >= worst:
                    return False
    return True


def search(
    seed: int,
    start: int,
    count: int,
    slots: int,
    only: int,
    template: Any,
    events: Any,
    weights: Any,
    states: Any,
    keys: Any,
    hits: Any,
    totals: Any,
    goals: Any,
    refused: Any,
    after: Any,
    ends: Any,
    rules: Any,
) -> int:
    """Draw and judge ``count`` schedules from number ``start``; returns how many classes of failures are
    known now.

    ``only`` fixes the mask of the set (0: each schedule draws one of at least two policies, all of them half
    of the time).  A set that fails is run again for all its subsets.  It is a conflict if every proper subset
    passes and each of its policies acted, else the smallest failing subsets are; a class of one policy is a
    failure of that policy alone, of none a fault of the workload. ``keys[c]`` names class ``c``; ``hits[c]``
    = (times seen, number of its best schedule, its length, whether its bytes are worse than in every subset).
    ``totals`` = (schedules run with arms, primitives, schedules that failed, capacity freed in quarter frames
    x ticks, ticks); ``goals`` counts reached goals and ``refused`` the contract's refusals by clause, both
    for the drawn sets.
    """
    full = (1 << slots) - 1
    known = 0
    while known < MAX_CLASSES and hits[known, 0] > 0:
        known += 1
    for number in range(start, start + count):
        length = draw(seed, number, slots, events, weights)
        mask = only
        if mask == 0:
            x = mix(mix(seed + 1) ^ number)
            mask = full
            if slots > 2 and x % 2 == 0:
                while True:
                    x = mix(x)
                    mask = x % (full + 1)
                    bits = 0
                    for k in range(slots):
                        bits += mask >> k & 1
                    if bits >= 2:
                        break
        s = states[mask]
        begin(s, template, mask, rules)
        run(s, events, length, mask, rules)
        if rules[HALT] != 0:
            return known
        totals[0] += 1
        totals[1] += s[_PRIMS]
        totals[3] += s[_FREED]
        totals[4] += s[_NOW]
        for i in range(NGOAL):
            if s[_GOAL + i] > 0:
                goals[i] += 1
        for i in range(NCLAUSE):
            refused[i] += s[_REFUSED + i]
        if not failed(s):
            continue
        totals[2] += 1
        for sub in range(mask):
            if sub & mask == sub:
                begin(states[sub], template, sub, rules)
                run(states[sub], events, length, sub, rules)
                totals[0] += 1
                totals[1] += states[sub][_PRIMS]
        if rules[HALT] != 0:
            return known
        for top in range(mask + 1):
            if top & mask != top or not failed(states[top]):
                continue
            smallest = True
            for sub in range(top):
                if sub & top == sub and failed(states[sub]):
                    smallest = False
            for k in range(slots):
                if top >> k & 1 and not acted(states[top], k):
                    smallest = False
            if not smallest:
                continue
            for sub in range(top + 1):
                if sub & top == sub:
                    if rules[STATEFUL] != 0:
                        # The policies' own state is that of the last run: run this one again.
                        begin(ends[sub], template, sub, rules)
                        run(ends[sub], events, length, sub, rules)
                    else:
                        ends[sub][:] = states[sub]
                    run(ends[sub], after, len(after), sub, rules)
            for i in range(1, NINV):
                if states[top][_FIRST + i] == 0:
                    continue
                page = states[top][_PAGE + i]
                worse = 0
                if 0 <= page < NP:
                    worst = damage(ends[top], page)
                    worse = 1 if worst > 0 else 0
                    for sub in range(top):
                        if sub & top == sub and damage(ends[sub], page) >= worst:
                            worse = 0
                c = 0
                while c < known and not (
                    keys[c, 0] == top
                    and keys[c, 1] == i
                    and keys[c, 2] == states[top][_ACTOR + i]
                    and keys[c, 3] == states[top][_PRIM + i]
                ):
                    c += 1
                if c == known:
                    if known == MAX_CLASSES:
                        continue
                    known += 1
                    keys[c, 0] = top
                    keys[c, 1] = i
                    keys[c, 2] = states[top][_ACTOR + i]
                    keys[c, 3] = states[top][_PRIM + i]
                    hits[c, 0] = 0
                    hits[c, 3] = -1
                hits[c, 0] += 1
                if worse > hits[c, 3] or (worse == hits[c, 3] and length < hits[c, 2]):
                    hits[c, 1] = number
                    hits[c, 2] = length
                    hits[c, 3] = worse
    return known
