"""S10: a relocated session's prefix is recomputed exactly, its suffix is streamed as computed under a lossy prefix.

A session that is set aside at one place goes on at another.  The relocator brings it there the fast way: the device
recomputes the first part of its pages while the others are streamed from where it ran.  A quantiser rewrites pages
in place outside a residual window.  Each is clean: exact pages may be recomputed or streamed alike, and a lossy
session that is recomputed as a whole reads one cache.  Together what was generated after lossy pages is streamed
behind a prefix that is exact again: the two halves come from different caches under the same tokens.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, GROW, PAUSE, STEP, TICK, Config
from tests.field.report import Report

RESIDUAL = 0
PREFILL, STREAM = 0, 1


def quantise_outside_residual(s: State, k: Int) -> None:
    """KIVI's shape: each full page older than the session's residual window is rewritten in place, one an act."""
    target = -1
    for p in each(NP):
        r = request_of(p)
        old = p - r * PAGES < get(s, R_N, r) - get(s, PARAM, k * NPARAM + RESIDUAL)
        exact = and_(present(s, p), get(s, D_PREC, slot(get(s, DEV, p))) == EXACT)
        target = ite(and_(target < 0, running(s, r), old, exact, not_(page_in_flight(s, p))), p, target)
    quantise(s, target >= 0, k, slot(target), INT4)


def crossing(s: State, k: Int, n: Int) -> Int:
    """How many of ``n`` pages are recomputed so that the device and the stream end together: the least ``m`` with
    ``m * prefill >= (n - m) * stream``.
    """
    most = n
    for i in each(PAGES):
        m = PAGES - 1 - i
        rest = (n - m) * get(s, PARAM, k * NPARAM + STREAM)
        most = ite(and_(m < n, m * get(s, PARAM, k * NPARAM + PREFILL) >= rest), m, most)
    return most


def relocate(s: State, k: Int, exactly: int) -> None:
    """Of each session that waits, streams what lies behind the crossing; the device computes the rest.  With
    ``exactly`` above 0 a page that was computed after lossy ones isn't streamed.
    """
    for r in each(NR):
        n = crossing(s, k, get(s, R_N, r))
        for i in each(PAGES):
            p = r * PAGES + i
            suffix = and_(waiting(s, r), i >= n, i < get(s, R_N, r))
            sound = or_(exactly == 0, get(s, P_LINEAGE, p) == 0)
            receive(s, and_(suffix, sound), k, p, 0)


def stream_the_suffix(s: State, k: Int) -> None:
    """Takes pages of the same tokens for the same pages."""
    relocate(s, k, 0)


def stream_an_exact_suffix(s: State, k: Int) -> None:
    """The repair: what was computed after lossy pages is recomputed too."""
    relocate(s, k, 1)


QUANT = Policy(
    name="residual-quant",
    version="1",
    parameters={"residual": 1},
    rule=quantise_outside_residual,
    workload=("grow",),
    manifest=Manifest(
        kind="quant",
        actions=does("quantise", reversibility="irreversible", authority_copy="none", quality_budget=330),
        evidence=Evidence(
            target="reconstruction", horizon=1, confidence=900, provenance="min-max", calibrated_on="int4"
        ),
        source="KIVI (2402.02750): the newest tokens stay at full precision",
        fidelity="[C] residual window; [R] whole pages, one an act",
    ),
)
_MANIFEST = Manifest(
    kind="relocate",
    actions=does("receive", authority_copy="none"),
    evidence=Evidence(
        target="near-reuse",
        horizon=1,
        confidence=900,
        provenance="the session was handed over",
        calibrated_on="prefill and link rates",
    ),
    source="2603.28018: joint transfer and prefill at a handover; the design's S10",
    fidelity="[R] crossing of prefill and stream, the recomputed part is a prefix; rates of a page each",
)
RELOCATE = Policy(
    name="split-relocation",
    version="1",
    parameters={"prefill": 8, "stream": 8},
    rule=stream_the_suffix,
    workload=("grow", "pause"),
    manifest=_MANIFEST,
)
RELOCATE_REPAIRED = Policy(
    name="split-relocation",
    version="2",
    parameters={"prefill": 8, "stream": 8},
    rule=stream_an_exact_suffix,
    workload=("grow", "pause"),
    manifest=_MANIFEST,
)

REPORT = Report(
    name="S10",
    title="a relocated session reads an exact, recomputed prefix and a suffix that was computed after lossy pages",
    url="",
    invariant="I7",
    policies=(QUANT, RELOCATE),
    repaired={"split-relocation": RELOCATE_REPAIRED},
    trace=(
        (ARRIVE, 0, 4),
        (ACT, 0, 0),
        (GROW, 0, 4),
        (PAUSE, 0, 0),
        (ACT, 1, 0),
        (TICK, 8, 0),
        (STEP, 0, 0),
    ),
    config=Config(device_frames=16),
)
