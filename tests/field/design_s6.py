"""S6: a score of near reuse authorises lossy bytes without a backup.

The score says where a page should lie: one that won't be reused soon may go to a slower or smaller place.  The
quantiser rewrites pages at 4 bits under an exact backup on the host.  Each is clean.  Together the quantiser takes
the score for the warrant of freeing the backup, and the page stays lossy for good, though nothing was measured
about what its 4 bits cost.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, TICK
from tests.field.report import Report

FLOOR, HALF_LIFE = 0, 1
ANY_TARGET, RECONSTRUCTED = 1, RECONSTRUCTION


def halved(value: Int, age: Int, life: Int) -> Int:
    """A number after exponential decay, in whole half-lives up to four."""
    once = ite(age >= life, div(value, 2), value)
    twice = ite(age >= 2 * life, div(once, 2), once)
    thrice = ite(age >= 3 * life, div(twice, 2), twice)
    return ite(age >= 4 * life, 0, thrice)


def score_reuse(s: State, k: Int) -> None:
    """Reuse of a page: how often it was asked for, decayed by its age, over its depth in the session.  Below the
    floor it is certified as not reused soon.
    """
    for p in each(NP):
        skip(get(s, OWNED, p) == 1)
        depth = p - request_of(p) * PAGES
        age = get(s, NOW, 0) - get(s, LAST, p)
        # A session's opening writes each page: that is its first use.
        reuse = halved(8 * (1 + get(s, HITS, p)), age, get(s, PARAM, k * NPARAM + HALF_LIFE))
        low = reuse < get(s, PARAM, k * NPARAM + FLOOR) * (depth + 1)
        certify(s, and_(get(s, OWNED, p) == 1, low), k, p, NEAR_REUSE, 4)


def warranted(s: State, p: Int, least: int) -> Bool:
    """Whether a certificate stands on the page that hasn't run out and was made for ``least`` or more."""
    current = get(s, LIFE, p) - get(s, CERT_AT, p) <= get(s, CERT_FOR, p)
    return and_(get(s, CERT, p) >= least, current)


def quantise_under_backup(s: State, k: Int, least: int) -> None:
    """One act: frees the backup of a quantised page with a warrant; quantises what the host has in full, least
    recently used first; backs up the next page.
    """
    spare, cold, bare = -1, -1, -1
    for p in each(NP):
        skip(present(s, p))
        idle = and_(present(s, p), not_(page_in_flight(s, p)))
        lossy = get(s, D_PREC, slot(get(s, DEV, p))) != EXACT
        backed = and_(idle, host_exact(s, p))
        spare = ite(and_(spare < 0, backed, lossy, warranted(s, p, least)), p, spare)
        colder = or_(cold < 0, get(s, LAST, p) < get(s, LAST, slot(cold)))
        cold = ite(and_(backed, not_(lossy), colder), p, cold)
        bare = ite(and_(bare < 0, idle, not_(lossy), get(s, HOST, p) < 0), p, bare)
    page = slot(spare)
    sure = spend(s, spare >= 0, k, page, DEGRADE)
    drop_host(s, sure, k, page, 1)
    quantise(s, cold >= 0, k, slot(cold), INT4)
    begin_store(s, and_(bare >= 0, own_in_flight(s, k) == 0), k, slot(bare))


def quantise_on_any_warrant(s: State, k: Int) -> None:
    """Any certificate that says "low" is good enough."""
    quantise_under_backup(s, k, ANY_TARGET)


def quantise_on_reconstruction(s: State, k: Int) -> None:
    """The repair: only evidence of reconstruction, or better, frees a backup."""
    quantise_under_backup(s, k, RECONSTRUCTED)


SCORER = Policy(
    name="reuse-score",
    version="1",
    parameters={"floor": 5, "half_life": 8},
    rule=score_reuse,
    manifest=Manifest(
        kind="offload",
        actions=(),
        evidence=Evidence(
            target="near-reuse",
            horizon=4,
            confidence=900,
            provenance="accesses, decayed by age, over depth",
            calibrated_on="when pages were asked for again",
        ),
        source="vllm-marconi-offload: reuse x exp(-decay x age) / (depth + 1)",
        fidelity="[R] decay in whole half-lives of 8 ticks, and its floor",
    ),
)
_MANIFEST = Manifest(
    kind="quant",
    actions=does("begin_store", authority_copy="device")
    + does("quantise", reversibility="lossy-with-backup")
    + does("drop_host", "spend", reversibility="irreversible", authority_copy="none", quality_budget=330),
    evidence=Evidence(
        target="reconstruction", horizon=1, confidence=900, provenance="absmax", calibrated_on="int4"
    ),
    source="the design's S6; per-token-head int4 (page-local scales)",
    fidelity="[R] one page an act, the backup stays until a warrant frees it",
)
QUANT = Policy(name="thrifty-quant", version="1", rule=quantise_on_any_warrant, manifest=_MANIFEST)
QUANT_REPAIRED = Policy(
    name="thrifty-quant", version="2", rule=quantise_on_reconstruction, manifest=_MANIFEST
)

REPORT = Report(
    name="S6",
    title="a score of near reuse is spent on freeing the only exact copy of a quantised page",
    url="",
    invariant="I17",
    policies=(SCORER, QUANT),
    repaired={"thrifty-quant": QUANT_REPAIRED},
    trace=(
        (ARRIVE, 0, 1),
        (ACT, 1, 0),
        (TICK, 8, 0),
        (ACT, 1, 0),
        (ACT, 0, 0),
        (ACT, 1, 0),
    ),
)
