"""`offload`: near-reuse placement between device and host, with the host copy as authority and a prefetcher
of its own.

Source: the native offloading connector of vLLM (`OffloadingConnector`, [C][D]: store when a block is
complete, skip what the host already has, LRU or ARC replacement, ghosts steer ARC's target) and the
next-access placement of Strata (arXiv 2508.18572) and ECHO ([P]).  Fidelity [R]: one page an act and kind;
reuse is predicted from the last inter-access gap.
"""

from __future__ import annotations

from fuzzkv.semantics.contract.evidence import COPY_IN, COPY_OUT, Action, Evidence, Manifest
from fuzzkv.semantics.facts import (
    free_host_frame,
    hosted,
    own_in_flight,
    page_in_flight,
    present,
    request_of,
    slot,
)
from fuzzkv.semantics.ops.primitives import begin_load, begin_store, drop_device, drop_host, promise, withdraw
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.vocabulary import *

NEAR, LEAD, OWN_LINK, USE_ARC = 0, 1, 2, 3


def offload_expected(s: State, p: PageId, within: Int) -> Bool:
    """Whether the page's next access, by its last gap, falls within so many ticks from now."""
    due = get(s, LAST, p) + get(s, GAP, p)
    now = get(s, NOW, 0)
    return and_(get(s, GAP, p) > 0, due <= now + within, now <= due + within)


def offload_cold(s: State, k: PolicyId, p: PageId) -> Bool:
    """Whether the page is outside near reuse, and not the session's newest page."""
    near = get(s, PARAM, k * NPARAM + NEAR)
    r = request_of(p)
    newest = p == r * PAGES + get(s, R_N, r) - 1
    far = get(s, LAST, p) + near <= get(s, NOW, 0)
    return and_(far, not_(newest), not_(offload_expected(s, p, near)))


def offload_victim(s: State, k: PolicyId, p: PageId) -> Int:
    """Order of host replacement, lower goes first: LRU, or ARC's recency list while it is over its target."""
    t1 = 0
    for q in each(NP):
        t1 = t1 + ite(and_(hosted(s, q), get(s, HITS, q) < 2), 1, 0)
    recency_first = t1 >= get(s, NOTE, k)
    frequent = get(s, HITS, p) >= 2
    arc = get(s, PARAM, k * NPARAM + USE_ARC) == 1
    last_list = ite(arc, ite(recency_first, frequent, not_(frequent)), False)
    return get(s, LAST, p) + ite(last_list, 100000, 0)


def offload_rule(s: State, k: PolicyId) -> None:
    """Take back quotes of pages that returned, place one page on the host, store one, prefetch one."""
    now = get(s, NOW, 0)
    budget = own_in_flight(s, k) < get(s, PARAM, k * NPARAM + OWN_LINK)

    back, place, keep, fetch, spare = -1, -1, -1, -1, -1
    for p in each(NP):
        skip(get(s, OWNED, p) == 1)
        here = present(s, p)
        there = hosted(s, p)
        idle = not_(page_in_flight(s, p))
        cold = offload_cold(s, k, p)
        back = ite(and_(back < 0, here, get(s, QUOTE, k * NP + p) == 1), p, back)
        place = ite(
            and_(here, there, cold, or_(place < 0, get(s, LAST, p) < get(s, LAST, slot(place)))), p, place
        )
        fresh = and_(here, get(s, HOST, p) < 0, cold, idle)
        keep = ite(and_(fresh, or_(keep < 0, get(s, LAST, p) < get(s, LAST, slot(keep)))), p, keep)
        soon = and_(get(s, DEV, p) < 0, there, idle, offload_expected(s, p, get(s, PARAM, k * NPARAM + LEAD)))
        fetch = ite(and_(soon, or_(fetch < 0, get(s, LAST, p) > get(s, LAST, slot(fetch)))), p, fetch)

    withdraw(s, back >= 0, k, slot(back))

    page = slot(place)
    quoted_now = promise(s, place >= 0, k, page)
    standing = get(s, QUOTE, k * NP + page) == 1
    drop_device(s, and_(place >= 0, or_(quoted_now, standing)), k, page)

    # The host is full: give up the copy of a page that the device still has.
    full = and_(keep >= 0, free_host_frame(s) < 0)
    worst = 0
    for p in each(NP):
        copy = and_(full, present(s, p), hosted(s, p), not_(page_in_flight(s, p)))
        order = ite(copy, offload_victim(s, k, p), 0)
        better = and_(copy, or_(spare < 0, order < worst))
        spare = ite(better, p, spare)
        worst = ite(better, order, worst)
    victim = slot(spare)
    gone = drop_host(s, spare >= 0, k, victim, 0)
    put_if(s, gone, MARK, k * NP + victim, ite(get(s, HITS, victim) >= 2, 2, 1))

    target = slot(keep)
    stored = begin_store(s, and_(keep >= 0, budget), k, target)
    # ARC: a page that comes back from the recency ghosts asks for more recency, from the frequency ghosts for less.
    ghost = get(s, MARK, k * NP + target)
    drift = ite(ghost == 1, 1, ite(and_(ghost == 2, get(s, NOTE, k) > 0), -1, 0))
    add_if(s, stored, NOTE, k, drift)
    put_if(s, stored, MARK, k * NP + target, 0)

    again = own_in_flight(s, k) < get(s, PARAM, k * NPARAM + OWN_LINK)
    begin_load(s, and_(fetch >= 0, again, now >= 0), k, slot(fetch))


OFFLOAD = Policy(
    name="offload",
    version="1",
    parameters={"near": 8, "lead": 8, "own_link": 2, "arc": 1},
    edges=(("own_link", 4),),
    rule=offload_rule,
    manifest=Manifest(
        kind="offload",
        source="vLLM OffloadingConnector; Strata 2508.18572; ECHO",
        fidelity="[C][D] store and replacement, [P] placement, [R] one page an act, gap prediction",
        evidence=Evidence(
            target="near-reuse",
            horizon=1,
            confidence=900,
            provenance="last access and last gap",
            calibrated_on="sessions that come back to a page after a similar gap",
        ),
        actions=(
            COPY_OUT,
            Action(
                primitive="drop_device",
                reversibility="exact",
                authority_copy="host",
                recovery_p95=24,
                quality_budget=0,
            ),
            Action(
                primitive="drop_host",
                reversibility="exact",
                authority_copy="device",
                recovery_p95=0,
                quality_budget=0,
            ),
            COPY_IN,
        ),
    ),
)
"""The default `offload`, tuned: ``near`` and ``lead`` are ticks, ``own_link`` copies in flight, ``arc`` 0 for
LRU.
"""
