"""S5: a sparse selector's next-access evidence authorises deleting the host's copy, which was the authority.

The selector keeps on the device what the next steps will select and lets go of the rest, of which the host has
every byte; the host tier writes everything through and frees a frame when its pool is full, first what nobody
will read next.  Alone the tier only ever frees copies of pages that the device has too, and the selector only
ever lets go of pages that the host has too.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, STEP, TICK, Config
from tests.field.report import Report

TOP = 0
QUOTA, OWN_LINK = 0, 1


def follow_scores(s: State, k: Int) -> None:
    """Once a step: each page's predicted score is the mean of its last prediction and of the attention seen since
    (``DUE`` keeps what had been seen by then).
    """
    fresh = get(s, STEPS, 0) > get(s, NOTE, k)
    put_if(s, fresh, NOTE, k, get(s, STEPS, 0))
    for p in each(NP):
        skip(get(s, OWNED, p) == 1)
        mine = and_(fresh, get(s, OWNED, p) == 1)
        at = k * NP + p
        now = div(get(s, MARK, at) + 8 * (get(s, ATT, p) - get(s, DUE, at)), 2)
        put_if(s, mine, MARK, at, now)
        put_if(s, mine, DUE, at, get(s, ATT, p))


def select_top(s: State, k: Int) -> None:
    """Certifies every page outside the predicted top as not accessed next, and lets go of those that the host
    has; the open page is always read, as is what no step has gone over yet.
    """
    follow_scores(s, k)
    for p in each(NP):
        skip(present(s, p))
        r = request_of(p)
        above = 0
        for i in each(PAGES):
            q = r * PAGES + i
            mine, other = get(s, MARK, k * NP + p), get(s, MARK, k * NP + q)
            higher = or_(other > mine, and_(other == mine, q > p))
            above = above + ite(and_(present(s, q), higher), 1, 0)
        closed = p - r * PAGES < get(s, R_N, r) - 1
        rest = and_(present(s, p), closed, get(s, LIFE, p) > 0, above >= get(s, PARAM, k * NPARAM + TOP))
        certify(s, rest, k, p, NEXT_ACCESS, 1)
        drop_device(s, and_(rest, host_exact(s, p), not_(page_in_flight(s, p))), k, p)


def unselected(s: State, p: Int) -> Bool:
    """Whether a certificate stands on the page that hasn't run out, whatever it was made for."""
    return and_(get(s, CERT, p) > 0, get(s, LIFE, p) - get(s, CERT_AT, p) <= get(s, CERT_FOR, p))


def keep_host(s: State, k: Int, trusting: int) -> None:
    """Writes through whatever the host hasn't; with a full pool frees the frame of a page that isn't selected, or
    else of the page that was asked about longest ago.

    A last copy is only freed for a certificate, if ``trusting``, and within the tier's quota of losses.
    """
    victim, best = -1, 0
    for p in each(NP):
        skip(hosted(s, p))
        r = request_of(p)
        spent = get(s, SPENT, k * NR + r) + get(s, SHARE, get(s, R_N, r))
        fits = and_(trusting == 1, unselected(s, p), spent <= get(s, PARAM, k * NPARAM + QUOTA))
        may = and_(hosted(s, p), not_(page_in_flight(s, p)), or_(device_exact(s, p), fits))
        rank = 1 + get(s, NOW, 0) - get(s, LAST, p) + ite(unselected(s, p), 1_000_000, 0)
        better = and_(may, rank > best)
        victim = ite(better, p, victim)
        best = ite(better, rank, best)
    page = slot(victim)
    full = and_(victim >= 0, free_host_frame(s) < 0)
    spare = and_(full, device_exact(s, page))
    drop_host(s, spare, k, page, 0)
    sure = spend(s, and_(full, not_(spare)), k, page, DELETE)
    deleted = drop_host(s, sure, k, page, 1)
    lose(s, deleted, k, page)
    for p in each(NP):
        skip(present(s, p))
        plain = and_(present(s, p), get(s, HOST, p) < 0, not_(page_in_flight(s, p)))
        budget = own_in_flight(s, k) < get(s, PARAM, k * NPARAM + OWN_LINK)
        begin_store(s, and_(plain, budget), k, p)


def free_what_is_not_next(s: State, k: Int) -> None:
    """Takes "won't be accessed next" for "won't be needed"."""
    keep_host(s, k, 1)


def free_what_the_device_has(s: State, k: Int) -> None:
    """The repair: the certificate orders the victims, and the last copy of a page stays."""
    keep_host(s, k, 0)


SELECTOR = Policy(
    name="topk-selector",
    version="1",
    parameters={"top": 3},
    rule=select_top,
    manifest=Manifest(
        kind="offload",
        actions=does("drop_device", recovery_p95=29),
        evidence=Evidence(
            target="next-access",
            horizon=1,
            confidence=900,
            provenance="running mean of the attention seen in the last steps",
            calibrated_on="the selection of the next step",
        ),
        source="ECHO (OSDI'26): predicted selection, the host holds all KV; Quest (2406.10774): top pages, open page read",
        fidelity="[P] prediction 0.5 old + 0.5 new, recall on demand; [R] whole pages, no prefetch, top of three pages",
    ),
)
_MANIFEST = Manifest(
    kind="offload",
    actions=does("begin_store", authority_copy="device")
    + does("drop_host", "spend", reversibility="irreversible", authority_copy="none", quality_budget=250),
    evidence=Evidence(
        target="near-reuse", horizon=1, confidence=900, provenance="last access", calibrated_on="recency"
    ),
    source="Mooncake store: watermark, least recently used first; the design's S5",
    fidelity="[C] order; [R] watermark of a full pool, one frame an act",
)
TIER = Policy(
    name="write-through-tier",
    version="1",
    parameters={"quota": 250, "own_link": 2},
    rule=free_what_is_not_next,
    manifest=_MANIFEST,
)
TIER_REPAIRED = Policy(
    name="write-through-tier",
    version="2",
    parameters={"quota": 250, "own_link": 2},
    rule=free_what_the_device_has,
    manifest=_MANIFEST,
)

REPORT = Report(
    name="S5",
    title="a host tier frees the last copy of a page because a selector won't read it in the next step",
    url="",
    invariant="I17",
    policies=(SELECTOR, TIER),
    repaired={"write-through-tier": TIER_REPAIRED},
    trace=((ARRIVE, 0, 6), (ACT, 1, 0), (STEP, 0, 1), (TICK, 11, 0), (ACT, 0, 0), (ACT, 1, 0)),
    config=Config(host_frames=2),
)
