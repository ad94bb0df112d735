"""Device frames: how a page takes one and lets go of it; frames that pages and the index share; the fence."""

from __future__ import annotations

from fuzzkv.semantics.facts import in_flight_on_device, slot
from fuzzkv.semantics.vocabulary import *


def take(s: State, g: Bool, p: PageId, frame: DeviceFrame, tag: Int, precision: Int) -> None:
    """The page takes a free device frame and its bytes are written there by the device, in stream order."""
    guard(g)
    put_if(s, g, DEV, p, frame)
    put_if(s, g, D_PAGE, frame, p)
    put_if(s, g, D_TAG, frame, tag)
    put_if(s, g, D_PREC, frame, precision)
    put_if(s, g, D_FILL, frame, 1)
    put_if(s, g, D_REF, frame, 1)
    put_if(s, g, D_DMA, frame, 0)
    # A payload that is written anew isn't coded; scales that stood beside the old one still stand.
    put_if(s, g, D_CODED, frame, 0)


def reserve(s: State, g: Bool, p: PageId, frame: DeviceFrame) -> None:
    """The page takes a free device frame that a copy will fill."""
    guard(g)
    put_if(s, g, DEV, p, frame)
    put_if(s, g, D_PAGE, frame, p)
    put_if(s, g, D_FILL, frame, 0)
    put_if(s, g, D_TAG, frame, 0)
    put_if(s, g, D_PREC, frame, EXACT)
    put_if(s, g, D_REF, frame, 1)
    put_if(s, g, D_CODED, frame, 0)


def share(s: State, g: Bool, p: PageId, frame: DeviceFrame) -> None:
    """The page maps a frame that others refer to as well."""
    guard(g)
    put_if(s, g, DEV, p, frame)
    put_if(s, and_(g, get(s, D_PAGE, frame) == CACHED), D_PAGE, frame, p)
    add_if(s, g, D_REF, frame, 1)


def heir(s: State, frame: DeviceFrame, p: PageId) -> PageId:
    """Another page that maps the frame, or ``CACHED`` if only the index refers to it."""
    found = CACHED
    for q in each(NP):
        found = ite(and_(q != p, get(s, DEV, q) == frame), q, found)
    return found


def empty(s: State, g: Bool, frame: DeviceFrame) -> None:
    """The frame goes back to its pool, or waits for the fence where frees are deferred."""
    guard(g)
    put_if(s, g, D_PAGE, frame, ite(get(s, DEFER, 0) == 1, PENDING, FREE))
    put_if(s, g, D_TAG, frame, 0)
    put_if(s, g, D_FILL, frame, 0)
    put_if(s, g, D_REF, frame, 0)
    # The next owner's payload isn't encoded, whatever scales still stand beside it.
    put_if(s, g, D_CODED, frame, 0)


def clear_scales(s: State, g: Bool, frame: DeviceFrame) -> None:
    """A clean free resets the frame's scales with its payload."""
    guard(and_(g, or_(get(s, D_SIDE, frame) != 0, get(s, D_CODED, frame) != 0)))
    put_if(s, g, D_SIDE, frame, 0)
    put_if(s, g, D_CODED, frame, 0)


def let_go(s: State, g: Bool, p: PageId) -> None:
    """The page lets go of its device frame; whoever else refers to the frame keeps it."""
    d = get(s, DEV, p)
    held = and_(g, d >= 0)
    guard(held)
    frame = slot(d)
    shared = and_(held, get(s, D_REF, frame) > 1)
    put_if(s, held, DEV, p, -1)
    last = and_(held, not_(shared))
    empty(s, last, frame)
    clear_scales(s, last, frame)
    guard(shared)
    add_if(s, shared, D_REF, frame, -1)
    put_if(s, and_(shared, get(s, D_PAGE, frame) == p), D_PAGE, frame, heir(s, frame, p))


def pass_fence(s: State, g: Bool) -> None:
    """No step but those that ran ahead is in flight: frames whose free was deferred are free now, but for those
    that something in flight still reads or writes.
    """
    fenced = and_(g, get(s, DEFER, 0) == 1)
    guard(fenced)
    for f in each(ND):
        skip(get(s, D_PAGE, f) == PENDING)
        passed = and_(get(s, D_PAGE, f) == PENDING, not_(in_flight_on_device(s, f)))
        put_if(s, and_(fenced, passed), D_PAGE, f, FREE)


def free_or_pending(s: State) -> Int:
    """How many device frames are free, or will be once the fence passes."""
    n = 0
    for i in each(ND):
        n = n + ite(or_(get(s, D_PAGE, i) == FREE, get(s, D_PAGE, i) == PENDING), 1, 0)
    return n
