"""Operations of admission and preemption: waiting and running sessions, frames kept back, rounds without progress."""

from __future__ import annotations

from fuzzkv.semantics.contract.clauses import refuse
from fuzzkv.semantics.contract.predicates import hazard, violate
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.facts import free_device_frames, in_flight_on_device, running, slot, waiting
from fuzzkv.semantics.frames import free_or_pending, let_go, pass_fence
from fuzzkv.semantics.sessions import coming_pages, compute, missing_frames, open_session
from fuzzkv.semantics.vocabulary import *

GROWTH = 2
"""Device frames that the engine's own admission keeps back for each running session to grow into."""
ROUNDS_IDLE = 2
"""Rounds in a row without progress that break I13."""


def queue(s: State, g: Bool, r: SessionId, n: Int) -> None:
    """A session of ``n`` pages opens and waits: its pages are computed by its first step, unless they are
    found or brought before.
    """
    ok = and_(g, get(s, R_ACTIVE, r) == 0)
    guard(ok)
    open_session(s, ok, r, n, False, P_QUEUE)
    done(s, ok, P_QUEUE, NOBODY, r * PAGES, n)


def may_run_on(s: State, r: SessionId) -> Int:
    """Device frames that the output of a session takes if it runs on."""
    room = PAGES - get(s, R_N, r)
    return ite(room < get(s, RUN_ON, r), room, get(s, RUN_ON, r))


def kept_back(s: State, r: SessionId) -> Int:
    """Device frames that running sessions other than ``r`` may still grow into, and beside others ``r`` itself if
    its output runs on.
    """
    n = 0
    own = 0
    for q in each(NR):
        room = PAGES - get(s, R_N, q)
        other = and_(q != r, running(s, q))
        n = n + ite(other, ite(room < GROWTH, room, GROWTH), 0)
        own = ite(other, may_run_on(s, r), own)
    return n + own


def prepare(s: State, g: Bool, r: SessionId) -> Bool:
    """Before its step a waiting session is admitted if all that it waits for is there and the frames suffice;
    returns whether the step can run.
    """
    held = and_(g, get(s, R_TODO, r) > 0)
    spare = free_device_frames(s) - kept_back(s, r)
    can = and_(held, coming_pages(s, r) == 0, spare >= missing_frames(s, r))
    compute(s, can, r)
    return get(s, R_TODO, r) == 0


def admit(s: State, g: Bool, k: PolicyId, r: SessionId) -> Bool:
    """The policy admits a waiting session, on its own account of what will be needed: no frame is kept back
    for others.
    """
    guard(g)
    enough = free_device_frames(s) >= missing_frames(s, r)
    can = and_(g, waiting(s, r), coming_pages(s, r) == 0, enough)
    left = free_device_frames(s) - missing_frames(s, r)
    ok = and_(can, not_(refuse(s, and_(can, left < kept_back(s, r)), C_PROGRESS)))
    compute(s, ok, r)
    put_if(s, ok, F_ASKED, 0, 0)
    done(s, ok, P_ADMIT, k, r * PAGES, 0)
    return ok


def give_up(s: State, g: Bool, r: SessionId) -> None:
    """A running session goes back to waiting: its device pages are given up, to be computed again."""
    guard(g)
    for i in each(PAGES):
        p = r * PAGES + i
        skip(get(s, OWNED, p) == 1)
        mine = and_(g, get(s, OWNED, p) == 1, get(s, EVICTED, p) == 0)
        let_go(s, mine, p)
        put_if(s, mine, TODO, p, 1)
        add_if(s, mine, R_TODO, r, 1)


def in_use(s: State, r: SessionId) -> Bool:
    """Whether something in flight reads or fills a device frame of the session."""
    n = 0
    for i in each(PAGES):
        d = get(s, DEV, r * PAGES + i)
        n = ite(and_(d >= 0, in_flight_on_device(s, slot(d))), 1, n)
    return n == 1


def preempt(s: State, g: Bool, k: PolicyId, r: SessionId) -> Bool:
    """The policy preempts a running session by recompute."""
    guard(g)
    can = and_(g, running(s, r), get(s, R_DRAFT, r) == 0)
    others = 0
    for q in each(NR):
        others = others + ite(and_(q != r, running(s, q)), 1, 0)
    # With deferred frees nobody runs on what the last running session gives up.
    stuck = refuse(s, and_(can, get(s, DEFER, 0) == 1, others == 0), C_PROGRESS)
    fenced = hazard(s, can, in_use(s, r), C_FENCE, I2, k, r * PAGES, P_PREEMPT)
    ok = and_(can, not_(stuck), fenced)
    give_up(s, ok, r)
    done(s, ok, P_PREEMPT, k, r * PAGES, 0)
    return ok


def pause(s: State, g: Bool, r: SessionId) -> None:
    """The engine itself sets a running session aside: it waits again, once nothing is in flight for it."""
    ok = and_(g, running(s, r), get(s, R_DRAFT, r) == 0, not_(in_use(s, r)))
    guard(ok)
    give_up(s, ok, r)
    pass_fence(s, ok)
    done(s, ok, P_PAUSE, NOBODY, r * PAGES, 0)


def end_round(s: State, g: Bool, k: PolicyId) -> Bool:
    """A scheduler's round ends: I13 asks that somebody runs if the frames suffice for somebody who waits."""
    guard(g)
    runs = 0
    least = ND + 1
    who = 0
    for r in each(NR):
        runs = runs + ite(running(s, r), 1, 0)
        need = ite(waiting(s, r), missing_frames(s, r), ND + 1)
        who = ite(need < least, r, who)
        least = ite(need < least, need, least)
    idle = and_(g, runs == 0, least <= free_or_pending(s))
    add_if(s, idle, IDLE, 0, 1)
    put_if(s, and_(g, not_(idle)), IDLE, 0, 0)
    violate(s, and_(idle, get(s, IDLE, 0) >= ROUNDS_IDLE), I13, k, who * PAGES, P_END_ROUND)
    done(s, g, P_END_ROUND, k, -1, runs)
    return g


def defer_frees(s: State, g: Bool, k: PolicyId) -> Bool:
    """From now on a device frame that a policy gives up is free only after the next device step has ended."""
    ok = and_(g, get(s, DEFER, 0) == 0)
    guard(ok)
    put_if(s, ok, DEFER, 0, 1)
    done(s, ok, P_DEFER_FREES, k, -1, 0)
    return ok


def ask_frames(s: State, g: Bool, k: PolicyId) -> Bool:
    """A scheduler asks whoever caches frames to free one."""
    ok = and_(g, get(s, F_ASKED, 0) == 0)
    guard(ok)
    put_if(s, ok, F_ASKED, 0, 1)
    done(s, ok, P_ASK_FRAMES, k, -1, 0)
    return ok


def pressure(s: State, g: Bool, device: Int, host: Int) -> None:
    """Memory pressure: so many free frames of each tier are taken away, those taken before are given back."""
    guard(g)
    for f in each(ND):
        put_if(s, and_(g, get(s, D_PAGE, f) == TAKEN), D_PAGE, f, FREE)
    for f in each(NH):
        put_if(s, and_(g, get(s, H_PAGE, f) == TAKEN), H_PAGE, f, FREE)
    n = 0
    for i in each(ND):
        f = ND - 1 - i
        here = and_(g, n < device, get(s, D_PAGE, f) == FREE)
        put_if(s, here, D_PAGE, f, TAKEN)
        n = n + ite(here, 1, 0)
    n = 0
    for i in each(NH):
        f = NH - 1 - i
        here = and_(g, n < host, get(s, H_PAGE, f) == FREE)
        put_if(s, here, H_PAGE, f, TAKEN)
        n = n + ite(here, 1, 0)
    done(s, g, P_PRESSURE, NOBODY, -1, device)
