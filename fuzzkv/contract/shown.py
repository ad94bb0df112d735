"""What a policy could be shown before it acts: facts about one page, and sums that several policies share.

A guard is a condition over these.  A text takes, by name, the state ``s``, the slot ``k`` of the policy that would act,
the page ``p`` and what the act says besides (``x``: for good or not, a precision, a use, a layout).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from fuzzkv.contract.facts import (
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
from fuzzkv.contract.vocabulary import *
from fuzzkv.contract.warrants import covers


def device_in_flight(s: State, p: Int) -> Bool:
    """A copy in flight reads or fills the page's device frame."""
    return and_(get(s, DEV, p) >= 0, in_flight_on_device(s, slot(get(s, DEV, p))))


def host_in_flight(s: State, p: Int) -> Bool:
    """A copy in flight reads or fills the page's host frame."""
    return and_(get(s, HOST, p) >= 0, in_flight_on_host(s, slot(get(s, HOST, p))))


def seen_lately(s: State, k: Int, p: Int) -> Bool:
    """The page was read within the horizon of the policy's evidence."""
    return get(s, LIFE, p) - get(s, SEEN, p) <= get(s, MF_HORIZON, k)


def warranted(s: State, p: Int, x: Int) -> Bool:
    """The target of the page's certificate covers the use."""
    return covers(get(s, CERT, p), x)


def lasts(s: State, p: Int) -> Bool:
    """The page's certificate is within its horizon."""
    return get(s, LIFE, p) - get(s, CERT_AT, p) <= get(s, CERT_FOR, p)


def same_layout(s: State, x: Int) -> Bool:
    """The pool has the layout in which the act would write."""
    return get(s, LAYOUT, 0) == x


def own_scales(s: State, p: Int) -> Bool:
    """The scales beside the page's payload are its own."""
    frame = slot(get(s, DEV, p))
    return get(s, D_SIDE, frame) == get(s, D_TAG, frame)


def written_off(s: State, p: Int) -> Bool:
    """The page was declared evicted: no reader expects it."""
    return get(s, EVICTED, p) == 1


def all_resident(s: State) -> Bool:
    """No page has to be brought back from the host before it can be read on the device."""
    away = 0
    for q in each(NP):
        away = ite(and_(hosted(s, q), not_(present(s, q))), 1, away)
    return away == 0


def link_queue(s: State) -> Int:
    """Ticks until the link is free."""
    return ite(get(s, LINK_FREE, 0) > get(s, NOW, 0), get(s, LINK_FREE, 0) - get(s, NOW, 0), 0)


def losses(s: State, p: Int) -> Int:
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
    all_resident,
)
"""Texts of facts that hold or don't; of two guards of one size that with earlier facts is taken."""
MEASURES: tuple[Callable[..., Int], ...] = (link_queue, losses)
"""Texts of sums of which a guard may ask that they stay below a bound, the act included."""


def look(text: Callable[..., Any], of: Callable[..., Any], s: State, k: Int, p: Int, x: Int) -> Any:
    """Ask a fact or a measure of a state; ``text`` is the one that is run, with the parameters of ``of``."""
    known = {"s": s, "g": True, "k": k, "p": p, "x": x}
    return text(*(known[name] for name in inspect.signature(of).parameters))
