"""Facts about one page, and sums that several policies share, of which a guard may be built.

A guard is a condition over these.  A text takes, by name, the state ``s``, the slot ``k`` of the policy that would act, and
what the act says: its page ``p`` or session ``r``, and the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from fuzzkv.semantics.facts import (
    complete_page,
    device_exact,
    host_exact,
    hosted,
    in_flight_on_device,
    in_flight_on_host,
    page_in_flight,
    pinned,
    present,
    quoted,
    quoted_by_another,
    request_of,
    settled,
    slot,
)
from fuzzkv.semantics.identity import key_of
from fuzzkv.semantics.ops.evidence_checks import covers as warrants
from fuzzkv.semantics.ops.groups import kept_boundary
from fuzzkv.semantics.ops.index import served
from fuzzkv.semantics.ops.transfers import entry_of, spilled_into
from fuzzkv.semantics.vocabulary import *


def device_in_flight(s: State, p: PageId) -> Bool:
    """A copy in flight reads or fills the page's device frame."""
    return and_(get(s, DEV, p) >= 0, in_flight_on_device(s, slot(get(s, DEV, p))))


def host_in_flight(s: State, p: PageId) -> Bool:
    """A copy in flight reads or fills the page's host frame."""
    return and_(get(s, HOST, p) >= 0, in_flight_on_host(s, slot(get(s, HOST, p))))


def seen_lately(s: State, k: PolicyId, p: PageId) -> Bool:
    """The page was read within the horizon of the policy's evidence."""
    return get(s, LIFE, p) - get(s, SEEN, p) <= get(s, MF_HORIZON, k)


def warranted(s: State, p: PageId, use: Int) -> Bool:
    """The target of the page's certificate covers the use."""
    return warrants(get(s, CERT, p), use)


def lasts(s: State, p: PageId) -> Bool:
    """The page's certificate is within its horizon."""
    return get(s, LIFE, p) - get(s, CERT_AT, p) <= get(s, CERT_FOR, p)


def same_layout(s: State, layout: Int) -> Bool:
    """The pool has the layout in which the act would write."""
    return get(s, LAYOUT, 0) == layout


def own_scales(s: State, p: PageId) -> Bool:
    """The scales beside the page's payload are its own."""
    frame = slot(get(s, DEV, p))
    return get(s, D_SIDE, frame) == get(s, D_TAG, frame)


def written_off(s: State, p: PageId) -> Bool:
    """The page was declared evicted: no reader expects it."""
    return get(s, EVICTED, p) == 1


def entry_full(s: State, p: PageId, covers: Int) -> Bool:
    """The copy that the index entry of the page names is complete."""
    return get(s, X_FULL, slot(entry_of(s, key_of(get(s, WANT, p), covers)))) == 1


def entry_on_device(s: State, p: PageId, covers: Int) -> Bool:
    """The index entry of the page names a device frame."""
    return get(s, X_TIER, slot(entry_of(s, key_of(get(s, WANT, p), covers)))) == ON_DEVICE


def entry_coming(s: State, p: PageId, covers: Int) -> Bool:
    """A copy is in flight to where the index entry of the page points."""
    return spilled_into(s, slot(entry_of(s, key_of(get(s, WANT, p), covers))))


def entry_own(s: State, p: PageId, covers: Int) -> Bool:
    """The index entry of the page names the bytes that its reader expects."""
    return get(s, X_TAG, slot(entry_of(s, key_of(get(s, WANT, p), covers)))) == get(s, WANT, p)


def unwrapped(s: State, r: SessionId) -> Bool:
    """The session's window isn't in a ring, or not yet past its end."""
    return or_(get(s, RING, r) == 0, get(s, RING_OFF, r) <= WINDOW)


def stands(s: State, r: SessionId, n: Int) -> Bool:
    """Every group of the session has its state at the boundary after ``n`` pages."""
    return or_(get(s, GROUP, r) == 0, kept_boundary(s, r, n) == n)


def without_hole(s: State, r: SessionId, n: Int) -> Bool:
    """Each of the session's first ``n`` pages can be served."""
    hole = 0
    for i in each(PAGES):
        hole = ite(and_(i < n, not_(served(s, r * PAGES + i))), 1, hole)
    return hole == 0


def filed_there(s: State, frame: DeviceFrame, queue: QueueId) -> Bool:
    """The frame is filed in the queue from which it is claimed."""
    return get(s, D_QUEUE, frame) == queue + 1


def all_resident(s: State) -> Bool:
    """No page has to be brought back from the host before it can be read on the device."""
    away = 0
    for q in each(NP):
        away = ite(and_(hosted(s, q), not_(present(s, q))), 1, away)
    return away == 0


def link_queue(s: State) -> Int:
    """Ticks until the link is free."""
    return ite(get(s, LINK_FREE, 0) > get(s, NOW, 0), get(s, LINK_FREE, 0) - get(s, NOW, 0), 0)


def losses(s: State, p: PageId) -> Int:
    """Losses charged to the page's session, in permille of its recall."""
    return get(s, R_LOSS, request_of(p))


FACTS: tuple[Callable[..., Bool], ...] = (
    quoted,
    device_exact,
    host_exact,
    present,
    hosted,
    device_in_flight,
    host_in_flight,
    page_in_flight,
    quoted_by_another,
    pinned,
    seen_lately,
    warranted,
    lasts,
    same_layout,
    own_scales,
    complete_page,
    settled,
    written_off,
    entry_own,
    entry_full,
    entry_on_device,
    entry_coming,
    unwrapped,
    stands,
    without_hole,
    filed_there,
    all_resident,
)
"""Texts of facts that hold or don't; of two guards of one size that with earlier facts is taken."""
MEASURES: tuple[Callable[..., Int], ...] = (link_queue, losses)
"""Texts of sums of which a guard may ask that they stay below a bound, the act included."""


@cache
def _names(text: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(text).parameters)


def said(primitive: Callable[..., Any], s: Any, k: Any, what: Sequence[Any]) -> dict[str, Any]:
    """What may be looked at before an act, by name: the state, the slot and what the act says after it."""
    return {"s": s, "g": True, "k": k, **dict(zip(_names(primitive)[3:], what, strict=True))}


def look(text: Callable[..., Any], of: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    """Ask a fact or a measure; ``text`` is the one that is run, with the parameters of ``of``.  ``None`` if the act doesn't
    say what it is about.
    """
    names = _names(of)
    return text(*(known[name] for name in names)) if all(name in known for name in names) else None
