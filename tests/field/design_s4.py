"""S4: a score of the current step's attention authorises a permanent deletion; a late look-back needs the page.

One policy scores pages, another writes them through to the host and acts on the scores.  Each is clean: a score
changes nothing, and who has no score deletes nothing.  Together the score, calibrated for the step that it was
read in, becomes the warrant of something that lasts for the rest of the session.
The repaired twin is the reversible control: the same score decides only where the page lies.  A look-back then
waits for its load: slower, not wrong.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, STEP, TICK
from tests.field.report import Report

HEAVY, RECENT = 0, 1
QUOTA = 0


def score_by_attention(s: State, k: Int) -> None:
    """H2O: of each session, outside the recent area, the pages with the largest accumulated attention are heavy
    hitters; every other one that has been through a step is certified as low for that step.
    """
    for p in each(NP):
        skip(present(s, p))
        r = request_of(p)
        old = get(s, R_N, r) - get(s, PARAM, k * NPARAM + RECENT)
        above = 0
        for i in each(PAGES):
            q = r * PAGES + i
            # Ties go to the lower index, which leaves first.
            heavier = or_(get(s, ATT, q) > get(s, ATT, p), and_(get(s, ATT, q) == get(s, ATT, p), q > p))
            above = above + ite(and_(i < old, present(s, q), heavier), 1, 0)
        light = and_(p - r * PAGES < old, above >= get(s, PARAM, k * NPARAM + HEAVY))
        certify(s, and_(present(s, p), light, get(s, LIFE, p) > 0), k, p, CURRENT_ATTENTION, 1)


def scored_low(s: State, p: Int) -> Bool:
    """Whether a certificate stands on the page that hasn't run out, whatever it was made for."""
    return and_(get(s, CERT, p) > 0, get(s, LIFE, p) - get(s, CERT_AT, p) <= get(s, CERT_FOR, p))


def write_through(s: State, k: Int) -> None:
    """Copies the first page that the host hasn't, one at a time."""
    target = -1
    for p in each(NP):
        fresh = and_(present(s, p), get(s, HOST, p) < 0, not_(page_in_flight(s, p)))
        target = ite(and_(target < 0, fresh), p, target)
    begin_store(s, and_(target >= 0, own_in_flight(s, k) == 0), k, slot(target))


def delete_scored(s: State, k: Int) -> None:
    """Deletes a page that is scored low, on both tiers, within its own quota of losses; else writes through."""
    low = -1
    for p in each(NP):
        settles = and_(present(s, p), hosted(s, p), not_(page_in_flight(s, p)))
        r = request_of(p)
        spent = get(s, SPENT, k * NR + r) + get(s, SHARE, get(s, R_N, r))
        fits = spent <= get(s, PARAM, k * NPARAM + QUOTA)
        low = ite(and_(low < 0, settles, fits, scored_low(s, p)), p, low)
    page = slot(low)
    sure = spend(s, low >= 0, k, page, DELETE)
    drop_device(s, sure, k, page)
    deleted = drop_host(s, sure, k, page, 1)
    lose(s, deleted, k, page)
    write_through(s, k)


def move_scored(s: State, k: Int) -> None:
    """The repair: a page that is scored low leaves the device, and the host keeps it."""
    low = -1
    for p in each(NP):
        settles = and_(present(s, p), hosted(s, p), not_(page_in_flight(s, p)))
        low = ite(and_(low < 0, settles, scored_low(s, p)), p, low)
    page = slot(low)
    sure = spend(s, low >= 0, k, page, RESIDE)
    drop_device(s, sure, k, page)
    write_through(s, k)


_ATTENTION = Evidence(
    target="current-attention",
    horizon=1,
    confidence=900,
    provenance="attention summed over steps",
    calibrated_on="the step in which it was read",
)
SCORER = Policy(
    name="attention-score",
    version="1",
    parameters={"heavy": 2, "recent": 2},
    rule=score_by_attention,
    manifest=Manifest(
        kind="evict",
        actions=(),
        evidence=_ATTENTION,
        source="H2O (2306.14048): accumulated attention, heavy hitters and a recent area",
        fidelity="[C] score and areas; [R] whole pages, areas of two pages; ties as in OpenVINO GenAI",
    ),
)
DELETER = Policy(
    name="score-deletion",
    version="1",
    parameters={"quota": 250},
    rule=delete_scored,
    manifest=Manifest(
        kind="evict",
        actions=does("begin_store", "drop_device")
        + does("drop_host", "spend", reversibility="irreversible", authority_copy="none", quality_budget=250),
        evidence=_ATTENTION,
        source="the design's S4",
        fidelity="[R] one page an act; the page leaves both tiers in one act",
    ),
)
MOVER = Policy(
    name="score-deletion",
    version="2",
    parameters={"quota": 250},
    rule=move_scored,
    manifest=Manifest(
        kind="evict",
        actions=does("begin_store", "drop_device", "spend", recovery_p95=24),
        evidence=_ATTENTION,
        source="the design's S4, its reversible control",
        fidelity="[R] one page an act",
    ),
)

REPORT = Report(
    name="S4",
    title="a score of the current step's attention is spent on deleting the page for good",
    url="",
    invariant="I17",
    policies=(SCORER, DELETER),
    repaired={"score-deletion": MOVER},
    trace=((ARRIVE, 0, 6), (ACT, 1, 0), (STEP, 0, 1), (TICK, 3, 0), (ACT, 0, 0), (ACT, 1, 0)),
)
