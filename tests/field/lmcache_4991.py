"""LMCache#4991: a file tier enters a page in the index when its write begins; prefix reuse believes the index.

The write fails and the entry stays: the next lookup is served from a file that was never filled.  Reuse without
the tier only meets entries of filled frames, and the tier alone looks nothing up.  Simplified [R]: one write an
act; the reader is the same session after the engine has set it aside.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, FAIL, PAUSE, TICK
from tests.field.report import Report

LOW_WATER = 2


def write_one(s: State, k: Int, early: int) -> None:
    """Writes the first whole page that it hasn't written yet."""
    new = -1
    for p in each(NP):
        whole = and_(present(s, p), complete_page(s, p), settled(s, p), not_(page_in_flight(s, p)))
        new = ite(and_(new < 0, whole, get(s, MARK, k * NP + p) == 0), p, new)
    page = slot(new)
    spill(s, and_(new >= 0, own_in_flight(s, k) == 0), k, page, KEY_ALL, early)
    put_if(s, new >= 0, MARK, k * NP + page, 1)


def publish_then_write(s: State, k: Int) -> None:
    """The entry is visible from the start, so that nobody writes the same page twice."""
    write_one(s, k, 1)


def write_then_publish(s: State, k: Int) -> None:
    """The repair: the entry is visible once the write has succeeded."""
    write_one(s, k, 0)


def reuse_prefixes(s: State, k: Int) -> None:
    """Takes what the index has for pages that are waited for, publishes one page that it hasn't, and frees the
    oldest cached frame when few are left.
    """
    for p in each(NP):
        skip(to_do(s, p))
        hit(s, to_do(s, p), k, p, KEY_ALL)
    new, old = -1, -1
    for p in each(NP):
        whole = and_(present(s, p), complete_page(s, p), settled(s, p))
        new = ite(and_(new < 0, whole, get(s, MARK, k * NP + p) == 0), p, new)
    for x in each(NX):
        old = ite(and_(old < 0, cached_only(s, x)), x, old)
    publish(s, new >= 0, k, slot(new), KEY_ALL)
    put_if(s, new >= 0, MARK, k * NP + slot(new), 1)
    short = free_device_frames(s) < LOW_WATER
    expire(s, and_(old >= 0, short), k, slot(old), PAYLOAD + SCALES + ENTRY)


_MANIFEST = Manifest(
    kind="offload",
    actions=does("spill", authority_copy="device"),
    evidence=Evidence(
        target="near-reuse", horizon=1, confidence=900, provenance="tokens", calibrated_on="shared prefixes"
    ),
    source="LMCache#4991, the file tier",
    fidelity="[R] one write an act, no limit on files",
)
FILES = Policy(name="file-tier", version="1", rule=publish_then_write, manifest=_MANIFEST)
FILES_REPAIRED = Policy(name="file-tier", version="2", rule=write_then_publish, manifest=_MANIFEST)
REUSE = Policy(
    name="index-reuse",
    version="1",
    rule=reuse_prefixes,
    workload=("queue", "text", "pause"),
    manifest=Manifest(
        kind="reuse",
        actions=does("hit", "publish", "expire", authority_copy="device"),
        evidence=Evidence(
            target="near-reuse",
            horizon=1,
            confidence=1000,
            provenance="exact tokens",
            calibrated_on="shared prefixes",
        ),
        source="LMCache#4991, prefix reuse over all tiers",
        fidelity="[R] the oldest entry goes first",
    ),
)

REPORT = Report(
    name="LMCache#4991",
    title="an entry is published before its file is written, and outlives the failed write",
    url="https://github.com/LMCache/LMCache/issues/4991",
    invariant="I16",
    also=("I3", "I8"),
    policies=(FILES, REUSE),
    repaired={"file-tier": FILES_REPAIRED},
    trace=((ARRIVE, 0, 1), (ACT, 0, 0), (FAIL, 0, 0), (TICK, 8, 0), (PAUSE, 0, 0), (ACT, 1, 0)),
)
