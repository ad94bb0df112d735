"""Transitions of the workload and the environment: sessions come and go, steps read, time passes, copies fail and are
late.

A step reads every page of its session that is on the device (a page that isn't is left out of attention) and
asks about one of them, its focus.  A focus that lies on the host is loaded while the step waits, or read in
place if no device frame is free.
"""

from __future__ import annotations

from fuzzkv.semantics.clock import pass_time
from fuzzkv.semantics.contract.predicates import check_conservation, check_latency, check_read, check_served
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.facts import (
    free_device_frame,
    free_device_frames,
    hosted,
    page_in_flight,
    present,
    running,
    slot,
)
from fuzzkv.semantics.frames import pass_fence, take
from fuzzkv.semantics.ops.admission import may_run_on, prepare
from fuzzkv.semantics.ops.generation import grow
from fuzzkv.semantics.ops.groups import check_boundary
from fuzzkv.semantics.ops.primitives import settle
from fuzzkv.semantics.sessions import close_session, open_session
from fuzzkv.semantics.vocabulary import *

BACKGROUND = 2
"""Attention that a relevant page gets in each step that reads it."""
FOCUS = 8
"""Attention that the focus of a step gets besides."""
DEGENERATE = 100
"""Lost answers, in permille, from which on a queued session's output runs on."""


def arrive(s: State, g: Bool, r: SessionId, n: Int) -> None:
    """A session of ``n`` pages opens and its context is computed, if it isn't open and enough device frames
    are free, those left out that the output of another may run on into.
    """
    owed = 0
    for q in each(NR):
        owed = owed + ite(and_(q != r, running(s, q)), may_run_on(s, q), 0)
    ok = and_(g, get(s, R_ACTIVE, r) == 0, free_device_frames(s) >= n + owed)
    guard(ok)
    open_session(s, ok, r, n, True, P_ARRIVE)
    done(s, ok, P_ARRIVE, NOBODY, r * PAGES, n)


def finish(s: State, g: Bool, r: SessionId) -> None:
    """A session ends.

    The output of a queued session that has lost answers degenerates and runs on instead, by a page a time
    (fidelity [R]; the effect is reported for lossy caches, its size is ours).
    """
    ok = and_(g, get(s, R_ACTIVE, r) == 1)
    guard(ok)
    on = and_(ok, get(s, R_LOSS, r) >= DEGENERATE, get(s, RUN_ON, r) > 0)
    add_if(s, on, RUN_ON, r, -1)
    grow(s, on, r, TOKENS, True)
    ends = and_(ok, not_(on))
    close_session(s, ends, r)
    # It ends between two steps.
    pass_fence(s, ends)
    done(s, ends, P_FINISH, NOBODY, r * PAGES, 0)


def serve(s: State, g: Bool, p: PageId) -> Bool:
    """Bring the focus to its reader, who waits; returns whether it was read in place on the host."""
    guard(g)
    here = present(s, p)
    # A load of it may be on its way: wait for that one first.
    end = get(s, NOW, 0)
    for j in each(NJ):
        mine = and_(get(s, J_KIND, j) == LOAD, get(s, J_PAGE, j) == p)
        end = ite(mine, get(s, J_END, j), end)
    coming = and_(g, not_(here), end > get(s, NOW, 0))
    pass_time(s, coming, end - get(s, NOW, 0))
    settle(s)
    away = and_(g, not_(present(s, p)), hosted(s, p), not_(page_in_flight(s, p)))
    now = get(s, NOW, 0)
    queue = get(s, LINK_FREE, 0)
    add_if(s, and_(away, queue > now), GOAL, GOAL_LINK_BUSY, 1)
    wait = ite(queue > now, queue - now, 0) + get(s, PAGE_COST, 0)
    pass_time(s, away, wait)
    put_if(s, away, LINK_FREE, 0, now + wait)
    settle(s)
    h = get(s, HOST, p)
    source = slot(h)
    f = free_device_frame(s)
    frame = slot(f)
    landed = and_(away, f >= 0)
    take(s, landed, p, frame, get(s, H_TAG, source), get(s, H_PREC, source))
    put_if(s, landed, D_DMA, frame, 1)
    add_if(s, landed, DEMAND, 0, 1)
    done(s, landed, P_DEMAND_LOAD, NOBODY, p, wait)
    in_place = and_(away, f < 0)
    add_if(s, in_place, REMOTE, 0, 1)
    check_read(s, in_place, p, get(s, H_TAG, source))
    done(s, in_place, P_REMOTE_READ, NOBODY, p, wait)
    add_if(s, away, GOAL, GOAL_HOST_OFFER, 1)
    check_conservation(s, landed, p)
    return in_place


def read(s: State, g: Bool, p: PageId) -> None:
    """A step goes over a page: it ages, and if it is on the device its bytes are read and attention is seen
    on it.
    """
    guard(g)
    add_if(s, g, LIFE, p, 1)
    here = and_(g, present(s, p))
    check_read(s, here, p, get(s, D_TAG, slot(get(s, DEV, p))))
    add_if(s, and_(here, get(s, RELEVANT, p) == 1), ATT, p, BACKGROUND)
    put_if(s, here, SEEN, p, get(s, LIFE, p))
    done(s, here, P_READ, NOBODY, p, 0)


def step(s: State, g: Bool, r: SessionId, i: Int) -> None:
    """One step of a session that asks about its page ``i``."""
    ready = and_(g, get(s, R_ACTIVE, r) == 1, i < get(s, R_N, r))
    guard(ready)
    ok = and_(ready, prepare(s, ready, r))
    guard(ok)
    focus = r * PAGES + i
    began = get(s, NOW, 0)
    late = get(s, LATE, 0)
    asked = and_(ok, get(s, EVICTED, focus) == 0)
    in_place = serve(s, asked, focus)
    check_served(s, and_(asked, not_(present(s, focus)), not_(in_place)), focus)
    for q in each(PAGES):
        skip(q < get(s, R_N, r))
        read(s, and_(ok, q < get(s, R_N, r)), r * PAGES + q)
    seen = and_(asked, or_(present(s, focus), in_place))
    put_if(s, seen, SEEN, focus, get(s, LIFE, focus))
    add_if(s, seen, ATT, focus, FOCUS)
    put_if(s, seen, GAP, focus, get(s, NOW, 0) - get(s, LAST, focus))
    put_if(s, seen, LAST, focus, get(s, NOW, 0))
    add_if(s, seen, HITS, focus, 1)
    put_if(s, seen, RELEVANT, focus, 1)
    ticks = get(s, NOW, 0) - began + get(s, STEP_COST, 0)
    check_latency(s, ok, focus, ticks, late)
    add_if(s, ok, STEPS, 0, 1)
    add_if(s, ok, R_STEPS, r, 1)
    add_if(s, ok, LAT_SUM, 0, ticks)
    put_if(s, and_(ok, ticks > get(s, LAT_MAX, 0)), LAT_MAX, 0, ticks)
    check_boundary(s, ok, r)
    pass_time(s, ok, get(s, STEP_COST, 0))
    settle(s)
    pass_fence(s, ok)
    done(s, ok, P_STEP, NOBODY, focus, ticks)


def tick(s: State, g: Bool, ticks: Int) -> None:
    """The device idles for some ticks; copies go on."""
    guard(g)
    pass_time(s, g, ticks)
    settle(s)
    done(s, g, P_TICK, NOBODY, 0, ticks)


def relevance(s: State, g: Bool, r: SessionId, i: Int) -> None:
    """The topic of a page is over: steps that read it attend to it no more, until one asks about it again."""
    p = r * PAGES + i
    ok = and_(g, get(s, OWNED, p) == 1)
    guard(ok)
    put_if(s, ok, RELEVANT, p, 0)
    done(s, ok, P_RELEVANCE, NOBODY, p, 0)


def fail_copy(s: State, g: Bool) -> None:
    """The oldest copy in flight will deliver nothing when its time comes."""
    guard(g)
    best = -1
    for j in each(NJ):
        active = and_(get(s, J_KIND, j) != 0, get(s, J_FAIL, j) == 0)
        earlier = or_(best < 0, get(s, J_END, j) < get(s, J_END, slot(best)))
        best = ite(and_(active, earlier), j, best)
    ok = and_(g, best >= 0)
    put_if(s, ok, J_FAIL, slot(best), 1)


def late_copy(s: State, g: Bool, ticks: Int) -> None:
    """The link stalls: everything on it comes later.  No policy is charged for that."""
    guard(g)
    ok = and_(g, get(s, LINK_FREE, 0) > get(s, NOW, 0))
    for j in each(NJ):
        add_if(s, and_(ok, get(s, J_KIND, j) != 0), J_END, j, ticks)
    add_if(s, ok, LINK_FREE, 0, ticks)
    add_if(s, ok, LATE, 0, ticks)
    done(s, ok, P_LATE_COPY, NOBODY, 0, ticks)
