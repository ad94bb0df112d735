"""Cache groups beside full attention: recurrent state with checkpoints at page boundaries, and ring buffers.

With them a session's reusable prefix is a vector, one boundary a group, and not a number.
"""

from __future__ import annotations

from fuzzkv.semantics.contract.predicates import hazard, violate
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.facts import running, slot, waiting
from fuzzkv.semantics.vocabulary import *


def split_groups(s: State, g: Bool, k: PolicyId, r: SessionId) -> Bool:
    """The session gets a recurrent group beside full attention."""
    ok = and_(g, get(s, R_ACTIVE, r) == 1, get(s, GROUP, r) == 0)
    guard(ok)
    put_if(s, ok, GROUP, r, 1)
    put_if(s, ok, G_AT, r, ite(running(s, r), get(s, R_N, r), 0))
    # What was resumed before, without this group, is no boundary of it.
    put_if(s, ok, R_BOUND, r, 0)
    done(s, ok, P_SPLIT_GROUPS, k, r * PAGES, 0)
    return ok


def checkpoint(s: State, g: Bool, k: PolicyId, r: SessionId) -> Bool:
    """The recurrent state is kept at the boundary where it stands: after the last page, if that is full and
    accepted.  A state that has run on into drafts can't be kept any more.
    """
    n = get(s, R_N, r)
    at = r * PAGES + slot(n - 1)
    whole = and_(n > 0, get(s, R_RES, r) == 0, get(s, R_DRAFT, r) == 0)
    ok = and_(g, running(s, r), get(s, GROUP, r) == 1, whole, get(s, CKPT, at) == 0)
    guard(ok)
    put_if(s, ok, CKPT, at, 1)
    put_if(s, ok, G_AT, r, n)
    done(s, ok, P_CHECKPOINT, k, at, n)
    return ok


def kept_boundary(s: State, r: SessionId, most: Int) -> Int:
    """The largest boundary, at most ``most`` pages, at which a recurrent state was kept; 0 if none was."""
    best = 0
    for i in each(PAGES):
        best = ite(and_(i < most, get(s, CKPT, r * PAGES + i) == 1), i + 1, best)
    return best


def resume(s: State, g: Bool, k: PolicyId, r: SessionId, n: Int) -> Bool:
    """A waiting session resumes from the boundary after ``n`` pages: what each group has there is taken for
    its state.
    """
    guard(g)
    can = and_(g, waiting(s, r), n >= 0, n <= get(s, R_N, r))
    stands = kept_boundary(s, r, n)
    apart = and_(get(s, GROUP, r) == 1, stands != n)
    ok = and_(can, hazard(s, can, apart, C_BOUNDARY, I10, k, r * PAGES + slot(n - 1), P_RESUME))
    put_if(s, ok, R_BOUND, r, n)
    put_if(s, ok, G_AT, r, stands)
    done(s, ok, P_RESUME, k, r * PAGES, n)
    return ok


def make_ring(s: State, g: Bool, k: PolicyId, r: SessionId) -> Bool:
    """The session's window lies in a ring of ``WINDOW`` slots from now on."""
    ok = and_(g, running(s, r), get(s, RING, r) == 0)
    guard(ok)
    n = get(s, R_N, r)
    put_if(s, ok, RING, r, 1)
    put_if(s, ok, RING_OFF, r, n)
    put_if(s, ok, RING_IDX, r, n - div(n, WINDOW) * WINDOW)
    done(s, ok, P_MAKE_RING, k, r * PAGES, n)
    return ok


def ring_append(s: State, g: Bool, k: PolicyId, r: SessionId) -> Bool:
    """One more position is written into the ring, over its oldest one once it is full."""
    ok = and_(g, running(s, r), get(s, RING, r) == 1)
    guard(ok)
    add_if(s, ok, RING_OFF, r, 1)
    put_if(s, ok, RING_IDX, r, ite(get(s, RING_IDX, r) + 1 >= WINDOW, 0, get(s, RING_IDX, r) + 1))
    done(s, ok, P_RING_APPEND, k, r * PAGES, get(s, RING_OFF, r))
    return ok


def ring_turned(s: State, r: SessionId) -> Bool:
    """Whether the ring's next slot isn't the one that its offset says: positions and slots don't match."""
    off = get(s, RING_OFF, r)
    return and_(get(s, RING, r) == 1, get(s, RING_IDX, r) != off - div(off, WINDOW) * WINDOW)


def check_boundary(s: State, g: Bool, r: SessionId) -> None:
    """I10 and I9: a step reads every group of its session at one boundary, and a ring where its offset says."""
    guard(and_(g, or_(get(s, GROUP, r) == 1, get(s, RING, r) == 1)))
    n = get(s, R_N, r)
    beyond = and_(g, get(s, GROUP, r) == 1, get(s, G_AT, r) > n)
    violate(s, beyond, I9, NOBODY, r * PAGES, P_STEP)
    apart = and_(g, get(s, GROUP, r) == 1, get(s, R_BOUND, r) > 0, get(s, G_AT, r) != get(s, R_BOUND, r))
    violate(s, and_(apart, not_(beyond)), I10, NOBODY, r * PAGES, P_STEP)
    violate(s, and_(g, ring_turned(s, r)), I9, NOBODY, r * PAGES, P_STEP)
    # The state moves on with the step.
    put_if(s, and_(g, get(s, GROUP, r) == 1), G_AT, r, n)
    put_if(s, g, R_BOUND, r, 0)
