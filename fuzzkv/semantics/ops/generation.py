"""Generation: a session's text grows token by token; drafts are written ahead and accepted or taken back."""

from __future__ import annotations

from fuzzkv.semantics.contract.predicates import check_latency
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.facts import free_device_frame, present, running, slot
from fuzzkv.semantics.frames import let_go, take
from fuzzkv.semantics.identity import T_DRAFT, expect
from fuzzkv.semantics.sessions import abandon, close_page, open_page
from fuzzkv.semantics.vocabulary import *


def lossy_before(s: State, r: SessionId) -> Int:
    """1 if some page of the session isn't exact on the device: what is computed now depends on that."""
    n = 0
    for i in each(PAGES):
        p = r * PAGES + i
        gone = or_(get(s, EVICTED, p) == 1, get(s, PAID, p) == 1)
        lossy = and_(present(s, p), get(s, D_PREC, slot(get(s, DEV, p))) != EXACT)
        n = ite(and_(i < get(s, R_N, r), or_(gone, lossy)), 1, n)
    return n


def write_tail(s: State, g: Bool, r: SessionId, total: Int, drafted: Int) -> None:
    """The last page now holds ``total`` tokens; the device writes them if the page is there.

    Writing them doesn't mend what is wrong with those before them.
    """
    guard(g)
    i = get(s, R_N, r) - 1
    p = r * PAGES + slot(i)
    d = slot(get(s, DEV, p))
    # A tail shared on purpose is written over by both sessions.
    whole = or_(get(s, D_TAG, d) == get(s, WANT, p), get(s, HOLD, r) == 2)
    put_if(s, g, R_RES, r, ite(total >= TOKENS, 0, total))
    for q in each(PAGES):
        expect(s, and_(g, q == i), r, q)
    add_if(s, and_(g, drafted > 0), WANT, p, T_DRAFT)
    put_if(s, and_(g, present(s, p), whole), D_TAG, d, get(s, WANT, p))


def unshare(s: State, g: Bool, r: SessionId) -> Bool:
    """Copy on write: the last page gets a frame of its own before it is written; returns whether it has one.

    A session that shares its tail on purpose (``fork`` without an own tail) writes where it is.
    """
    guard(g)
    p = r * PAGES + slot(get(s, R_N, r) - 1)
    d = slot(get(s, DEV, p))
    shared = and_(g, present(s, p), get(s, D_REF, d) > 1, get(s, HOLD, r) != 2)
    f = free_device_frame(s)
    can = and_(shared, f >= 0)
    tag = get(s, D_TAG, d)
    precision = get(s, D_PREC, d)
    let_go(s, can, p)
    take(s, can, p, slot(f), tag, precision)
    return or_(not_(shared), can)


def extend(s: State, g: Bool, r: SessionId, tokens: Int, drafted: Int) -> Bool:
    """Append tokens, at most to the end of the last page; a full last page opens a new one.  Returns whether
    it worked: a frame was free for it.
    """
    guard(g)
    opens = and_(g, get(s, R_RES, r) == 0)
    f = free_device_frame(s)
    fresh = and_(opens, get(s, R_N, r) < PAGES, f >= 0)
    p = r * PAGES + ite(get(s, R_N, r) < PAGES, get(s, R_N, r), 0)
    lineage = lossy_before(s, r)
    branch = get(s, P_BRANCH, slot(p - 1))
    open_page(s, fresh, p, slot(f))
    put_if(s, fresh, P_LINEAGE, p, lineage)
    put_if(s, fresh, P_BRANCH, p, branch)
    # It holds nothing yet, and that is right.
    put_if(s, fresh, WANT, p, get(s, D_TAG, slot(f)))
    add_if(s, fresh, R_N, r, 1)
    on = and_(g, not_(opens))
    own = unshare(s, on, r)
    ok = or_(fresh, and_(on, own))
    total = ite(opens, 0, get(s, R_RES, r)) + tokens
    write_tail(s, ok, r, ite(total > TOKENS, TOKENS, total), drafted)
    return ok


def frames_kept(s: State) -> Int:
    """Device frames that no open session has and nobody can take: cached, or given up behind the fence."""
    n = 0
    for f in each(ND):
        n = n + ite(or_(get(s, D_PAGE, f) == CACHED, get(s, D_PAGE, f) == PENDING), 1, 0)
    return n


def grow(s: State, g: Bool, r: SessionId, tokens: Int, runs_on: Bool) -> None:
    """A running session generates tokens, at most to the end of a page.

    If no frame is free for a new page, the session is preempted and computed again, and its reader waits that
    long: a page costs ``PAGE_COST`` ticks.  Where open sessions alone fill the pool nobody is to blame for that, but
    for an output that ``runs_on``.
    """
    guard(g)
    i = get(s, R_N, r) - 1
    tail = r * PAGES + slot(i)
    full = get(s, R_RES, r) == 0
    can = and_(g, running(s, r), get(s, R_DRAFT, r) == 0, or_(full, present(s, tail)))
    room = or_(not_(full), get(s, R_N, r) < PAGES)
    ok = and_(can, room, extend(s, and_(can, room), r, tokens, 0))
    late = get(s, R_N, r) * get(s, PAGE_COST, 0) + get(s, STEP_COST, 0)
    blamed = or_(runs_on, frames_kept(s) > 0)
    check_latency(s, and_(can, room, not_(ok), blamed), tail, late, get(s, LATE, 0))
    done(s, ok, P_GROW, NOBODY, tail, tokens)


def draft(s: State, g: Bool, k: PolicyId, r: SessionId, tokens: Int) -> Bool:
    """The policy writes draft tokens ahead of what is accepted, at most to the end of a page."""
    guard(g)
    before = get(s, R_RES, r)
    i = get(s, R_N, r) - 1
    tail = r * PAGES + slot(i)
    there = or_(before == 0, present(s, tail))
    room = or_(before > 0, get(s, R_N, r) < PAGES)
    can = and_(g, running(s, r), get(s, R_DRAFT, r) == 0, there, room)
    ok = and_(can, extend(s, can, r, tokens, 1))
    after = get(s, R_RES, r)
    put_if(s, ok, R_DRAFT, r, ite(after == 0, TOKENS, after) - before)
    done(s, ok, P_DRAFT, k, r * PAGES + slot(get(s, R_N, r) - 1), tokens)
    return ok


def verify(s: State, g: Bool, r: SessionId, accepted: Int) -> None:
    """The target model accepts the first drafts; the engine takes the others back from the device page that it
    wrote them to.
    """
    ok = and_(g, get(s, R_ACTIVE, r) == 1, get(s, R_DRAFT, r) > 0)
    guard(ok)
    drafted = get(s, R_DRAFT, r)
    total = ite(get(s, R_RES, r) == 0, TOKENS, get(s, R_RES, r))
    kept = total - drafted + ite(accepted < drafted, accepted, drafted)
    put_if(s, ok, R_DRAFT, r, 0)
    p = r * PAGES + slot(get(s, R_N, r) - 1)
    none = and_(ok, kept == 0)
    abandon(s, none, r, slot(get(s, R_N, r) - 1))
    add_if(s, and_(none, get(s, TODO, p) == 1), R_TODO, r, -1)
    close_page(s, none, p)
    add_if(s, none, R_N, r, -1)
    put_if(s, none, R_RES, r, 0)
    # The engine takes its own drafts back from every group.
    put_if(s, and_(none, get(s, G_AT, r) > get(s, R_N, r)), G_AT, r, get(s, R_N, r))
    write_tail(s, and_(ok, kept > 0), r, kept, 0)
    done(s, ok, P_VERIFY, NOBODY, p, accepted)
