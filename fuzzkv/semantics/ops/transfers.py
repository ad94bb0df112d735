"""Operations on transfers besides host copies: steps that ran ahead, receives from a peer, copies to and from an external
store, and the claim that a page has arrived.
"""

from __future__ import annotations

from fuzzkv.semantics.contract.clauses import permit_copy, permit_frame, refuse
from fuzzkv.semantics.contract.predicates import check_failed_closed, violate
from fuzzkv.semantics.copies import done, fly, launch
from fuzzkv.semantics.facts import free_device_frame, free_job, page_in_flight, present, running, slot, to_do
from fuzzkv.semantics.frames import let_go, reserve
from fuzzkv.semantics.identity import key_of, same_text
from fuzzkv.semantics.vocabulary import *


def run_ahead(s: State, g: Bool, k: PolicyId, r: SessionId) -> Bool:
    """A second device step of the session is launched before the first one's end: when it ends it writes the
    session's newest page, whoever has the frame then.  Device writes keep their order; copies don't wait for
    them.
    """
    guard(g)
    p = r * PAGES + get(s, R_N, r) - 1
    j = free_job(s)
    ok = and_(g, running(s, r), j >= 0, get(s, R_N, r) > 0, present(s, slot(p)))
    place = slot(j)
    page = slot(p)
    end = get(s, NOW, 0) + 2 * get(s, STEP_COST, 0)
    fly(s, ok, k, page, RUN, place, 0, slot(get(s, DEV, page)), end)
    put_if(s, ok, J_TAG, place, get(s, WANT, page))
    done(s, ok, P_RUN_AHEAD, k, page, 0)
    return ok


def receive(s: State, g: Bool, k: PolicyId, p: PageId, lease: Int) -> Bool:
    """A page that is still to be computed is received from a peer instead.

    The sender is the other session if it has the same text and the page, else a peer outside that computed
    the page as its reader expects it.  ``lease``: ticks for which the sender holds the page (0: until it has
    arrived).
    """
    guard(g)
    f = free_device_frame(s)
    j = free_job(s)
    can = and_(g, to_do(s, p), f >= 0, j >= 0, not_(page_in_flight(s, p)))
    ok = and_(can, permit_frame(s, can, f))
    r = div(p, PAGES)
    twin = p + (1 - 2 * r) * PAGES
    sender = and_(
        get(s, OWNED, twin) == 1, get(s, R_TEXT, 1 - r) == get(s, R_TEXT, r), get(s, TODO, twin) == 0
    )
    source = ite(and_(sender, present(s, twin)), get(s, DEV, twin), -1)
    place = slot(j)
    fly(s, ok, k, p, RECEIVE, place, source, slot(f), get(s, NOW, 0) + get(s, PAGE_COST, 0))
    # The sender holds the bytes as they are now.
    held = slot(source)
    put_if(s, ok, J_TAG, place, ite(source >= 0, get(s, D_TAG, held), get(s, WANT, p)))
    put_if(s, ok, J_PREC, place, ite(source >= 0, get(s, D_PREC, held), EXACT))
    put_if(s, ok, LEASE, place, ite(lease > 0, get(s, NOW, 0) + lease, 0))
    reserve(s, ok, p, slot(f))
    done(s, ok, P_RECEIVE, k, p, get(s, PAGE_COST, 0))
    return ok


def spilled_into(s: State, x: EntryId) -> Bool:
    """Whether a copy to the external store is in flight for the entry."""
    n = 0
    for j in each(NJ):
        n = ite(and_(get(s, J_KIND, j) == SPILL, get(s, J_DST, j) == x), 1, n)
    return n == 1


def free_entry(s: State) -> EntryId:
    """The lowest free entry of the index, or -1; one that was taken out while its copy is in flight isn't free
    before that has ended.
    """
    x = -1
    for i in each(NX):
        x = ite(and_(x < 0, get(s, X_KEY, i) == 0, not_(spilled_into(s, i))), i, x)
    return x


def entry_of(s: State, key: Int) -> EntryId:
    """The index entry of a key, or -1."""
    x = -1
    for i in each(NX):
        x = ite(and_(x < 0, get(s, X_KEY, i) == key), i, x)
    return x


def spill(s: State, g: Bool, k: PolicyId, p: PageId, covers: Int, early: Int) -> Bool:
    """A copy of the page to an external store begins, under a key that covers the components in ``covers``.

    Its index entry is visible when the copy has ended; with ``early`` above 0 at once, whatever becomes of
    the copy.
    """
    guard(g)
    x = free_entry(s)
    j = free_job(s)
    key = key_of(get(s, WANT, p), covers)
    fresh = and_(entry_of(s, key) < 0, entry_of(s, -key) < 0)
    can = and_(g, present(s, p), x >= 0, j >= 0, fresh, not_(page_in_flight(s, p)))
    unsure = refuse(s, and_(can, early > 0), C_FAIL_CLOSED)
    ok = and_(can, not_(unsure), permit_copy(s, can, k))
    entry = slot(x)
    place = slot(j)
    frame = slot(get(s, DEV, p))
    launch(s, ok, k, p, SPILL, place, frame, entry)
    put_if(s, ok, J_TAG, place, get(s, D_TAG, frame))
    put_if(s, ok, J_PREC, place, get(s, D_PREC, frame))
    put_if(s, ok, X_KEY, entry, ite(early > 0, key, -key))
    put_if(s, ok, X_TIER, entry, ON_STORE)
    put_if(s, ok, X_FRAME, entry, -1)
    put_if(s, ok, X_TAG, entry, get(s, WANT, p))
    put_if(s, ok, X_FULL, entry, 0)
    put_if(s, ok, X_BY, entry, k)
    done(s, ok, P_SPILL, k, p, get(s, PAGE_COST, 0))
    return ok


def trust(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """The policy counts a page whose copy to the device is in flight as valid, before the copy has ended."""
    d = get(s, DEV, p)
    can = and_(g, d >= 0, get(s, D_FILL, slot(d)) == 0, page_in_flight(s, p))
    guard(can)
    ok = and_(can, not_(refuse(s, can, C_FAIL_CLOSED)))
    put_if(s, ok, D_FILL, slot(d), 1)
    done(s, ok, P_TRUST, k, p, 0)
    return ok


def deliver(s: State, g: Bool, j: CopyId) -> None:
    """A step that ran ahead, a receive, or a copy to or from the external store ends."""
    guard(g)
    p = get(s, J_PAGE, j)
    k = get(s, J_BY, j)
    kind = get(s, J_KIND, j)
    expired = and_(kind == RECEIVE, get(s, LEASE, j) > 0, get(s, J_END, j) > get(s, LEASE, j))
    good = and_(get(s, J_FAIL, j) == 0, not_(expired))

    # A late write of the device lands on bytes that a copy has brought for somebody else.  On its own page it
    # writes in order with the device's other writes.
    ran = and_(g, kind == RUN)
    target = ite(ran, get(s, J_DST, j), 0)
    copied = and_(get(s, D_FILL, target) == 1, get(s, D_DMA, target) == 1)
    owner = slot(get(s, D_PAGE, target))
    foreign = not_(same_text(get(s, J_TAG, j), get(s, WANT, owner)))
    landed = and_(ran, copied, foreign, get(s, D_PAGE, target) >= 0)
    put_if(s, landed, D_TAG, target, get(s, J_TAG, j))
    violate(s, landed, I2, k, owner, P_RUN_AHEAD)

    into = and_(g, or_(kind == RECEIVE, kind == FETCH))
    frame = ite(into, get(s, J_DST, j), 0)
    home = and_(into, get(s, D_PAGE, frame) == p)
    x = ite(kind == FETCH, get(s, J_SRC, j), 0)
    kept = ite(get(s, X_FULL, x) == 1, get(s, X_TAG, x), 0)
    arrived = and_(home, good)
    put_if(s, arrived, D_TAG, frame, ite(kind == RECEIVE, get(s, J_TAG, j), kept))
    put_if(s, arrived, D_PREC, frame, ite(kind == RECEIVE, get(s, J_PREC, j), EXACT))
    put_if(s, arrived, D_FILL, frame, 1)
    put_if(s, arrived, D_DMA, frame, 1)
    lost = and_(home, not_(good))
    let_go(s, and_(lost, get(s, D_FILL, frame) == 0), p)
    check_failed_closed(s, lost, k, p, frame)

    out = and_(g, kind == SPILL)
    entry = ite(out, get(s, J_DST, j), 0)
    source = ite(out, get(s, J_SRC, j), 0)
    stored = and_(out, good, get(s, X_KEY, entry) != 0)
    changed = or_(get(s, D_TAG, source) != get(s, J_TAG, j), get(s, D_PREC, source) != get(s, J_PREC, j))
    violate(s, and_(stored, changed), I4, k, p, P_END_COPY)
    put_if(s, stored, X_TAG, entry, get(s, D_TAG, source))
    put_if(s, stored, X_FULL, entry, 1)
    put_if(s, and_(stored, get(s, X_KEY, entry) < 0), X_KEY, entry, 0 - get(s, X_KEY, entry))
    put_if(s, and_(out, not_(good), get(s, X_KEY, entry) < 0), X_KEY, entry, 0)
    done(s, and_(g, good), P_END_COPY, k, p, kind)
    done(s, and_(g, not_(good)), P_FAIL_COPY, NOBODY, p, 0)
