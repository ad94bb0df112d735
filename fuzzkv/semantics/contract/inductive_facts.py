"""Inductive facts: what holds in every state while the contract is enforced, for proofs of any length.

Each fact looks at one thing of the state (a page, a frame, a copy, a session, a policy, or the machine as a whole) and
holds before and after every event, whatever the policies do, as long as they use the primitives for placement,
precision and deletion.  The solver proves that (``fuzzkv.solver.induction``); tests look at them in real runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fuzzkv.semantics.facts import device_exact, host_exact, hosted, present, quoted, request_of, slot, tag_of
from fuzzkv.semantics.vocabulary import *

Over = Literal["page", "device", "host", "copy", "session", "policy", "page of a policy", "machine"]
"""What a fact is about one of."""


def costs_are_counts(s: State, _: Int) -> Bool:
    """Costs are ticks, at least one; budgets and shares aren't negative."""
    costs = and_(get(s, STEP_COST, 0) >= 1, get(s, PAGE_COST, 0) >= 1, get(s, OBJECTIVE, 0) >= 1)
    budgets = and_(get(s, TOLERANCE, 0) >= 0, get(s, LEDGER, 0) >= 0, get(s, HEADROOM, 0) >= 0)
    shares = 0
    for n in each(PAGES + 1):
        shares = ite(or_(get(s, SHARE, n) < 0, get(s, QSHARE, n) < 0), 1, shares)
    return and_(costs, budgets, shares == 0)


def one_recovery_fits(s: State, _: Int) -> Bool:
    """A step that waits for one page over an idle link keeps the latency objective: otherwise nothing can."""
    need = get(s, PAGE_COST, 0) + get(s, STEP_COST, 0)
    return need <= get(s, OBJECTIVE, 0) + get(s, TOLERANCE, 0)


def names_its_device_frame(s: State, p: PageId) -> Bool:
    """The device frame that a page names is there and names the page, which belongs to a session."""
    d = get(s, DEV, p)
    mutual = and_(d < ND, get(s, D_PAGE, slot(d)) == p, get(s, OWNED, p) == 1)
    return and_(d >= -1, or_(d < 0, mutual))


def names_its_host_frame(s: State, p: PageId) -> Bool:
    """The host frame that a page names is there and names the page, which belongs to a session."""
    h = get(s, HOST, p)
    mutual = and_(h < NH, get(s, H_PAGE, slot(h)) == p, get(s, OWNED, p) == 1)
    return and_(h >= -1, or_(h < 0, mutual))


def device_frame_names_its_page(s: State, f: DeviceFrame) -> Bool:
    """A device frame is free, not open, taken away, or the frame that its page names."""
    p = get(s, D_PAGE, f)
    nobody = or_(p == FREE, p == CLOSED, p == TAKEN)
    mutual = and_(get(s, DEV, slot(p)) == f, get(s, D_REF, f) == 1)
    return or_(nobody, and_(p >= 0, p < NP, mutual))


def host_frame_names_its_page(s: State, f: HostFrame) -> Bool:
    """A host frame is free, not open, taken away, or the frame that its page names."""
    p = get(s, H_PAGE, f)
    nobody = or_(p == FREE, p == CLOSED, p == TAKEN)
    return or_(nobody, and_(p >= 0, p < NP, get(s, HOST, slot(p)) == f))


def copy_is_sound(s: State, j: CopyId) -> Bool:
    """What is in flight is a store, a load or an abandoned copy, of a page and of a policy that exist."""
    kind = get(s, J_KIND, j)
    known = or_(kind == STORE, kind == LOAD, kind == ABANDONED)
    page = and_(get(s, J_PAGE, j) >= 0, get(s, J_PAGE, j) < NP)
    return or_(kind == 0, and_(known, page, get(s, J_BY, j) >= NOBODY, get(s, J_BY, j) < NK))


def store_holds_its_frames(s: State, j: CopyId) -> Bool:
    """A store in flight reads its page's filled device frame and fills its page's host frame, which doesn't
    count as filled yet.
    """
    on = get(s, J_KIND, j) == STORE
    p = ite(on, get(s, J_PAGE, j), 0)
    d, h = ite(on, get(s, J_SRC, j), 0), ite(on, get(s, J_DST, j), 0)
    source = and_(d >= 0, get(s, DEV, p) == d, get(s, D_FILL, d) == 1)
    target = and_(h >= 0, get(s, HOST, p) == h, get(s, H_FILL, h) == 0)
    return or_(not_(on), and_(source, target))


def store_reads_what_it_began_with(s: State, j: CopyId) -> Bool:
    """The frame that a store in flight reads holds the bytes that it held when the store began."""
    on = get(s, J_KIND, j) == STORE
    d = ite(on, get(s, J_SRC, j), 0)
    same = and_(get(s, D_TAG, d) == get(s, J_TAG, j), get(s, D_PREC, d) == get(s, J_PREC, j))
    return or_(not_(on), same)


def load_holds_its_frames(s: State, j: CopyId) -> Bool:
    """A load in flight reads its page's filled host frame and fills its page's device frame, which counts as
    filled only if it held the page before.
    """
    on = get(s, J_KIND, j) == LOAD
    p = ite(on, get(s, J_PAGE, j), 0)
    h, d = ite(on, get(s, J_SRC, j), 0), ite(on, get(s, J_DST, j), 0)
    source = and_(h >= 0, get(s, HOST, p) == h, get(s, H_FILL, h) == 1)
    target = and_(d >= 0, get(s, DEV, p) == d, get(s, D_FILL, d) == get(s, J_OVER, j))
    return or_(not_(on), and_(source, target, or_(get(s, J_OVER, j) == 0, get(s, J_OVER, j) == 1)))


def counts_its_copies(s: State, p: PageId) -> Bool:
    """A page's count of copies in flight is right, and there is at most one."""
    n = 0
    for j in each(NJ):
        copy = or_(get(s, J_KIND, j) == STORE, get(s, J_KIND, j) == LOAD)
        n = n + ite(and_(copy, get(s, J_PAGE, j) == p), 1, 0)
    return and_(get(s, BUSY, p) == n, n <= 1)


def counts_what_it_has_in_flight(s: State, k: PolicyId) -> Bool:
    """A policy's count of its copies in flight is right."""
    n = 0
    for j in each(NJ):
        n = n + ite(and_(get(s, J_KIND, j) != 0, get(s, J_BY, j) == k), 1, 0)
    return get(s, FLYING, k) == n


def copy_ends_with_the_link(s: State, j: CopyId) -> Bool:
    """What is in flight ends before the link is free again."""
    return or_(get(s, J_KIND, j) == 0, get(s, J_END, j) <= get(s, LINK_FREE, 0))


def link_leaves_room(s: State, _: Int) -> Bool:
    """Behind all that is on the link a reader's own recovery and its step keep the latency objective; lateness
    of the link itself isn't counted.
    """
    queue = get(s, LINK_FREE, 0) - get(s, NOW, 0)
    need = queue + get(s, PAGE_COST, 0) + get(s, STEP_COST, 0)
    return and_(get(s, LATE, 0) >= 0, or_(queue <= 0, need <= get(s, OBJECTIVE, 0) + get(s, LATE, 0)))


def device_bytes_are_its_own(s: State, p: PageId) -> Bool:
    """A page that is on the device has the bytes there that its reader expects."""
    d = slot(get(s, DEV, p))
    return or_(not_(present(s, p)), get(s, D_TAG, d) == tag_of(s, p))


def host_bytes_are_its_own(s: State, p: PageId) -> Bool:
    """A page that is on the host has the bytes there that its reader expects."""
    h = slot(get(s, HOST, p))
    return or_(not_(hosted(s, p)), get(s, H_TAG, h) == tag_of(s, p))


def precision_is_a_level(s: State, p: PageId) -> Bool:
    """What a page has on either tier is exact or lossier, never better than exact."""
    d, h = slot(get(s, DEV, p)), slot(get(s, HOST, p))
    on_device = or_(not_(present(s, p)), get(s, D_PREC, d) >= EXACT)
    return and_(on_device, or_(not_(hosted(s, p)), get(s, H_PREC, h) >= EXACT))


def host_copy_is_no_worse(s: State, p: PageId) -> Bool:
    """Where both tiers have a page, the host's copy is at least as precise as the device's."""
    d, h = slot(get(s, DEV, p)), slot(get(s, HOST, p))
    both = and_(present(s, p), hosted(s, p))
    return or_(not_(both), get(s, H_PREC, h) <= get(s, D_PREC, d))


def quote_has_an_exact_copy(s: State, p: PageId) -> Bool:
    """What a policy quotes as exactly recoverable has an exact copy."""
    return or_(not_(quoted(s, p)), device_exact(s, p), host_exact(s, p))


def lost_is_paid_for(s: State, p: PageId) -> Bool:
    """A page of a session that is nowhere was paid for from the session's quality budget; and so was whatever is
    declared evicted.
    """
    here = or_(present(s, p), hosted(s, p), get(s, OWNED, p) == 0)
    declared = or_(get(s, EVICTED, p) == 0, and_(get(s, EVICTED, p) == 1, get(s, PAID, p) == 1))
    return and_(declared, or_(here, get(s, PAID, p) == 1))


def unfilled_is_being_filled(s: State, p: PageId) -> Bool:
    """A frame that a page has and that isn't filled is the target of a copy in flight."""
    on_device = or_(get(s, DEV, p) < 0, present(s, p))
    on_host = or_(get(s, HOST, p) < 0, hosted(s, p))
    return or_(get(s, BUSY, p) > 0, and_(on_device, on_host))


def nowhere_is_declared(s: State, p: PageId) -> Bool:
    """A page of a session that is nowhere was declared evicted, so that no reader expects it."""
    somewhere = or_(present(s, p), hosted(s, p))
    return or_(get(s, OWNED, p) == 0, somewhere, get(s, EVICTED, p) == 1)


def away_is_quoted_by_another(s: State, i: Int) -> Bool:
    """A page of a session that isn't on the device, and wasn't declared evicted, is quoted by another policy
    than this one (``i`` is the policy's slot times ``NP``, plus the page).
    """
    k = div(i, NP)
    p = i - k * NP
    n = 0
    for o in each(NK):
        n = ite(and_(o != k, get(s, QUOTE, o * NP + p) == 1), 1, n)
    return or_(get(s, OWNED, p) == 0, present(s, p), get(s, EVICTED, p) == 1, n == 1)


def belongs_to_an_open_session(s: State, p: PageId) -> Bool:
    """The pages that belong to a session are the first ones of one that is open."""
    r = request_of(p)
    mine = and_(get(s, R_ACTIVE, r) == 1, p - r * PAGES < get(s, R_N, r))
    return or_(and_(get(s, OWNED, p) == 1, mine), and_(get(s, OWNED, p) == 0, not_(mine)))


def has_room_for_its_pages(s: State, r: SessionId) -> Bool:
    """A session has no more pages than one can have."""
    return and_(get(s, R_N, r) >= 0, get(s, R_N, r) <= PAGES)


def loss_is_within_budget(s: State, r: SessionId) -> Bool:
    """What a session has lost for good is within its quality budget."""
    return get(s, R_LOSS, r) <= get(s, LEDGER, 0)


def nothing_is_due(s: State, j: CopyId) -> Bool:
    """After copies were settled: what is in flight ends later than now."""
    return or_(get(s, J_KIND, j) == 0, get(s, J_END, j) > get(s, NOW, 0))


@dataclass(frozen=True)
class Fact:
    """One fact: its text over a state and the number of one thing, of which kind, and what it says."""

    text: Callable[[Any, Any], Any]
    over: Over

    @property
    def name(self) -> str:
        """Its name: that of its text, in words."""
        return self.text.__name__.replace("_", " ")

    @property
    def says(self) -> str:
        """What it says, as a sentence."""
        return " ".join(str(self.text.__doc__).split())


PREMISES: tuple[Fact, ...] = (Fact(costs_are_counts, "machine"), Fact(one_recovery_fits, "machine"))
"""What a configuration has to be like; nothing changes it."""

FACTS: tuple[Fact, ...] = (
    Fact(names_its_device_frame, "page"),
    Fact(names_its_host_frame, "page"),
    Fact(device_frame_names_its_page, "device"),
    Fact(host_frame_names_its_page, "host"),
    Fact(copy_is_sound, "copy"),
    Fact(store_holds_its_frames, "copy"),
    Fact(store_reads_what_it_began_with, "copy"),
    Fact(load_holds_its_frames, "copy"),
    Fact(unfilled_is_being_filled, "page"),
    Fact(counts_its_copies, "page"),
    Fact(counts_what_it_has_in_flight, "policy"),
    Fact(copy_ends_with_the_link, "copy"),
    Fact(link_leaves_room, "machine"),
    Fact(device_bytes_are_its_own, "page"),
    Fact(host_bytes_are_its_own, "page"),
    Fact(precision_is_a_level, "page"),
    Fact(host_copy_is_no_worse, "page"),
    Fact(quote_has_an_exact_copy, "page"),
    Fact(lost_is_paid_for, "page"),
    Fact(belongs_to_an_open_session, "page"),
    Fact(has_room_for_its_pages, "session"),
    Fact(loss_is_within_budget, "session"),
)
"""What holds whatever the policies do with the primitives for placement, precision and deletion."""

KEPT: tuple[Fact, ...] = (
    Fact(nowhere_is_declared, "page"),
    Fact(away_is_quoted_by_another, "page of a policy"),
)
"""What holds if the policies keep to it: that a loss is declared, and that what is away stays quoted.  The second
needn't hold for every policy of a set.
"""

SETTLED = Fact(nothing_is_due, "copy")
"""What holds when the copies that are due have ended."""
