"""`evict`: page x all-layers eviction by attention over lifetime, with protected start and recent pages.

Source: the page evictor of OpenVINO GenAI, `CacheEvictionConfig` ([C][D]: running attention normalised
by lifetime, whole pages only, start and recent areas protected, ties to the lower index), at level F2 (one
page for all layers).  Fidelity [R]: a page leaves through a staging area on the host, where it can be called back
for ``GRACE`` steps of its session, before it is deleted for good; losses are charged as calibrated.
"""

from __future__ import annotations

from fuzzkv.semantics.contract.evidence import COPY_OUT, Action, Evidence, Manifest
from fuzzkv.semantics.facts import hosted, own_in_flight, page_in_flight, present, request_of, slot
from fuzzkv.semantics.ops.primitives import (
    begin_store,
    condemn,
    drop_device,
    drop_host,
    lose,
    promise,
    withdraw,
)
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.vocabulary import *

SCORE_NUM, SCORE_DEN, MIN_LIFE, GRACE, QUOTA, OWN_LINK = 0, 1, 2, 3, 4, 5
STAGED, BURIED, DELETED = 1, 2, 3


def evict_candidate(s: State, k: PolicyId, p: PageId) -> Bool:
    """Whether the page may be condemned: old enough, outside the protected areas, scored below the
    threshold.
    """
    r = request_of(p)
    first = p == r * PAGES
    newest = p == r * PAGES + get(s, R_N, r) - 1
    low = get(s, ATT, p) * get(s, PARAM, k * NPARAM + SCORE_DEN) < get(s, LIFE, p) * get(
        s, PARAM, k * NPARAM + SCORE_NUM
    )
    old = get(s, LIFE, p) >= get(s, PARAM, k * NPARAM + MIN_LIFE)
    free = and_(get(s, MARK, k * NP + p) == 0, get(s, EVICTED, p) == 0, not_(page_in_flight(s, p)))
    return and_(or_(present(s, p), hosted(s, p)), free, not_(first), not_(newest), old, low)


def evict_room(s: State, k: PolicyId, r: SessionId) -> Bool:
    """Whether one more page of the session fits the policy's own quality quota, those already condemned
    included.
    """
    pending = 0
    for i in each(PAGES):
        mark = get(s, MARK, k * NP + r * PAGES + i)
        pending = pending + ite(or_(mark == STAGED, mark == BURIED), 1, 0)
    share = get(s, SHARE, get(s, R_N, r))
    return get(s, SPENT, k * NR + r) + (pending + 1) * share <= get(s, PARAM, k * NPARAM + QUOTA)


def evict_rule(s: State, k: PolicyId) -> None:
    """Call back a page that was read again, delete one whose grace is over, move a staged one off the device, and
    mark one more for eviction.
    """
    back, expired, ready, failed, low = -1, -1, -1, -1, -1
    for p in each(NP):
        skip(get(s, OWNED, p) == 1)
        mark = get(s, MARK, k * NP + p)
        here = present(s, p)
        there = hosted(s, p)
        back = ite(and_(back < 0, mark == BURIED, here), p, back)
        over = get(s, LIFE, p) >= get(s, DUE, k * NP + p)
        expired = ite(and_(expired < 0, mark == BURIED, not_(here), over), p, expired)
        ready = ite(and_(ready < 0, mark == STAGED, there), p, ready)
        failed = ite(and_(failed < 0, mark == STAGED, get(s, HOST, p) < 0), p, failed)
        fits = and_(evict_candidate(s, k, p), evict_room(s, k, request_of(p)))
        best = slot(low)
        lower = or_(low < 0, get(s, ATT, p) * get(s, LIFE, best) < get(s, ATT, best) * get(s, LIFE, p))
        low = ite(and_(fits, lower), p, low)

    called = slot(back)
    withdraw(s, back >= 0, k, called)
    drop_host(s, back >= 0, k, called, 0)
    put_if(s, back >= 0, MARK, k * NP + called, 0)
    put_if(s, failed >= 0, MARK, k * NP + slot(failed), 0)

    dead = slot(expired)
    withdraw(s, expired >= 0, k, dead)
    deleted = drop_host(s, expired >= 0, k, dead, 1)
    lose(s, deleted, k, dead)
    put_if(s, deleted, MARK, k * NP + dead, DELETED)
    promise(s, and_(expired >= 0, not_(deleted)), k, dead)

    page = slot(ready)
    buried = and_(ready >= 0, or_(promise(s, ready >= 0, k, page), get(s, QUOTE, k * NP + page) == 1))
    drop_device(s, and_(buried, present(s, page)), k, page)
    put_if(s, buried, MARK, k * NP + page, BURIED)
    put_if(s, buried, DUE, k * NP + page, get(s, LIFE, page) + get(s, PARAM, k * NPARAM + GRACE))

    target = slot(low)
    budget = own_in_flight(s, k) < get(s, PARAM, k * NPARAM + OWN_LINK)
    copied = hosted(s, target)
    wanted = and_(low >= 0, or_(copied, budget))
    sure = condemn(s, wanted, k, target)
    staged = begin_store(s, and_(sure, not_(copied)), k, target)
    put_if(s, and_(sure, or_(copied, staged)), MARK, k * NP + target, STAGED)


EVICT = Policy(
    name="evict",
    version="1",
    parameters={"score_num": 1, "score_den": 1, "min_life": 3, "grace": 2, "quota": 250, "own_link": 2},
    edges=(("quota", 400), ("quota", 600), ("own_link", 4)),
    rule=evict_rule,
    manifest=Manifest(
        kind="evict",
        source="OpenVINO GenAI CacheEvictionConfig, NORM_SUM (attention over lifetime, protected start and recent areas)",
        fidelity="[C][D] score, areas and grain F2; [R] grave with a grace period, losses charged by share",
        evidence=Evidence(
            target="current-attention",
            horizon=1,
            confidence=900,
            provenance="attention summed over reads / lifetime",
            calibrated_on="sessions whose pages are all read in every step",
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
                reversibility="irreversible",
                authority_copy="none",
                recovery_p95=0,
                quality_budget=250,
            ),
        ),
    ),
)
"""The default `evict`, tuned: a page is low under ``score_num / score_den`` attention a step; ``min_life``
and ``grace`` are steps of the session, ``quota`` is permille of its recall, ``own_link`` copies in flight.
"""
