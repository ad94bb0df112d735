"""LMCache#1034: a host lookup pins what it finds, and the retrieve takes the pin back; a device hit needs no retrieve.

So the good event leaks: each time that the device already has a prefix, its host copies stay pinned for good, until
nothing is left that could be evicted.  Without device reuse whatever was looked up is retrieved.  Simplified [R]: the
leak is seen when the next session opens, not when the pool is full; sessions are set aside and come back, so
that the same pages are looked up again.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, FINISH, PAUSE, TICK
from tests.field.report import Report

LOOKED_UP = 1
LOW_WATER = 2


def look_up_and_retrieve(s: State, k: Int, unpins_covered: int) -> None:
    """Looks up the pages that a session waits for, once, and retrieves those that the device hasn't; stores one new
    page.
    """
    new = -1
    for p in each(NP):
        skip(get(s, OWNED, p) == 1)
        seen = and_(get(s, MARK, k * NP + p) == LOOKED_UP, not_(to_do(s, p)))
        found = and_(get(s, TODO, p) == 1, hosted(s, p), not_(page_in_flight(s, p)), not_(seen))
        pin(s, found, k, p)
        covered = get(s, DEV, p) >= 0
        begin_load(s, and_(found, not_(covered)), k, p)
        # The copy holds its source by itself from here on.
        unpin(s, and_(found, or_(not_(covered), unpins_covered > 0)), k, slot(get(s, HOST, p)))
        put_if(s, found, MARK, k * NP + p, LOOKED_UP)
        put_if(s, get(s, TODO, p) == 0, MARK, k * NP + p, 0)
        cold = and_(present(s, p), get(s, TODO, p) == 0, get(s, HOST, p) < 0, not_(page_in_flight(s, p)))
        new = ite(and_(new < 0, cold), p, new)
    begin_store(s, and_(new >= 0, own_in_flight(s, k) == 0), k, slot(new))


def unpin_retrieved(s: State, k: Int) -> None:
    """Only a retrieve takes the pin back."""
    look_up_and_retrieve(s, k, 0)


def unpin_all(s: State, k: Int) -> None:
    """The repair: what the device covers is unpinned too."""
    look_up_and_retrieve(s, k, 1)


def reuse_on_device(s: State, k: Int) -> None:
    """Takes published frames for pages that are waited for, publishes new pages, and frees the oldest cached frame
    when few are left.
    """
    old = -1
    for p in each(NP):
        skip(get(s, OWNED, p) == 1)
        hit(s, to_do(s, p), k, p, KEY_ALL)
        whole = and_(present(s, p), complete_page(s, p), settled(s, p), get(s, TODO, p) == 0)
        new = and_(whole, get(s, MARK, k * NP + p) == 0)
        publish(s, new, k, p, KEY_ALL)
        put_if(s, new, MARK, k * NP + p, 1)
    for x in each(NX):
        old = ite(and_(old < 0, cached_only(s, x)), x, old)
    short = free_device_frames(s) < LOW_WATER
    expire(s, and_(old >= 0, short), k, slot(old), PAYLOAD + SCALES + ENTRY)


DEVICE = Policy(
    name="device-prefix",
    version="1",
    rule=reuse_on_device,
    workload=("pause",),
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
        source="LMCache#1034, the engine's own prefix cache",
        fidelity="[R] the oldest entry goes first",
    ),
)
_MANIFEST = Manifest(
    kind="offload",
    actions=does("begin_store", "begin_load", "pin"),
    evidence=Evidence(
        target="near-reuse", horizon=1, confidence=900, provenance="tokens", calibrated_on="shared prefixes"
    ),
    source="LMCache#1034, lookup and retrieve of the host tier",
    fidelity="[R] one store an act",
)
HOST_TIER = Policy(
    name="host-lookup", version="1", rule=unpin_retrieved, workload=("pause",), manifest=_MANIFEST
)
HOST_TIER_REPAIRED = Policy(
    name="host-lookup", version="2", rule=unpin_all, workload=("pause",), manifest=_MANIFEST
)

REPORT = Report(
    name="LMCache#1034",
    title="a prefix hit on the device leaks the host tier's lookup pin",
    url="https://github.com/LMCache/LMCache/issues/1034",
    invariant="I11",
    policies=(DEVICE, HOST_TIER),
    repaired={"host-lookup": HOST_TIER_REPAIRED},
    trace=(
        (ARRIVE, 0, 1),
        (ACT, 0, 0),
        (ACT, 1, 0),
        (TICK, 8, 0),
        (PAUSE, 0, 0),
        (ACT, 0, 0),
        (ACT, 1, 0),
        (FINISH, 0, 0),
        (ARRIVE, 0, 1),
    ),
)
