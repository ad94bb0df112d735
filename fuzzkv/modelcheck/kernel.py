"""The compiled kernel of the explicit-state search: breadth first, every event in every node, known states left out.

A node in which a proper subset fails is no node, and one in which the set itself fails is a witness and is not gone on
from.  A node is also left out if one with the same states has used no more of any budget.  Some of those that are left out
are kept to be looked at: ``differ`` goes on from both and compares.

The functions are compiled behind the core (``simulator.bulk.core``), whose ``apply``, ``failed``, ``acted``, ``follows`` and
``mix`` they use, and those of ``modelcheck.fingerprint`` and ``modelcheck.nodes``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzkv.modelcheck.fingerprint import (
    _J_FAIL,
    _J_KIND,
    _LINK_FREE,
    _NOW,
    _OWNED,
    _R_ACTIVE,
    _R_N,
    BASE,
    F_EXACT,
    F_FADES,
    F_NAMED,
    F_SLOTS,
    HALF,
)
from fuzzkv.semantics.layout import COLUMNS, NINV, NJ, PAGES
from fuzzkv.semantics.schedule import (
    ABORT,
    ACT,
    ARRIVE,
    FADE,
    FAIL,
    FINISH,
    GROW,
    LATE,
    PAUSE,
    QUEUE,
    STEP,
    VERIFY,
)
from fuzzkv.simulator.bulk.search import MAX_CLASSES

_RELEVANT, _COUNT = COLUMNS["RELEVANT"], COLUMNS["V_COUNT"]
_ACTOR, _PRIM = COLUMNS["V_ACTOR"], COLUMNS["V_PRIM"]

# Sums of a search.
B_NODES, B_CLASSES, B_SAMPLES, B_CHILDREN, B_MERGED, B_FAILING, B_ACTED = range(7)
B_SIZE = 7
SAMPLES = 64
"""Most merges of one call that are kept to be looked at."""
RARE, EARLY, OFTEN = 1 << 10, 1 << 12, 1 << 4
"""One merge in ``RARE`` is looked at; of the first ``EARLY`` one in ``OFTEN``."""


# Text of the compiled module.
apply: Any = None
failed: Any = None
acted: Any = None
follows: Any = None
mix: Any = None
imprint: Any = None
orderly: Any = None
retrace: Any = None
seal: Any = None
insert: Any = None
spend: Any = None
transfer: Any = None


def matters(s: Any, mask: int, form: Any, op: int, a: int, b: int) -> Any:
    """Whether an event can change this arm's state at all; a cheap look before the event is run."""
    if op == ACT:
        return mask >> a & 1 == 1
    if op in (ARRIVE, QUEUE):
        return s[_R_ACTIVE + a] == 0
    if op == STEP:
        return s[_R_ACTIVE + a] == 1 and b < s[_R_N + a]
    if op in (FINISH, GROW, VERIFY, ABORT, PAUSE):
        return s[_R_ACTIVE + a] == 1
    if op == FADE:
        p = a * PAGES + b
        return form[F_FADES] == 1 and s[_OWNED + p] == 1 and s[_RELEVANT + p] == 1
    if op == LATE:
        return s[_LINK_FREE] > s[_NOW]
    if op == FAIL:
        waiting = 0
        for j in range(NJ):
            if s[_J_KIND + j] != 0 and s[_J_FAIL + j] == 0:
                waiting += 1
        return waiting > 0
    return True


def judge(plan: Any, states: Any, fails: Any, found: Any, node: int, event: int) -> None:
    """Keep the classes that the set fails with, if every other arm passes and each of its policies acted.

    The state has one actor and primitive for each invariant: of two violations of one invariant in the same event only the
    first makes a class here; the other does where an event brings it alone or first.

    A violation that another one brings with it (``causes``) is no class of its own.
    """
    top = len(plan.arms) - 1
    mask = plan.arms[top]
    s = states[top]
    for m in range(top):
        if fails[m] == 1:
            return
    for k in range(plan.form[F_SLOTS]):
        if mask >> k & 1:
            if not acted(s, k):
                return
            found.sums[B_ACTED] |= 1 << k
    for i in range(1, NINV):
        own = s[_COUNT + i] > 0 and not follows(s, plan.causes[i], i)
        c = 0
        while c < found.sums[B_CLASSES] and not (
            found.kinds[c, 0] == i
            and found.kinds[c, 1] == s[_ACTOR + i]
            and found.kinds[c, 2] == s[_PRIM + i]
        ):
            c += 1
        if own and c == found.sums[B_CLASSES] and c < MAX_CLASSES:
            found.kinds[c, 0] = i
            found.kinds[c, 1] = s[_ACTOR + i]
            found.kinds[c, 2] = s[_PRIM + i]
            found.at[c, 0] = node
            found.at[c, 1] = event
            found.sums[B_CLASSES] += 1


def attempt(plan: Any, bench: Any, found: Any, states: Any, op: int, a: int, b: int) -> int:
    """Run an event for all arms into ``bench``: 0 if nothing changes, 1 if something does, 2 if an arm fails."""
    result = 0
    for m in range(len(plan.arms)):
        mask = plan.arms[m]
        bench.fails[m] = 0
        bench.fresh[m] = bench.marks[m]
        if not matters(states[m], mask, plan.form, op, a, b):
            continue
        s = bench.work[m]
        transfer(s, states[m])
        apply(s, op, a, b, mask, plan.rules)
        if failed(s):
            bench.fails[m] = 1
            result = 2
            continue
        found.sums[B_ACTED] |= imprint(s, mask, plan.form, plan.places, bench.fresh[m])
        if bench.fresh[m, 0] != bench.marks[m, 0] or bench.fresh[m, 1] != bench.marks[m, 1]:
            result = max(result, 1)
    return result


def expand(
    plan: Any, store: Any, trail: Any, bench: Any, found: Any, start: int, stop: int, depth: int
) -> int:
    """Try every event in the nodes ``start`` to ``stop``, all at this depth; returns the first node that was not tried
    because the store is full, or ``stop``.
    """
    h = np.zeros(2, dtype=np.uint64)
    sums = found.sums
    for node in range(start, stop):
        if sums[B_NODES] + len(plan.events) > len(store.keys):
            return node
        retrace(plan, store, trail, node, depth)
        states = trail.stack[depth]
        for m in range(len(plan.arms)):
            imprint(states[m], plan.arms[m], plan.form, plan.places, bench.marks[m])
        for e in range(len(plan.events)):
            op = plan.events[e, 0]
            a = plan.events[e, 1]
            b = plan.events[e, 2]
            if not spend(trail.used[depth], bench.spent, plan.limits, op, a):
                continue
            result = attempt(plan, bench, found, states, op, a, b)
            if result == 2:
                sums[B_FAILING] += 1
                judge(plan, bench.work, bench.fails, found, node, e)
            if result != 1:
                # Nothing changed: the same state with less of the budgets left.
                continue
            sums[B_CHILDREN] += 1
            seal(bench.fresh, h)
            count = sums[B_NODES]
            known = insert(store, h, bench.spent, count)
            if known < 0:
                store.parent[count] = node
                store.via[count] = e
                sums[B_NODES] = count + 1
                continue
            sums[B_MERGED] += 1
            every = OFTEN if sums[B_MERGED] <= EARLY else RARE
            if mix(h[0] >> np.uint64(1)) % every == 0 and sums[B_SAMPLES] < SAMPLES:
                found.samples[sums[B_SAMPLES], 0] = node
                found.samples[sums[B_SAMPLES], 1] = e
                found.samples[sums[B_SAMPLES], 2] = known
                sums[B_SAMPLES] += 1
    return stop


def differ(plan: Any, bench: Any, one: Any, other: Any, used: Any, seed: int, length: int) -> bool:
    """Whether two nodes that were merged part: the same drawn events are run in both, and each time they must fail alike and
    look the same; where frames go by their pages no more, two that have other names look different and may be the same.
    """
    x = mix(seed)
    names = plan.form[F_NAMED] == 1 or plan.form[F_EXACT] == 1
    top = len(plan.arms) - 1
    for _ in range(length + 1):
        for m in range(top + 1):
            if failed(one[m]) != failed(other[m]):
                return True
            if failed(one[m]):
                return False
            imprint(one[m], plan.arms[m], plan.form, plan.places, bench.marks[m])
            imprint(other[m], plan.arms[m], plan.form, plan.places, bench.fresh[m])
            ordered = orderly(one[m], plan.form)
            if ordered != orderly(other[m], plan.form):
                return True
            same = bench.marks[m, 0] == bench.fresh[m, 0] and bench.marks[m, 1] == bench.fresh[m, 1]
            if not same and (names or ordered):
                return True
        x = mix(x)
        event = plan.events[x % len(plan.events)]
        if not spend(used, bench.spent, plan.limits, event[0], event[1]):
            continue
        used[:] = bench.spent
        for m in range(top + 1):
            apply(one[m], event[0], event[1], event[2], plan.arms[m], plan.rules)
            apply(other[m], event[0], event[1], event[2], plan.arms[m], plan.rules)
    return False


def drifts(plan: Any, template: Any, one: Any, other: Any, seed: int, walks: int, length: int) -> bool:
    """Whether the time at which a run starts makes a difference beyond shifting every time: drawn schedules are run
    for the whole set from 0 and from ``BASE``.
    """
    x = mix(seed)
    for _ in range(walks):
        one[:] = template
        other[:] = template
        one[_NOW] = 0
        other[_NOW] = BASE
        for _ in range(length):
            x = mix(x)
            event = plan.events[x % len(plan.events)]
            apply(one, event[0], event[1], event[2], plan.arms[len(plan.arms) - 1], plan.rules)
            apply(other, event[0], event[1], event[2], plan.arms[len(plan.arms) - 1], plan.rules)
        for i in range(len(one)):
            shifted = other[i] - BASE if other[i] > HALF else other[i]
            if one[i] != shifted:
                return True
    return False
