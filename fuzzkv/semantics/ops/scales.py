"""Operations on layouts and scales: the layout of a frame's bytes, and the scales without which a coded payload is garbled."""

from __future__ import annotations

from fuzzkv.semantics.contract.clauses import refuse
from fuzzkv.semantics.contract.predicates import hazard
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.facts import hosted, in_flight_on_device, page_in_flight, present, slot
from fuzzkv.semantics.identity import T_LAYOUT
from fuzzkv.semantics.vocabulary import *


def relayout(s: State, g: Bool, k: PolicyId, layout: Int) -> Bool:
    """The device pool is laid out anew (0 to 3), with all that is in it; copies elsewhere keep the layout in
    which they were made.
    """
    can = and_(g, get(s, LAYOUT, 0) != layout)
    guard(can)
    elsewhere = 0
    for p in each(NP):
        elsewhere = ite(or_(get(s, HOST, p) >= 0, get(s, BUSY, p) > 0), 1, elsewhere)
    ok = and_(can, not_(refuse(s, and_(can, elsewhere == 1), C_LAYOUT)))
    shift = (layout - get(s, LAYOUT, 0)) * T_LAYOUT
    put_if(s, ok, LAYOUT, 0, layout)
    for p in each(NP):
        add_if(s, and_(ok, get(s, OWNED, p) == 1), WANT, p, shift)
    for f in each(ND):
        add_if(s, and_(ok, get(s, D_TAG, f) > 0), D_TAG, f, shift)
        add_if(s, and_(ok, get(s, D_SIDE, f) > 0), D_SIDE, f, shift)
    for x in each(NX):
        add_if(s, and_(ok, get(s, X_KEY, x) != 0, get(s, X_TIER, x) == ON_DEVICE), X_TAG, x, shift)
    done(s, ok, P_RELAYOUT, k, -1, layout)
    return ok


def write_scale(s: State, g: Bool, k: PolicyId, p: PageId, layout: Int) -> Bool:
    """The page's scales are written beside its payload, where they lie in a pool of this layout.

    A frame's scales are written once: where some stand already nothing happens.  In a pool of another layout
    they land on somebody's payload.
    """
    d = get(s, DEV, p)
    frame = slot(d)
    can = and_(g, present(s, p), get(s, D_SIDE, frame) == 0, get(s, D_CODED, frame) == 0)
    guard(can)
    astray = get(s, LAYOUT, 0) != layout
    ok = and_(can, hazard(s, can, astray, C_LAYOUT, I5, k, p, P_WRITE_SCALE))
    put_if(s, and_(ok, astray), D_TAG, frame, GARBLED)
    put_if(s, and_(ok, not_(astray)), D_SIDE, frame, get(s, D_TAG, frame))
    done(s, ok, P_WRITE_SCALE, k, p, layout)
    return ok


def encode(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """The page's payload is rewritten in place at 8 bits, to be read with the scales that stand beside it."""
    d = get(s, DEV, p)
    frame = slot(d)
    idle = not_(in_flight_on_device(s, frame))
    can = and_(g, present(s, p), get(s, D_CODED, frame) == 0, get(s, D_SIDE, frame) != 0, idle)
    guard(can)
    foreign = get(s, D_SIDE, frame) != get(s, D_TAG, frame)
    ok = and_(can, hazard(s, can, foreign, C_LAYOUT, I6, k, p, P_ENCODE))
    put_if(s, ok, D_CODED, frame, 1)
    put_if(s, and_(ok, get(s, D_PREC, frame) == EXACT), D_PREC, frame, INT8)
    put_if(s, and_(ok, foreign), D_TAG, frame, SKEWED)
    done(s, ok, P_ENCODE, k, p, INT8)
    return ok


def forget_scale(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """The host copy of an encoded page is kept without its scales: its payload alone is worth nothing."""
    h = get(s, HOST, p)
    d = get(s, DEV, p)
    coded = and_(present(s, p), get(s, D_CODED, slot(d)) == 1)
    can = and_(g, hosted(s, p), coded, not_(page_in_flight(s, p)), get(s, H_TAG, slot(h)) != SKEWED)
    guard(can)
    ok = and_(can, not_(refuse(s, can, C_LAYOUT)))
    put_if(s, ok, H_TAG, slot(h), SKEWED)
    done(s, ok, P_FORGET_SCALE, k, p, 0)
    return ok
