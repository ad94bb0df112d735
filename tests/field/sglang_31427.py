"""sglang PR 31427: a page that is being loaded back loses its host copy to the host tier's own eviction.

A load back protects the page's new device frame, and nothing protects the host frame that it reads from.  The host
tier, short of room, takes a page that has a device frame for one whose host copy nobody needs.  With spare host
memory, or without loads, that is never seen.

Simplified [R]: a request that was set aside and comes back stands for a prefix hit on the host; the copy is of one
frame, not layer by layer.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, PAUSE, TICK, Config
from tests.field.report import Report

ROOM = 0


def back_up_and_load_back(s: State, k: Int) -> None:
    """Writes pages through to the host; what a session that waits has there is loaded, and not computed again."""
    for p in each(NP):
        begin_load(s, and_(waiting(s, request_of(p)), to_do(s, p)), k, p)
    for p in each(NP):
        begin_store(s, and_(running(s, request_of(p)), present(s, p)), k, p)


def evict_host(s: State, k: Int, locked: int) -> None:
    """If fewer host frames are free than the tier keeps, drops the least recently used host copy of a page that
    has a device frame; with ``locked`` above 0 none that a copy in flight uses.
    """
    oldest = -1
    for p in each(NP):
        double = and_(hosted(s, p), get(s, DEV, p) >= 0, or_(locked == 0, not_(page_in_flight(s, p))))
        older = or_(oldest < 0, get(s, LAST, p) < get(s, LAST, slot(oldest)))
        oldest = ite(and_(double, older), p, oldest)
    short = free_host_frames(s) < get(s, PARAM, k * NPARAM + ROOM)
    drop_host(s, and_(short, oldest >= 0), k, slot(oldest), 0)


def evict_what_the_device_has(s: State, k: Int) -> None:
    """A page with a device frame needs no host copy."""
    evict_host(s, k, 0)


def evict_what_no_load_reads(s: State, k: Int) -> None:
    """The repair: the source of a load is protected until the load has ended."""
    evict_host(s, k, 1)


_MANIFEST = Manifest(
    kind="evict",
    actions=does("drop_host", authority_copy="device"),
    evidence=Evidence(
        target="near-reuse", horizon=1, confidence=900, provenance="last access", calibrated_on="recency"
    ),
    source="sglang PR 31427, eviction of the hierarchical cache's host pool",
    fidelity="[R] one page an act",
)
EVICT = Policy(
    name="host-lru", version="1", parameters={"room": 1}, rule=evict_what_the_device_has, manifest=_MANIFEST
)
EVICT_REPAIRED = Policy(
    name="host-lru", version="2", parameters={"room": 1}, rule=evict_what_no_load_reads, manifest=_MANIFEST
)
LOAD_BACK = Policy(
    name="load-back",
    version="1",
    rule=back_up_and_load_back,
    workload=("pause",),
    manifest=Manifest(
        kind="offload",
        actions=(COPY_OUT, COPY_IN),
        evidence=Evidence(
            target="next-access", horizon=1, confidence=900, provenance="queue", calibrated_on="prompts"
        ),
        source="sglang PR 31427, write-through and load back of the hierarchical cache",
        fidelity="[R] all pages of a session in one act",
    ),
)

REPORT = Report(
    name="sglang PR 31427",
    title="the host tier evicts the copy from which a load back still reads",
    url="https://github.com/sgl-project/sglang/pull/31427",
    invariant="I2",
    policies=(EVICT, LOAD_BACK),
    repaired={"host-lru": EVICT_REPAIRED},
    trace=((ARRIVE, 0, 1), (ACT, 1, 0), (TICK, 8, 0), (PAUSE, 0, 0), (ACT, 1, 0), (ACT, 0, 0)),
    also=("I1", "I3"),
    config=Config(host_frames=1),
)
