"""sglang PR 27631: with both pools full, the load back of a page evicts the very host copy that it is to read.

A load back needs a device frame; the device is full, so the coldest page there is written back first; the host is
full, so the write-back takes a host frame from whoever seems to need his least: a request that still waits.  But that
one was admitted on the promise of those pages.  Write-through (a clean victim needs no host frame) or spare memory on
either side hides it.

Simplified [R]: the two sides act in turn, not nested in one call; a request that was set aside and comes back stands
for the prefix hit; the promise is the quote of the contract.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, PAUSE, TICK, Config
from tests.field.report import Report

ROOM = 0


def load_what_was_promised(s: State, k: Int) -> None:
    """Quotes what the host has of a session that waits, and loads it page by page when a device frame is free;
    a quote ends when its page is there.
    """
    for p in each(NP):
        missing = and_(waiting(s, request_of(p)), to_do(s, p))
        promise(s, and_(missing, hosted(s, p), not_(page_in_flight(s, p))), k, p)
        withdraw(s, present(s, p), k, p)
        idle = own_in_flight(s, k) == 0
        begin_load(s, and_(missing, idle, get(s, QUOTE, k * NP + p) == 1), k, p)


def write_back(s: State, k: Int, asks: int) -> None:
    """If fewer device frames are free than the tier keeps, the coldest page of a running session goes to the
    host and then leaves the device.

    Where the host is full too, it first gives up the host copy that matters least: one that the device has too
    or whose session would compute the page again; with ``asks`` above 0 none that somebody relies on.
    """
    cold = -1
    spare = -1
    for p in each(NP):
        here = and_(running(s, request_of(p)), present(s, p), not_(page_in_flight(s, p)))
        colder = or_(cold < 0, get(s, LAST, p) < get(s, LAST, slot(cold)))
        cold = ite(and_(here, colder), p, cold)
        again = or_(present(s, p), to_do(s, p))
        unclaimed = or_(asks == 0, not_(quoted(s, p)))
        drops = and_(hosted(s, p), again, not_(page_in_flight(s, p)), unclaimed)
        older = or_(spare < 0, get(s, LAST, p) < get(s, LAST, slot(spare)))
        spare = ite(and_(drops, older), p, spare)
    short = and_(cold >= 0, free_device_frames(s) < get(s, PARAM, k * NPARAM + ROOM))
    victim = slot(cold)
    dirty = and_(short, get(s, HOST, victim) < 0, own_in_flight(s, k) == 0)
    drop_host(s, and_(dirty, free_host_frames(s) == 0, spare >= 0), k, slot(spare), 0)
    begin_store(s, dirty, k, victim)
    drop_device(s, and_(short, hosted(s, victim)), k, victim)


def write_back_blindly(s: State, k: Int) -> None:
    """Knows its own use of host frames only."""
    write_back(s, k, 0)


def write_back_around_claims(s: State, k: Int) -> None:
    """The repair: host copies that a load back was promised are locked before anything is evicted for it."""
    write_back(s, k, 1)


LOAD_BACK = Policy(
    name="promised-load-back",
    version="1",
    rule=load_what_was_promised,
    workload=("pause",),
    manifest=Manifest(
        kind="recover",
        actions=(COPY_IN,),
        evidence=Evidence(
            target="next-access", horizon=1, confidence=900, provenance="queue", calibrated_on="prompts"
        ),
        source="sglang PR 27631, load back of the hierarchical cache",
        fidelity="[R] one load at a time",
    ),
)
_MANIFEST = Manifest(
    kind="offload",
    actions=(COPY_OUT, *does("drop_device"), *does("drop_host", authority_copy="none")),
    evidence=Evidence(
        target="near-reuse", horizon=1, confidence=900, provenance="last access", calibrated_on="recency"
    ),
    source="sglang PR 27631, write-back of the hierarchical cache",
    fidelity="[R] one page an act",
)
WRITE_BACK = Policy(
    name="write-back", version="1", parameters={"room": 3}, rule=write_back_blindly, manifest=_MANIFEST
)
WRITE_BACK_REPAIRED = Policy(
    name="write-back", version="2", parameters={"room": 3}, rule=write_back_around_claims, manifest=_MANIFEST
)

REPORT = Report(
    name="sglang PR 27631",
    title="writing a page back to make room for a load evicts the host copy that is to be loaded",
    url="https://github.com/sgl-project/sglang/pull/27631",
    invariant="I1",
    policies=(LOAD_BACK, WRITE_BACK),
    repaired={"write-back": WRITE_BACK_REPAIRED},
    trace=(
        (ARRIVE, 0, 8),
        (ACT, 1, 0),
        (TICK, 4, 0),
        (PAUSE, 0, 0),
        (ARRIVE, 1, 8),
        (ACT, 0, 0),
        (ACT, 1, 0),
    ),
    also=("I12",),
    config=Config(device_frames=8, host_frames=1, page_cost=4),
)
