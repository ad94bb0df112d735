"""Sessions (vLLM's requests): opening one, with its pages computed or still to do, and closing one."""

from __future__ import annotations

from fuzzkv.semantics.contract.predicates import violate
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.facts import free_device_frame, slot, to_do
from fuzzkv.semantics.frames import let_go, take
from fuzzkv.semantics.identity import OWN_TEXT, expect, session_tag
from fuzzkv.semantics.vocabulary import *

RUNS_ON = 2
"""Pages by which the output of a queued session may run on after it has degenerated."""


def new_page(s: State, g: Bool, p: PageId) -> None:
    """A page of a session begins: nothing is known of it, and nobody has said or done anything about it."""
    guard(g)
    put_if(s, g, OWNED, p, 1)
    put_if(s, g, HOST, p, -1)
    put_if(s, g, EVICTED, p, 0)
    put_if(s, g, PAID, p, 0)
    put_if(s, g, RELEVANT, p, 1)
    put_if(s, g, ATT, p, 0)
    put_if(s, g, LIFE, p, 0)
    put_if(s, g, SEEN, p, 0)
    put_if(s, g, LAST, p, get(s, NOW, 0))
    put_if(s, g, GAP, p, 0)
    put_if(s, g, HITS, p, 0)
    put_if(s, g, TODO, p, 0)
    put_if(s, g, CERT, p, 0)
    put_if(s, g, TOUCHED, p, 0)
    for k in each(NK):
        put_if(s, g, QUOTE, k * NP + p, 0)
        put_if(s, g, MARK, k * NP + p, 0)
        put_if(s, g, DUE, k * NP + p, 0)


def open_session(s: State, g: Bool, r: SessionId, n: Int, computed: Bool, primitive: PrimitiveId) -> None:
    """A session of ``n`` pages opens in a slot that has none: its context is computed, or it waits."""
    guard(g)
    put_if(s, g, R_ACTIVE, r, 1)
    put_if(s, g, R_N, r, n)
    add_if(s, g, R_EPOCH, r, 1)
    put_if(s, g, R_LOSS, r, 0)
    put_if(s, g, R_STEPS, r, 0)
    own = OWN_TEXT + get(s, R_EPOCH, r) * NR + r
    same = and_(get(s, R_NEXT, r) > 0, get(s, R_TEXT, r) == get(s, R_NEXT, r))
    put_if(s, g, R_TEXT, r, ite(get(s, R_NEXT, r) > 0, get(s, R_NEXT, r), own))
    put_if(s, g, R_TODO, r, ite(computed, 0, n))
    put_if(s, g, RUN_ON, r, ite(computed, 0, RUNS_ON))
    put_if(s, g, R_ADAPTER, r, 0)
    put_if(s, g, R_SCHEME, r, 0)
    put_if(s, g, R_RES, r, 0)
    put_if(s, g, R_DRAFT, r, 0)
    put_if(s, g, R_ASKED, r, 0)
    put_if(s, g, HOLD, r, 0)
    put_if(s, g, GROUP, r, 0)
    put_if(s, g, G_AT, r, 0)
    put_if(s, g, R_BOUND, r, 0)
    put_if(s, g, RING, r, 0)
    for k in each(NK):
        put_if(s, g, SPENT, k * NR + r, 0)
    tag = session_tag(s, r)
    for i in each(PAGES):
        p = r * PAGES + i
        mine = and_(g, i < n)
        new_page(s, mine, p)
        put_if(s, mine, DEV, p, -1)
        put_if(s, mine, P_BRANCH, p, 0)
        put_if(s, mine, P_LINEAGE, p, 0)
        put_if(s, mine, WANT, p, tag + i)
        put_if(s, mine, TODO, p, ite(computed, 0, 1))
        # Checkpoints of other groups belong to the text.
        put_if(s, and_(mine, not_(same)), CKPT, p, 0)
        f = free_device_frame(s)
        take(s, and_(mine, computed), p, slot(f), tag + i, EXACT)
    for f in each(NH):
        violate(s, and_(g, get(s, H_PAGE, f) == ORPHAN - r), I11, NOBODY, r * PAGES, primitive)


def open_page(s: State, g: Bool, p: PageId, frame: DeviceFrame) -> None:
    """A session's text has grown over a page boundary: a new page is written into a free frame."""
    guard(g)
    new_page(s, g, p)
    put_if(s, g, CKPT, p, 0)
    take(s, g, p, frame, 0, EXACT)


def forget_host(s: State, g: Bool, p: PageId) -> None:
    """The page's host copy is given up, if no copy in flight uses it; a pinned frame stays behind without an
    owner.
    """
    h = get(s, HOST, p)
    ok = and_(g, h >= 0, get(s, BUSY, p) == 0)
    guard(ok)
    frame = slot(h)
    r = div(p, PAGES)
    put_if(s, ok, H_PAGE, frame, ite(get(s, H_PIN, frame) > 0, ORPHAN - r, FREE))
    put_if(s, ok, H_TAG, frame, 0)
    put_if(s, ok, H_FILL, frame, 0)
    put_if(s, ok, HOST, p, -1)


def close_page(s: State, g: Bool, p: PageId) -> None:
    """A page is no longer part of its session: its frames and quotes are given back."""
    guard(g)
    let_go(s, g, p)
    forget_host(s, g, p)
    put_if(s, g, OWNED, p, 0)
    put_if(s, g, TODO, p, 0)
    put_if(s, g, HOST, p, -1)
    for k in each(NK):
        put_if(s, g, QUOTE, k * NP + p, 0)
        put_if(s, g, MARK, k * NP + p, 0)


def abandon(s: State, g: Bool, r: SessionId, low: Int) -> None:
    """Copies in flight of a session's pages from ``low`` on deliver nothing, but stay on the link till their
    time; what they were to fill is given back.  A device step that ran ahead can't be called back.
    """
    guard(g)
    for j in each(NJ):
        skip(get(s, J_KIND, j) != 0)
        kind = get(s, J_KIND, j)
        p = get(s, J_PAGE, j)
        on = and_(kind != 0, kind != RUN, kind != ABANDONED)
        mine = and_(g, on, p >= r * PAGES + low, p < r * PAGES + PAGES)
        entry = ite(kind == SPILL, get(s, J_DST, j), 0)
        unseen = and_(mine, kind == SPILL, get(s, X_KEY, entry) < 0)
        put_if(s, unseen, X_KEY, entry, 0)
        add_if(s, mine, BUSY, p, -1)
        put_if(s, mine, J_KIND, j, ABANDONED)
        h = ite(kind == STORE, get(s, J_DST, j), 0)
        unstored = and_(mine, kind == STORE, get(s, HOST, p) == h)
        put_if(s, unstored, H_PAGE, h, FREE)
        put_if(s, unstored, HOST, p, -1)
        to_device = or_(kind == LOAD, kind == RECEIVE, kind == FETCH)
        d = ite(to_device, get(s, J_DST, j), 0)
        let_go(s, and_(mine, to_device, get(s, DEV, p) == d, get(s, D_FILL, d) == 0), p)


def close_session(s: State, g: Bool, r: SessionId) -> None:
    """A session ends: its frames and quotes are given back; what the index refers to stays cached."""
    guard(g)
    put_if(s, g, R_ACTIVE, r, 0)
    put_if(s, g, R_TODO, r, 0)
    abandon(s, g, r, 0)
    for i in each(PAGES):
        p = r * PAGES + i
        skip(get(s, OWNED, p) == 1)
        close_page(s, and_(g, get(s, OWNED, p) == 1), p)


def compute(s: State, g: Bool, r: SessionId) -> None:
    """The device computes the pages of a session that are still to do, into free frames.

    What is computed anew behind exact pages is exact, whatever it was computed behind before; and so is expected
    of what was brought from elsewhere for the pages behind it.
    """
    guard(g)
    anew = 0
    lossy = 0
    for i in each(PAGES):
        p = r * PAGES + i
        skip(i < get(s, R_N, r))
        mine = and_(g, i < get(s, R_N, r), get(s, TODO, p) == 1)
        fresh = and_(mine, get(s, DEV, p) < 0)
        anew = ite(fresh, 1, anew)
        exact = and_(mine, anew == 1, lossy == 0)
        put_if(s, exact, P_LINEAGE, p, 0)
        expect(s, or_(fresh, exact), r, i)
        take(s, fresh, p, slot(free_device_frame(s)), get(s, WANT, p), EXACT)
        put_if(s, mine, TODO, p, 0)
        coarse = and_(get(s, DEV, p) >= 0, get(s, D_PREC, slot(get(s, DEV, p))) != EXACT)
        lossy = ite(or_(get(s, EVICTED, p) == 1, coarse), 1, lossy)
    put_if(s, g, R_TODO, r, 0)
    done(s, g, P_PREFILL, NOBODY, r * PAGES, get(s, R_N, r))


def missing_frames(s: State, r: SessionId) -> Int:
    """Device frames that a waiting session still needs."""
    n = 0
    for i in each(PAGES):
        n = n + ite(to_do(s, r * PAGES + i), 1, 0)
    return n


def coming_pages(s: State, r: SessionId) -> Int:
    """Pages of a waiting session that are on their way to the device."""
    n = 0
    for i in each(PAGES):
        p = r * PAGES + i
        d = get(s, DEV, p)
        away = and_(get(s, TODO, p) == 1, d >= 0, get(s, D_FILL, slot(d)) == 0)
        n = n + ite(away, 1, 0)
    return n
