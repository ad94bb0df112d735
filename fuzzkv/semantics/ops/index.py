"""The prefix index: what is published under which key, what a lookup finds, and what a tier says it serves."""

from __future__ import annotations

from fuzzkv.semantics.contract.clauses import permit_frame
from fuzzkv.semantics.contract.predicates import hazard
from fuzzkv.semantics.copies import done, launch
from fuzzkv.semantics.facts import (
    free_device_frame,
    free_job,
    hosted,
    page_in_flight,
    slot,
    to_do,
    waiting,
)
from fuzzkv.semantics.frames import clear_scales, empty, reserve, share
from fuzzkv.semantics.identity import T_INDEX, T_TOKENS, expect, field, key_of
from fuzzkv.semantics.ops.transfers import entry_of, free_entry, spilled_into
from fuzzkv.semantics.vocabulary import *


def part(parts: Int, bit: int) -> Bool:
    """Whether a set of parts contains one."""
    return div(parts, bit) - div(parts, bit + bit) * 2 == 1


def publish(s: State, g: Bool, k: PolicyId, p: PageId, covers: Int) -> Bool:
    """The page's device frame is entered in the index under a key that covers the components in ``covers``.

    The index refers to the frame from now on: it outlives the session, until the entry goes.
    """
    guard(g)
    d = get(s, DEV, p)
    frame = slot(d)
    x = free_entry(s)
    key = key_of(get(s, WANT, p), covers)
    can = and_(g, d >= 0, x >= 0, entry_of(s, key) < 0, get(s, TODO, p) == 0)
    filled = hazard(s, can, get(s, D_FILL, frame) == 0, C_INDEX, I3, k, p, P_PUBLISH)
    other = and_(get(s, D_FILL, frame) == 1, get(s, D_TAG, frame) != get(s, WANT, p))
    ok = and_(can, filled, hazard(s, can, other, C_INDEX, I8, k, p, P_PUBLISH))
    entry = slot(x)
    put_if(s, ok, X_KEY, entry, key)
    put_if(s, ok, X_TIER, entry, ON_DEVICE)
    put_if(s, ok, X_FRAME, entry, frame)
    put_if(s, ok, X_TAG, entry, get(s, WANT, p))
    put_if(s, ok, X_FULL, entry, 1)
    put_if(s, ok, X_BY, entry, k)
    add_if(s, ok, D_REF, frame, 1)
    done(s, ok, P_PUBLISH, k, p, covers)
    return ok


def remove(s: State, g: Bool, x: EntryId, with_scales: Bool) -> None:
    """An entry goes, and with it the index's reference to a device frame; a frame that nobody else refers to
    is freed.
    """
    there = and_(g, get(s, X_KEY, x) != 0)
    guard(there)
    frame = slot(get(s, X_FRAME, x))
    on_device = and_(there, get(s, X_TIER, x) == ON_DEVICE)
    put_if(s, there, X_KEY, x, 0)
    add_if(s, on_device, D_REF, frame, -1)
    alone = and_(on_device, get(s, D_REF, frame) <= 0, get(s, D_PAGE, frame) == CACHED)
    empty(s, alone, frame)
    clear_scales(s, and_(alone, with_scales), frame)


def unpublish(s: State, g: Bool, k: PolicyId, x: EntryId) -> Bool:
    """The entry is taken out of the index, cleanly."""
    ok = and_(g, get(s, X_KEY, x) > 0)
    guard(ok)
    remove(s, ok, x, True)
    done(s, ok, P_UNPUBLISH, k, -1, x)
    return ok


def cached_only(s: State, x: EntryId) -> Bool:
    """Whether only the index refers to the entry's device frame."""
    frame = slot(get(s, X_FRAME, x))
    on_device = and_(get(s, X_KEY, x) > 0, get(s, X_TIER, x) == ON_DEVICE)
    return and_(on_device, get(s, D_PAGE, frame) == CACHED)


def expire(s: State, g: Bool, k: PolicyId, x: EntryId, what: Int) -> Bool:
    """The cached frame of an entry is freed for somebody else.

    ``what`` says what is cleared with it (``PAYLOAD``, ``SCALES``, ``ENTRY``); an entry that stays names a
    frame that no longer holds its content.
    """
    guard(g)
    frame = slot(get(s, X_FRAME, x))
    can = and_(g, cached_only(s, x), get(s, D_REF, frame) <= 1)
    # Its session is over: the page is named by its place in the text.
    p = ite(can, field(get(s, X_TAG, x), T_INDEX, T_TOKENS), 0)
    ok = and_(can, hazard(s, can, not_(part(what, ENTRY)), C_INDEX, I8, k, p, P_EXPIRE))
    clean = and_(ok, part(what, ENTRY))
    remove(s, clean, x, part(what, SCALES))
    left = and_(ok, not_(part(what, ENTRY)))
    empty(s, left, frame)
    clear_scales(s, and_(left, part(what, SCALES)), frame)
    put_if(s, ok, F_ASKED, 0, 0)
    done(s, ok, P_EXPIRE, k, p, what)
    return ok


def hit(s: State, g: Bool, k: PolicyId, p: PageId, covers: Int) -> Bool:
    """A lookup for a page that is still to be computed: what the index has under its key is taken.

    A device frame is shared at once; bytes in the external store are fetched into a free frame.
    """
    guard(g)
    want = get(s, WANT, p)
    x = entry_of(s, key_of(want, covers))
    entry = slot(x)
    found = and_(g, x >= 0, to_do(s, p), not_(page_in_flight(s, p)))
    near = and_(found, get(s, X_TIER, entry) == ON_DEVICE)
    frame = slot(get(s, X_FRAME, entry))
    f = free_device_frame(s)
    j = free_job(s)
    far = and_(found, get(s, X_TIER, entry) == ON_STORE, f >= 0, j >= 0)
    can = or_(near, far)

    coming = spilled_into(s, entry)
    unfilled = and_(far, get(s, X_FULL, entry) == 0)
    early = hazard(s, can, and_(unfilled, coming), C_INDEX, I3, k, p, P_HIT)
    closed = hazard(s, can, and_(unfilled, not_(coming)), C_FAIL_CLOSED, I16, k, p, P_HIT)
    gone = and_(near, get(s, D_TAG, frame) != get(s, X_TAG, entry))
    true = hazard(s, can, gone, C_INDEX, I8, k, p, P_HIT)
    other = and_(not_(gone), not_(unfilled), get(s, X_TAG, entry) != want)
    same = hazard(s, can, other, C_VERSION, I7, k, p, P_HIT)
    ok = and_(can, early, closed, true, same, or_(not_(far), permit_frame(s, far, f)))

    share(s, and_(ok, near), p, frame)
    place = slot(j)
    into = slot(f)
    launch(s, and_(ok, far), k, p, FETCH, place, entry, into)
    put_if(s, and_(ok, far), J_TAG, place, want)
    reserve(s, and_(ok, far), p, into)
    done(s, ok, P_HIT, k, p, covers)
    return ok


def served(s: State, p: PageId) -> Bool:
    """Whether the page could be had from the host or an external store, now or when what is in flight ends."""
    n = 0
    for x in each(NX):
        key = get(s, X_KEY, x)
        on_store = and_(key != 0, get(s, X_TIER, x) == ON_STORE)
        n = ite(and_(on_store, get(s, X_TAG, x) == get(s, WANT, p)), 1, n)
    return or_(n == 1, hosted(s, p), get(s, HOST, p) >= 0)


def report(s: State, g: Bool, k: PolicyId, r: SessionId, n: Int) -> Bool:
    """The policy says that its tier serves the first ``n`` pages of a session: a hole among them voids all
    that follow it.
    """
    guard(g)
    can = and_(g, get(s, R_ACTIVE, r) == 1, n <= get(s, R_N, r), n > 0)
    hole = -1
    for i in each(PAGES):
        missing = and_(i < n, not_(served(s, r * PAGES + i)))
        hole = ite(and_(hole < 0, missing), i, hole)
    p = r * PAGES + slot(hole)
    ok = and_(can, hazard(s, can, hole >= 0, C_PROGRESS, I15, k, p, P_REPORT))
    done(s, ok, P_REPORT, k, p, n)
    return ok


def hold(s: State, g: Bool, k: PolicyId, r: SessionId) -> Bool:
    """The policy keeps a handle on the session: its device pages stay through a rewind."""
    ok = and_(g, get(s, R_ACTIVE, r) == 1, get(s, HOLD, r) == 0)
    guard(ok)
    put_if(s, ok, HOLD, r, 1)
    done(s, ok, P_HOLD, k, r * PAGES, 0)
    return ok


def serve_as(s: State, g: Bool, k: PolicyId, r: SessionId, adapter: Int, scheme: Int) -> Bool:
    """A waiting session is served with an adapter (0 to 3) and a scheme (0 to 3: tokenizer, chat template,
    positions, salt); nothing of it may have been computed yet.
    """
    untouched = 0
    for i in each(PAGES):
        untouched = untouched + ite(to_do(s, r * PAGES + i), 1, 0)
    ok = and_(g, waiting(s, r), untouched == get(s, R_N, r))
    guard(ok)
    put_if(s, ok, R_ADAPTER, r, adapter)
    put_if(s, ok, R_SCHEME, r, scheme)
    for i in each(PAGES):
        expect(s, and_(ok, i < get(s, R_N, r)), r, i)
    done(s, ok, P_SERVE_AS, k, r * PAGES, adapter)
    return ok
