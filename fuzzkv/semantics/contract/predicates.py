"""The checks of the invariants: each is made where it can first become false, on the page that was touched.

``semantics.contract.invariants`` has their rules in words, their severity and what implies them.
"""

from __future__ import annotations

from fuzzkv.semantics.contract.clauses import refuse
from fuzzkv.semantics.facts import device_exact, host_exact, quoted, request_of, slot, tag_of
from fuzzkv.semantics.identity import blame
from fuzzkv.semantics.vocabulary import *


def violate(
    s: State, g: Bool, invariant: InvariantId, k: PolicyId, p: PageId, primitive: PrimitiveId
) -> None:
    """Record that an invariant is broken: how often, and where it happened first."""
    guard(g)
    first = and_(g, get(s, V_COUNT, invariant) == 0)
    add_if(s, g, V_COUNT, invariant, 1)
    put_if(s, first, V_EVENT, invariant, get(s, EVENT, 0))
    put_if(s, first, V_STAMP, invariant, get(s, PRIMS, 0))
    put_if(s, first, V_PAGE, invariant, p)
    put_if(s, first, V_ACTOR, invariant, k)
    put_if(s, first, V_PRIM, invariant, primitive)


def hazard(
    s: State,
    g: Bool,
    bad: Bool,
    clause: ClauseId,
    invariant: InvariantId,
    k: PolicyId,
    p: PageId,
    primitive: PrimitiveId,
) -> Bool:
    """An act that breaks an invariant if ``bad``: with the contract enforced it is refused under its clause,
    otherwise the violation is recorded.  Returns whether the act goes on.
    """
    guard(g)
    refused = refuse(s, and_(g, bad), clause)
    violate(s, and_(g, bad, not_(refused)), invariant, k, p, primitive)
    return not_(refused)


def check_authority(s: State, g: Bool, k: PolicyId, p: PageId, primitive: PrimitiveId) -> None:
    """I1: while a policy quotes a page as exactly recoverable, an exact copy of it exists."""
    guard(g)
    violate(s, and_(g, quoted(s, p), not_(device_exact(s, p)), not_(host_exact(s, p))), I1, k, p, primitive)


def check_fence(s: State, g: Bool, k: PolicyId, p: PageId, primitive: PrimitiveId) -> None:
    """I2: a frame doesn't return to its pool while a copy in flight reads or fills it (``g`` says that one
    does).
    """
    violate(s, g, I2, k, p, primitive)


def check_read(s: State, g: Bool, p: PageId, tag: Int) -> None:
    """I2 to I7 and I9: what is read is what the page's reader expects; if it isn't, its tag says why."""
    wrong = and_(g, tag != tag_of(s, p))
    guard(wrong)
    cause = blame(tag, tag_of(s, p))
    for i in each(NINV):
        violate(s, and_(wrong, cause == i), i, NOBODY, p, P_READ)


def check_snapshot(s: State, g: Bool, j: CopyId, d: DeviceFrame) -> None:
    """I4: the bytes that a store delivers are those that the page had when the store began."""
    guard(g)
    changed = or_(get(s, D_TAG, d) != get(s, J_TAG, j), get(s, D_PREC, d) != get(s, J_PREC, j))
    violate(s, and_(g, changed), I4, get(s, J_BY, j), get(s, J_PAGE, j), P_END_STORE)


def check_conservation(s: State, g: Bool, p: PageId) -> None:
    """I11: a page and its frame name each other, on both tiers; a frame that several refer to names one of its
    pages.
    """
    guard(g)
    d = get(s, DEV, p)
    h = get(s, HOST, p)
    owner = get(s, D_PAGE, slot(d))
    shared = and_(owner >= 0, get(s, D_REF, slot(d)) > 1, get(s, DEV, slot(owner)) == d)
    bad_device = and_(d >= 0, owner != p, not_(shared))
    bad_host = and_(h >= 0, get(s, H_PAGE, slot(h)) != p)
    violate(s, and_(g, or_(bad_device, bad_host)), I11, NOBODY, p, 0)


def check_claim(s: State, g: Bool, k: PolicyId, p: PageId, primitive: PrimitiveId) -> None:
    """I12: a quote is true when it is given: the exact bytes can be had."""
    guard(g)
    violate(s, and_(g, not_(device_exact(s, p)), not_(host_exact(s, p))), I12, k, p, primitive)


def check_served(s: State, g: Bool, p: PageId) -> None:
    """I1 and I12: a page that a reader asks for, and that nobody declared evicted, is somewhere (``g``: it is
    nowhere).
    """
    violate(s, g, I1, NOBODY, p, P_READ)
    violate(s, and_(g, quoted(s, p)), I12, NOBODY, p, P_READ)


def check_latency(s: State, g: Bool, p: PageId, ticks: Int, late: Int) -> None:
    """I14: a step, the recovery that it waits for included, keeps the latency objective (and the tolerance
    that an engine can resolve); lateness of the link itself isn't charged.
    """
    violate(s, and_(g, ticks > get(s, OBJECTIVE, 0) + get(s, TOLERANCE, 0) + late), I14, NOBODY, p, P_STEP)


def check_failed_closed(s: State, g: Bool, k: PolicyId, p: PageId, frame: DeviceFrame) -> None:
    """I16: after a failed copy its target doesn't count as filled."""
    guard(g)
    violate(
        s,
        and_(g, get(s, D_PAGE, frame) == p, get(s, D_FILL, frame) == 1, get(s, D_TAG, frame) == 0),
        I16,
        k,
        p,
        P_FAIL_COPY,
    )


def check_evidence(s: State, g: Bool, k: PolicyId, p: PageId, primitive: PrimitiveId) -> None:
    """I17: who condemns a page has seen it read within the horizon of the evidence."""
    guard(g)
    stale = get(s, LIFE, p) - get(s, SEEN, p) > get(s, MF_HORIZON, k)
    violate(s, and_(g, stale), I17, k, p, primitive)


def check_budget_of_quality(s: State, g: Bool, k: PolicyId, p: PageId) -> None:
    """I18: the losses charged to a request stay within its budget (and the headroom that an engine can
    resolve).
    """
    guard(g)
    over = get(s, R_LOSS, request_of(p)) > get(s, LEDGER, 0) + get(s, HEADROOM, 0)
    violate(s, and_(g, over), I18, k, p, P_DROP_HOST)
