"""The bulk search: draw a schedule, run it for a set of policies, and where an oracle fails run every subset.

These functions and those of ``strategies.drawing`` and ``strategies.novelty`` are put, as they stand, behind the
written-out text of the events and compiled with it (``apply``, ``call_rule`` and ``damage`` are that module's).
They are also ordinary Python, so a test runs both and compares.  ``rules`` is a row of addresses: of each slot's
rule, of what clears its state in Python before a run (0: nothing), whether there is any such, and whether a rule
has raised, so that the search has to stop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fuzzkv.semantics.contract.minimal import is_subset, smallest, touches
from fuzzkv.semantics.layout import COLUMNS, NCLAUSE, NGOAL, NINV, NK, NP, NPRIM
from fuzzkv.strategies.drawing import MUTATE, SET, WAY, copy_rows, draw, mix, mutate
from fuzzkv.strategies.novelty import COUNT, REACHED, remember, watch

MAX_CLASSES = 256
"""Most classes of failures that one search keeps."""
KEY = 4
"""Numbers that name a class: mask of the policies, invariant, slot of the actor (-1: nobody), primitive."""
_FIRST = COLUMNS["V_COUNT"]
_PAGE, _ACTOR, _PRIM = COLUMNS["V_PAGE"], COLUMNS["V_ACTOR"], COLUMNS["V_PRIM"]
_WHEN, _AT = COLUMNS["V_STAMP"], COLUMNS["V_EVENT"]
_FREED, _NOW, _REFUSED = COLUMNS["FREED"], COLUMNS["NOW"], COLUMNS["REFUSED"]
_EVENT, _PRIMS, _GOAL, _ACTED = COLUMNS["EVENT"], COLUMNS["PRIMS"], COLUMNS["GOAL"], COLUMNS["ACTED"]

SEEN, NUMBER, LENGTH, RANK, FREELY, BREAKS = range(6)
"""Of a class: how often it was seen, its best schedule's number and length, what that shows, how often it was seen
in schedules that don't come out of the pool, and at which event the best schedule breaks the invariant."""
DAMAGE, CAUSE = 1, 2
"""What a witness may show, summed up as its rank: bytes that are worse than in every subset; a violation that doesn't
follow from another one."""
HITS = 6
FRESH = NK
"""Where the second part of ``rules`` begins."""
STATEFUL = 2 * NK
HALT = 2 * NK + 1
RULES = 2 * NK + 2
"""Numbers in ``rules``."""


class Lanes(NamedTuple):
    """Where schedules are run: the masks to draw (the full one first, which is drawn half of the time), the state at a
    run's beginning, the states and the later states of each set (a row a mask), which invariants' violations bring which
    with them (1 in row i, column j: that of i may come from that of j), the events that always come afterwards, and the
    ``rules``.
    """

    masks: Any
    template: Any
    states: Any
    ends: Any
    causes: Any
    after: Any
    rules: Any


class Met(NamedTuple):
    """What a search has come to.  ``keys[c]`` names class ``c``, ``hits[c]`` says how often it was seen and what its best
    schedule is, ``witness[c]`` is that one.  ``totals`` = (schedules run with arms, primitives, schedules that failed,
    capacity freed in quarter frames x ticks, ticks, schedules drawn without the pool); ``goals`` counts reached goals
    and ``refused`` the contract's refusals by clause, both for the drawn sets.
    """

    keys: Any
    hits: Any
    witness: Any
    totals: Any
    goals: Any
    refused: Any


# Text of the compiled module; replaced by the written-out functions there.
apply: Any = None
call_rule: Any = None
damage: Any = None


def begin(s: Any, template: Any, mask: int, rules: Any) -> None:
    """A state and the policies of a mask before a run; a search's template ends where nothing is touched."""
    for i in range(len(template)):
        s[i] = template[i]
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


def follows(s: Any, causes: Any, invariant: int) -> bool:
    """Whether the violation of an invariant follows from another one that came before it, on its page (I2: on any
    page); ``causes`` is 1 for the invariants that bring it with them."""
    page = s[_PAGE + invariant]
    when = s[_WHEN + invariant]
    for i in range(1, NINV):
        earlier = s[_WHEN + i] < when or (s[_WHEN + i] == when and i < invariant)
        if causes[i] == 1 and s[_FIRST + i] > 0 and earlier and touches(i, s[_PAGE + i], page):
            return True
    return False


def shows(
    lanes: Any,
    events: Any,
    length: int,
    slots: int,
    top: int,
    invariant: int,
    actor: int,
    primitive: int,
    worse: int,
    causes: Any,
) -> bool:
    """Whether a schedule shows a conflict of one kind: the set ``top`` breaks the invariant first by this
    actor's primitive, each of its policies acted, and every proper subset passes.  With ``worse`` the page
    must end worse than in every subset; none of ``causes`` (1 for an invariant) may be broken on that page
    before (I2: on any page).
    """
    template, after, rules = lanes.template, lanes.after, lanes.rules
    s = lanes.states[top]
    begin(s, template, top, rules)
    run(s, events, length, top, rules)
    if s[_FIRST + invariant] == 0 or s[_ACTOR + invariant] != actor or s[_PRIM + invariant] != primitive:
        return False
    for k in range(slots):
        if top >> k & 1 and not acted(s, k):
            return False
    page = s[_PAGE + invariant]
    if follows(s, causes, invariant):
        return False
    run(s, after, len(after), top, rules)
    worst = damage(s, page)
    if worse == 1 and worst == 0:
        return False
    for sub in range(top):
        if is_subset(sub, top):
            t = lanes.states[sub]
            begin(t, template, sub, rules)
            run(t, events, length, sub, rules)
            if failed(t):
                return False
            if worse == 1:
                run(t, after, len(after), sub, rules)
                if damage(t, page) >= worst:
                    return False
    return True


def entry(keys: Any, known: int, top: int, invariant: int, actor: int, primitive: int) -> Any:
    """The place of a class among the known ones, or where it would be the next."""
    c = 0
    while c < known and not (
        keys[c, 0] == top and keys[c, 1] == invariant and keys[c, 2] == actor and keys[c, 3] == primitive
    ):
        c += 1
    return c


def judge(
    number: int, free: int, mask: int, slots: int, events: Any, length: int, lanes: Any, met: Any, known: int
) -> Any:
    """Enter the classes of a schedule whose arms have all been run; returns how many are known now.

    It is a conflict if every proper subset passes and each of its policies acted, else the smallest failing
    subsets are; a class of one policy is a failure of that policy alone, of none a fault of the workload.
    """
    template, states, ends, after, rules = lanes.template, lanes.states, lanes.ends, lanes.after, lanes.rules
    keys, hits = met.keys, met.hits
    span = len(template)
    failing = 0
    for top in range(mask + 1):
        if is_subset(top, mask) and failed(states[top]):
            failing |= 1 << top
    for top in range(mask + 1):
        if not failing >> top & 1:
            continue
        took_part = 0
        for k in range(slots):
            if acted(states[top], k):
                took_part |= 1 << k
        if not smallest(failing, took_part, top):
            continue
        ended = False
        for i in range(1, NINV):
            if states[top][_FIRST + i] == 0:
                continue
            actor, primitive = states[top][_ACTOR + i], states[top][_PRIM + i]
            c = entry(keys, known, top, i, actor, primitive)
            if c == MAX_CLASSES:
                continue
            if c == known:
                known += 1
                keys[c, 0], keys[c, 1], keys[c, 2], keys[c, 3] = top, i, actor, primitive
                hits[c, SEEN] = 0
                hits[c, RANK] = -1
            hits[c, SEEN] += 1
            hits[c, FREELY] += free
            # What happens afterwards is looked at only where it may make a better witness of this schedule; in a
            # class whose bytes have never been worse so far, after a while once in sixteen times.
            own = 0 if follows(states[top], lanes.causes[i], i) else CAUSE
            reach, best = own + DAMAGE, hits[c, RANK]
            # What comes after the event that breaks it is easily left out: the earlier, the shorter a case.
            at = states[top][_AT + i]
            sooner = at < hits[c, BREAKS]
            if reach < best or (reach == best and not sooner):
                continue
            if own == best and not sooner and hits[c, SEEN] >= 64 and number % 16 != 0:
                continue
            if not ended:
                ended = True
                for sub in range(top + 1):
                    if is_subset(sub, top):
                        if rules[STATEFUL] != 0:
                            # The policies' own state is that of the last run: run this one again.
                            begin(ends[sub], template, sub, rules)
                            run(ends[sub], events, length, sub, rules)
                        else:
                            for column in range(span):
                                ends[sub, column] = states[sub, column]
                        run(ends[sub], after, len(after), sub, rules)
            page = states[top][_PAGE + i]
            worse = 0
            if 0 <= page < NP:
                worst = damage(ends[top], page)
                worse = 1 if worst > 0 else 0
                for sub in range(top):
                    if is_subset(sub, top) and damage(ends[sub], page) >= worst:
                        worse = 0
            rank = own + worse
            if rank > hits[c, RANK] or (rank == hits[c, RANK] and sooner):
                hits[c, NUMBER], hits[c, LENGTH], hits[c, RANK], hits[c, BREAKS] = number, length, rank, at
                copy_rows(events, 0, length, met.witness[c])
    return known


def search(
    seed: int, start: int, count: int, slots: int, draws: Any, pool: Any, lanes: Any, met: Any, events: Any
) -> int:
    """Draw and judge ``count`` schedules from number ``start``, each in ``events``; returns how many classes of failures
    are known now.

    A set that fails is run again for all its subsets.
    """
    rules, totals, chosen = lanes.rules, met.totals, draws.chosen
    known = 0
    while known < MAX_CLASSES and met.hits[known, SEEN] > 0:
        known += 1
    for number in range(start, start + count):
        length = draw(seed, number, draws, events)
        free = 1
        if chosen[WAY] >= MUTATE and pool.sums[COUNT] > 0:
            free = 0
            x = mix(mix(seed + 2) ^ number)
            length = mutate(x, draws, pool.schedules, pool.lengths, pool.sums[COUNT], events)
        mask = lanes.masks[0] if number // len(draws.plans) % 2 == 1 else lanes.masks[chosen[SET]]
        s = lanes.states[mask]
        begin(s, lanes.template, mask, rules)
        fresh = watch(s, events, length, mask, rules, pool.bits)
        if rules[HALT] != 0:
            return known
        if fresh > 0:
            pool.sums[REACHED] += fresh
            remember(events, length, pool)
        totals[0] += 1
        totals[1] += s[_PRIMS]
        totals[3] += s[_FREED]
        totals[4] += s[_NOW]
        totals[5] += free
        for i in range(NGOAL):
            if s[_GOAL + i] > 0:
                met.goals[i] += 1
        for i in range(NCLAUSE):
            met.refused[i] += s[_REFUSED + i]
        if not failed(s):
            continue
        totals[2] += 1
        for sub in range(mask):
            if is_subset(sub, mask):
                arm = lanes.states[sub]
                begin(arm, lanes.template, sub, rules)
                run(arm, events, length, sub, rules)
                totals[0] += 1
                totals[1] += arm[_PRIMS]
        if rules[HALT] != 0:
            return known
        known = judge(number, free, mask, slots, events, length, lanes, met, known)
    return known
