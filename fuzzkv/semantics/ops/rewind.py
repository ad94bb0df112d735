"""Operations of rewind: abort, rollback, fork and crop of a session's text, and what they do to the cache."""

from __future__ import annotations

from fuzzkv.semantics.contract.clauses import refuse
from fuzzkv.semantics.contract.predicates import hazard
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.facts import present, running, slot
from fuzzkv.semantics.frames import let_go, share
from fuzzkv.semantics.identity import T_BRANCH, expect, next_in_field
from fuzzkv.semantics.ops.admission import in_use
from fuzzkv.semantics.ops.index import part
from fuzzkv.semantics.sessions import abandon, close_page, close_session, forget_host
from fuzzkv.semantics.vocabulary import *


def abort(s: State, g: Bool, r: SessionId, i: Int) -> None:
    """The user takes the text back from page ``i`` on and writes another one; a rewinding policy may act on
    it.
    """
    ok = and_(g, running(s, r), i < get(s, R_N, r))
    guard(ok)
    put_if(s, ok, R_ASKED, r, i + 1)


def leaves_behind(s: State, r: SessionId, n: Int, parts: Int) -> Bool:
    """Whether a rewind to ``n`` pages would leave bytes of the old branch where readers find them."""
    here = 0
    there = 0
    for i in each(PAGES):
        p = r * PAGES + i
        mine = and_(i >= n, i < get(s, R_N, r))
        here = ite(and_(mine, get(s, DEV, p) >= 0), 1, here)
        there = ite(and_(mine, get(s, HOST, p) >= 0), 1, there)
    device = and_(here == 1, or_(not_(part(parts, DEVICE_PART)), get(s, HOLD, r) == 1))
    return or_(device, and_(there == 1, not_(part(parts, HOST_PART))))


def rewind(s: State, g: Bool, k: PolicyId, r: SessionId, n: Int, parts: Int) -> Bool:
    """The session goes back to its first ``n`` pages; the others are pages of another branch from now on, of
    the same length.

    ``parts`` says what is restored: device pages, host copies, index entries, the state of other groups
    (drafts, checkpoints).  What isn't stays as it was.  A session on which a handle is held (``hold``) keeps
    its device pages in any case.
    """
    guard(g)
    can = and_(g, running(s, r), n < get(s, R_N, r), get(s, R_DRAFT, r) == 0)
    fenced = hazard(s, can, and_(part(parts, DEVICE_PART), in_use(s, r)), C_FENCE, I2, k, r * PAGES, P_REWIND)
    residue = and_(get(s, GROUP, r) == 1, get(s, G_AT, r) > n, not_(part(parts, STATE_PART)))
    restored = hazard(s, can, residue, C_BOUNDARY, I9, k, r * PAGES + n, P_REWIND)
    left = refuse(s, and_(can, leaves_behind(s, r, n, parts)), C_BOUNDARY)
    ok = and_(can, fenced, restored, not_(left))
    abandon(s, and_(ok, part(parts, HOST_PART)), r, n)
    put_if(s, ok, R_ASKED, r, 0)
    put_if(s, ok, R_RES, r, 0)
    for i in each(PAGES):
        p = r * PAGES + i
        mine = and_(ok, i >= n, i < get(s, R_N, r))
        put_if(s, mine, P_BRANCH, p, next_in_field(get(s, P_BRANCH, p), 8))
        put_if(s, mine, P_LINEAGE, p, 0)
        expect(s, mine, r, i)
        back = and_(mine, part(parts, DEVICE_PART), get(s, HOLD, r) != 1)
        let_go(s, back, p)
        put_if(s, back, TODO, p, 1)
        # What was lost was the old branch's.
        put_if(s, back, EVICTED, p, 0)
        put_if(s, back, PAID, p, 0)
        add_if(s, back, R_TODO, r, 1)
        forget_host(s, and_(mine, part(parts, HOST_PART)), p)
        put_if(s, and_(mine, part(parts, STATE_PART)), CKPT, p, 0)
    put_if(s, and_(ok, part(parts, STATE_PART), get(s, G_AT, r) > n), G_AT, r, n)
    for x in each(NX):
        # An entry whose key covers the branch is never found for the new one; the others go here.
        mine = and_(ok, part(parts, INDEX_PART), get(s, X_KEY, x) > 0, get(s, X_TIER, x) == ON_STORE)
        gone = 0
        for i in each(PAGES):
            p = r * PAGES + i
            gone = ite(and_(i >= n, i < get(s, R_N, r), stale_entry(s, x, p)), 1, gone)
        put_if(s, and_(mine, gone == 1), X_KEY, x, 0)
    done(s, ok, P_REWIND, k, r * PAGES + n, parts)
    return ok


def stale_entry(s: State, x: EntryId, p: PageId) -> Bool:
    """Whether an entry holds the bytes that the page had before its branch changed."""
    return get(s, X_TAG, x) == get(s, WANT, p) - T_BRANCH


def carry(s: State, g: Bool, column: PageColumn, child: PageId, parent: PageId) -> None:
    """A branch's page starts with what is known of its parent's."""
    put_if(s, g, column, child, get(s, column, parent))


def fork(s: State, g: Bool, k: PolicyId, r: SessionId, own_tail: Int) -> Bool:
    """The other session becomes a branch of this one: it maps the same frames; pages that aren't on the device
    are computed again.

    ``own_tail`` above 0: the last page, which both will write to, isn't shared.  If the other session is
    open, it ends (a beam takes its place).
    """
    guard(g)
    ok = and_(g, running(s, r), get(s, R_DRAFT, r) == 0)
    q = 1 - r
    close_session(s, and_(ok, get(s, R_ACTIVE, q) == 1), q)
    put_if(s, ok, R_ACTIVE, q, 1)
    put_if(s, ok, R_N, q, get(s, R_N, r))
    add_if(s, ok, R_EPOCH, q, 1)
    put_if(s, ok, R_TEXT, q, get(s, R_TEXT, r))
    put_if(s, ok, R_RES, q, get(s, R_RES, r))
    put_if(s, ok, R_ADAPTER, q, get(s, R_ADAPTER, r))
    put_if(s, ok, R_SCHEME, q, get(s, R_SCHEME, r))
    put_if(s, ok, R_TODO, q, 0)
    put_if(s, ok, R_LOSS, q, get(s, R_LOSS, r))
    put_if(s, ok, R_STEPS, q, 0)
    put_if(s, ok, R_DRAFT, q, 0)
    put_if(s, ok, R_ASKED, q, 0)
    put_if(s, ok, RUN_ON, q, 0)
    put_if(s, ok, GROUP, q, 0)
    put_if(s, ok, RING, q, 0)
    put_if(s, ok, HOLD, q, ite(own_tail > 0, 0, 2))
    put_if(s, and_(ok, own_tail == 0), HOLD, r, 2)
    for o in each(NK):
        put_if(s, ok, SPENT, o * NR + q, get(s, SPENT, o * NR + r))
    for i in each(PAGES):
        p = r * PAGES + i
        c = q * PAGES + i
        mine = and_(ok, i < get(s, R_N, r))
        carry(s, mine, OWNED, c, p)
        carry(s, mine, EVICTED, c, p)
        carry(s, mine, PAID, c, p)
        carry(s, mine, RELEVANT, c, p)
        carry(s, mine, ATT, c, p)
        carry(s, mine, LIFE, c, p)
        carry(s, mine, SEEN, c, p)
        carry(s, mine, LAST, c, p)
        carry(s, mine, GAP, c, p)
        carry(s, mine, HITS, c, p)
        carry(s, mine, P_BRANCH, c, p)
        carry(s, mine, P_LINEAGE, c, p)
        carry(s, mine, WANT, c, p)
        put_if(s, mine, DEV, c, -1)
        put_if(s, mine, HOST, c, -1)
        put_if(s, mine, TODO, c, 0)
        put_if(s, mine, CERT, c, 0)
        put_if(s, mine, CKPT, c, 0)
        shared = and_(mine, present(s, p), or_(i < get(s, R_N, r) - 1, own_tail == 0))
        share(s, shared, c, slot(get(s, DEV, p)))
        again = and_(mine, not_(shared), get(s, EVICTED, p) == 0)
        put_if(s, again, TODO, c, 1)
        add_if(s, again, R_TODO, q, 1)
        for o in each(NK):
            put_if(s, mine, QUOTE, o * NP + c, 0)
            put_if(s, mine, MARK, o * NP + c, 0)
            put_if(s, mine, DUE, o * NP + c, 0)
    done(s, ok, P_FORK, k, q * PAGES, own_tail)
    return ok


def trim(s: State, g: Bool, k: PolicyId, r: SessionId, n: Int) -> Bool:
    """The session is cropped to its first ``n`` pages by cutting its arrays there.

    Where positions and slots are the same that is all; a ring that has wrapped isn't cut where its offset
    says.
    """
    guard(g)
    can = and_(g, running(s, r), get(s, R_DRAFT, r) == 0, n > 0, n < get(s, R_N, r))
    wrapped = and_(get(s, RING, r) == 1, get(s, RING_OFF, r) > WINDOW)
    ok = and_(can, hazard(s, can, wrapped, C_BOUNDARY, I9, k, r * PAGES + n, P_TRIM))
    abandon(s, ok, r, n)
    put_if(s, and_(ok, get(s, RING, r) == 1), RING_OFF, r, n)
    put_if(s, and_(ok, get(s, RING, r) == 1, not_(wrapped)), RING_IDX, r, n - div(n, WINDOW) * WINDOW)
    for i in each(PAGES):
        close_page(s, and_(ok, i >= n, i < get(s, R_N, r)), r * PAGES + i)
    put_if(s, ok, R_N, r, n)
    put_if(s, ok, R_RES, r, 0)
    put_if(s, and_(ok, get(s, R_ASKED, r) > n), R_ASKED, r, 0)
    put_if(s, and_(ok, get(s, G_AT, r) > n), G_AT, r, n)
    done(s, ok, P_TRIM, k, r * PAGES + n, n)
    return ok
