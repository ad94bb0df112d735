"""The operations for placement, precision and deletion: what each requires and what it changes.

Every primitive takes the state, a guard, the policy that acts (a slot, or ``NOBODY``) and a page, and returns
whether it ran.  It runs where it is physically possible and, with the contract on, permitted; nothing else
stops a policy from using it wrongly.  Written in the vocabulary of ``semantics.vocabulary``, so every reader
has it from here.
"""

from __future__ import annotations

from fuzzkv.semantics.contract.clauses import (
    permit_condemn,
    permit_copy,
    permit_destroy,
    permit_frame,
    permit_promise,
    permit_reshape,
)
from fuzzkv.semantics.contract.predicates import (
    check_authority,
    check_budget_of_quality,
    check_claim,
    check_conservation,
    check_evidence,
    check_failed_closed,
    check_fence,
    check_snapshot,
)
from fuzzkv.semantics.copies import done, launch, retire
from fuzzkv.semantics.facts import (
    device_exact,
    free_device_frame,
    free_host_frame,
    free_job,
    host_exact,
    hosted,
    in_flight_on_device,
    in_flight_on_host,
    page_in_flight,
    present,
    quoted_by_another,
    request_of,
    slot,
)
from fuzzkv.semantics.frames import let_go, reserve
from fuzzkv.semantics.ops.transfers import deliver
from fuzzkv.semantics.vocabulary import *


def begin_store(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """A copy of the page to the host begins; the host frame is taken now and filled when the copy ends."""
    guard(g)
    d = get(s, DEV, p)
    h = free_host_frame(s)
    j = free_job(s)
    wanted = and_(g, present(s, p), get(s, HOST, p) < 0, not_(page_in_flight(s, p)))
    add_if(s, and_(wanted, h < 0), GOAL, GOAL_HOST_FULL, 1)
    can = and_(wanted, h >= 0, j >= 0)
    ok = and_(can, permit_copy(s, can, k))
    place = slot(j)
    frame = slot(h)
    source = slot(d)
    launch(s, ok, k, p, STORE, place, source, frame)
    put_if(s, ok, J_TAG, place, get(s, D_TAG, source))
    put_if(s, ok, J_PREC, place, get(s, D_PREC, source))
    put_if(s, ok, HOST, p, frame)
    put_if(s, ok, H_PAGE, frame, p)
    put_if(s, ok, H_FILL, frame, 0)
    done(s, ok, P_BEGIN_STORE, k, p, get(s, PAGE_COST, 0))
    return ok


def begin_load(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """A copy of the page from the host begins: into a free device frame, or over the page's own lossy
    bytes.
    """
    guard(g)
    d = get(s, DEV, p)
    h = get(s, HOST, p)
    over = and_(d >= 0, present(s, p))
    free = free_device_frame(s)
    j = free_job(s)
    filled = and_(h >= 0, get(s, H_FILL, slot(h)) == 1)
    can = and_(g, filled, or_(over, and_(d < 0, free >= 0)), j >= 0, not_(page_in_flight(s, p)))
    ok = and_(can, permit_copy(s, can, k), or_(over, permit_frame(s, can, free)))
    place = slot(j)
    target = ite(d >= 0, d, slot(free))
    launch(s, ok, k, p, LOAD, place, slot(h), target)
    put_if(s, and_(ok, over), J_OVER, place, 1)
    fresh = and_(ok, not_(over))
    reserve(s, fresh, p, target)
    done(s, ok, P_BEGIN_LOAD, k, p, get(s, PAGE_COST, 0))
    return ok


def complete(s: State, g: Bool, j: CopyId) -> None:
    """A copy ends: the bytes are those that the source frame holds at this moment; a failed one delivers
    nothing.
    """
    guard(g)
    p = get(s, J_PAGE, j)
    k = get(s, J_BY, j)
    src = get(s, J_SRC, j)
    dst = get(s, J_DST, j)
    store = and_(g, get(s, J_KIND, j) == STORE)
    load = and_(g, get(s, J_KIND, j) == LOAD)
    # A column has its own length, so an index of the other kind of copy is taken as 0.
    d_src, h_dst = ite(store, src, 0), ite(store, dst, 0)
    h_src, d_dst = ite(load, src, 0), ite(load, dst, 0)
    good = get(s, J_FAIL, j) == 0
    stored = and_(store, good)
    check_snapshot(s, stored, j, d_src)
    put_if(s, stored, H_TAG, h_dst, get(s, D_TAG, d_src))
    put_if(s, stored, H_PREC, h_dst, get(s, D_PREC, d_src))
    mine = get(s, H_PAGE, h_dst) == p
    put_if(s, and_(stored, mine), H_FILL, h_dst, 1)
    unstored = and_(store, not_(good), mine)
    put_if(s, unstored, H_PAGE, h_dst, FREE)
    put_if(s, and_(unstored, get(s, HOST, p) == h_dst), HOST, p, -1)
    done(s, stored, P_END_STORE, k, p, 0)
    loaded = and_(load, good)
    put_if(s, loaded, D_TAG, d_dst, get(s, H_TAG, h_src))
    put_if(s, loaded, D_PREC, d_dst, get(s, H_PREC, h_src))
    home = get(s, D_PAGE, d_dst) == p
    put_if(s, and_(loaded, home), D_FILL, d_dst, 1)
    put_if(s, loaded, D_DMA, d_dst, 1)
    unloaded = and_(load, not_(good), home, get(s, J_OVER, j) == 0)
    # A frame that a policy has declared valid before stays, and then it is a failure that isn't closed.
    let_go(s, and_(unloaded, get(s, D_FILL, d_dst) == 0, get(s, DEV, p) == d_dst), p)
    done(s, loaded, P_END_LOAD, k, p, 0)
    failed = and_(or_(store, load), not_(good))
    done(s, failed, P_FAIL_COPY, NOBODY, p, 0)
    check_failed_closed(s, unloaded, k, p, d_dst)
    deliver(s, and_(g, get(s, J_KIND, j) >= RUN), j)
    retire(s, g, j)
    check_conservation(s, g, p)


def settle(s: State) -> None:
    """Every copy whose time has come ends, the earliest first."""
    now = get(s, NOW, 0)
    put_if(s, get(s, LINK_FREE, 0) <= now, LATE, 0, 0)
    due = 0
    for j in each(NJ):
        due = due + ite(and_(get(s, J_KIND, j) != 0, get(s, J_END, j) <= now), 1, 0)
    guard(due > 0)
    for n in each(NJ):
        skip(n < due)
        first = -1
        for j in each(NJ):
            ends = and_(get(s, J_KIND, j) != 0, get(s, J_END, j) <= now)
            earlier = or_(first < 0, get(s, J_END, j) < get(s, J_END, slot(first)))
            first = ite(and_(ends, earlier), j, first)
        complete(s, and_(n < due, first >= 0), slot(first))


def drop_device(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """The device copy is given up and its frame goes back to the pool at once."""
    guard(g)
    d = get(s, DEV, p)
    frame = slot(d)
    can = and_(g, present(s, p))
    busy = in_flight_on_device(s, frame)
    last = or_(and_(device_exact(s, p), not_(host_exact(s, p))), not_(hosted(s, p)))
    ok = and_(can, permit_destroy(s, can, k, p, last, busy, 0))
    check_fence(s, and_(ok, busy), k, p, P_DROP_DEVICE)
    let_go(s, ok, p)
    done(s, ok, P_DROP_DEVICE, k, p, 0)
    check_authority(s, ok, k, p, P_DROP_DEVICE)
    check_conservation(s, ok, p)
    return ok


def drop_host(s: State, g: Bool, k: PolicyId, p: PageId, final: Int) -> Bool:
    """The host copy is destroyed.

    With ``final`` above 0 the policy declares that it gives exact bytes up for good; what that costs the
    request is the machine's to say (``calibration``): a page without a copy, or one that stays lossy.
    """
    guard(g)
    h = get(s, HOST, p)
    frame = slot(h)
    can = and_(g, h >= 0, get(s, H_FILL, frame) == 1, get(s, H_PIN, frame) == 0)
    busy = in_flight_on_host(s, frame)
    last = or_(and_(host_exact(s, p), not_(device_exact(s, p))), not_(present(s, p)))
    n = get(s, R_N, request_of(p))
    cost = ite(device_exact(s, p), 0, ite(present(s, p), get(s, QSHARE, n), get(s, SHARE, n)))
    loss = ite(final > 0, cost, 0)
    ok = and_(can, permit_destroy(s, can, k, p, last, busy, loss))
    relied = quoted_by_another(s, ok, k, p)
    add_if(s, and_(ok, relied), GOAL, GOAL_DROPPED_QUOTED, 1)
    check_fence(s, and_(ok, busy), k, p, P_DROP_HOST)
    put_if(s, ok, H_PAGE, frame, FREE)
    put_if(s, ok, H_TAG, frame, 0)
    put_if(s, ok, H_FILL, frame, 0)
    put_if(s, ok, HOST, p, -1)
    done(s, ok, P_DROP_HOST, k, p, loss)
    charge(s, and_(ok, loss > 0), k, p, loss)
    check_authority(s, ok, k, p, P_DROP_HOST)
    check_conservation(s, ok, p)
    return ok


def charge(s: State, g: Bool, k: PolicyId, p: PageId, loss: Int) -> None:
    """An irreversible loss enters the ledger of the page's request."""
    guard(g)
    r = request_of(p)
    before = get(s, R_LOSS, r)
    own = get(s, SPENT, k * NR + r)
    add_if(s, and_(g, before > own), GOAL, GOAL_LOSSES_OF_TWO, 1)
    add_if(s, g, R_LOSS, r, loss)
    add_if(s, g, SPENT, k * NR + r, loss)
    put_if(s, g, PAID, p, 1)
    check_budget_of_quality(s, g, k, p)


def quantise(s: State, g: Bool, k: PolicyId, p: PageId, precision: Int) -> Bool:
    """The device copy is rewritten in place at a lower precision."""
    guard(g)
    d = get(s, DEV, p)
    frame = slot(d)
    can = and_(g, present(s, p), get(s, D_PREC, frame) < precision)
    busy = in_flight_on_device(s, frame)
    ok = and_(can, permit_reshape(s, can, k, p, busy))
    relied = quoted_by_another(s, ok, k, p)
    add_if(s, and_(ok, relied), GOAL, GOAL_QUANTISED_QUOTED, 1)
    put_if(s, ok, D_PREC, frame, precision)
    done(s, ok, P_QUANTISE, k, p, precision)
    check_authority(s, ok, k, p, P_QUANTISE)
    return ok


def promise(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """The policy quotes the page as exactly recoverable, until it withdraws."""
    guard(g)
    fresh = and_(g, get(s, OWNED, p) == 1, get(s, QUOTE, k * NP + p) == 0)
    ok = and_(fresh, permit_promise(s, fresh, k, p))
    check_claim(s, ok, k, p, P_PROMISE)
    put_if(s, ok, QUOTE, k * NP + p, 1)
    done(s, ok, P_PROMISE, k, p, 0)
    return ok


def withdraw(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """The policy takes its quote back."""
    guard(g)
    ok = and_(g, get(s, QUOTE, k * NP + p) == 1)
    put_if(s, ok, QUOTE, k * NP + p, 0)
    done(s, ok, P_WITHDRAW, k, p, 0)
    return ok


def condemn(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """The policy certifies, on its evidence, that the page won't be needed and may be deleted later."""
    guard(g)
    wanted = and_(g, get(s, OWNED, p) == 1, get(s, EVICTED, p) == 0)
    ok = and_(wanted, permit_condemn(s, wanted, k, p))
    add_if(s, and_(ok, not_(present(s, p)), get(s, QUOTE, k * NP + p) == 0), GOAL, GOAL_CONDEMNED_AWAY, 1)
    check_evidence(s, ok, k, p, P_CONDEMN)
    done(s, ok, P_CONDEMN, k, p, 0)
    return ok


def lose(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """The policy declares the page evicted: no reader expects it any more.  Only a loss that was charged
    can be declared.
    """
    guard(g)
    ok = and_(g, get(s, PAID, p) == 1, not_(present(s, p)), not_(hosted(s, p)))
    put_if(s, ok, EVICTED, p, 1)
    done(s, ok, P_LOSE, k, p, 0)
    return ok
