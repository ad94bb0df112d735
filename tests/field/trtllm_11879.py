"""TensorRT-LLM#11879: offload during allocation claims its victim from the list of the level where it has just moved it.

The evictor files frames that nobody reads, and the offload tier takes its victims from there.  It swaps the block
first and asks for its level then: the claim goes to the secondary list, the frame stays filed in the primary one,
and the counts drift.  Without an evictor nothing is filed; without the tier no block changes its level.
Simplified [R]: one victim an act, two priorities, and the swap is a copy to the host.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, TICK
from tests.field.report import Report

ORDINARY, KEPT, SECONDARY = 0, 1, 2
IDLE_TICKS = 8


def filed(s: State, f: Int) -> Bool:
    """Whether a frame stands in a queue of evictable frames."""
    return get(s, D_QUEUE, f) > 0


def idle(s: State, p: Int) -> Bool:
    """Whether the page's frame is evictable: nobody asked for it lately, and no copy needs it."""
    quiet = get(s, LAST, p) + IDLE_TICKS <= get(s, NOW, 0)
    return and_(present(s, p), quiet, not_(page_in_flight(s, p)))


def list_of(s: State, p: Int) -> Int:
    """The list of a filed frame: by the level of the block that it belongs to, else as it was filed."""
    return ite(get(s, HOST, p) >= 0, SECONDARY, get(s, D_QUEUE, slot(get(s, DEV, p))) - 1)


def offload_victim(s: State, k: Int, claims_first: int) -> None:
    """Takes the first evictable frame of the lowest priority that the host has no copy of; if none is filed, the
    first page that nobody asked for lately.
    """
    victim, value = -1, 3
    for p in each(NP):
        skip(present(s, p))
        f = slot(get(s, DEV, p))
        free = and_(idle(s, p), get(s, HOST, p) < 0)
        rank = ite(filed(s, f), get(s, D_QUEUE, f) - 1, SECONDARY)
        better = and_(free, rank < value)
        victim = ite(better, p, victim)
        value = ite(better, rank, value)
    page = slot(victim)
    frame = slot(get(s, DEV, page))
    can = and_(victim >= 0, own_in_flight(s, k) == 0, free_host_frame(s) >= 0)
    before = list_of(s, page)
    swapped = begin_store(s, can, k, page)
    after = list_of(s, page)
    dequeue(s, and_(swapped, filed(s, frame)), k, frame, ite(claims_first > 0, before, after))


def swap_then_claim(s: State, k: Int) -> None:
    """The level is asked for after the swap."""
    offload_victim(s, k, 0)


def claim_then_swap(s: State, k: Int) -> None:
    """The repair: the victim is claimed where it stands, then it is moved."""
    offload_victim(s, k, 1)


def file_by_priority(s: State, k: Int) -> None:
    """Claims back the first filed frame that is no longer evictable, gives up the first one that the host has a
    copy of, and files one that isn't yet: a session's first page is kept longest.
    """
    back, out, new = -1, -1, -1
    for f in each(ND):
        p = get(s, D_PAGE, f)
        still = and_(p >= 0, idle(s, slot(p)))
        back = ite(and_(back < 0, filed(s, f), not_(still)), f, back)
        copied = and_(still, hosted(s, slot(p)))
        out = ite(and_(out < 0, filed(s, f), copied), f, out)
        new = ite(and_(new < 0, still, not_(filed(s, f))), f, new)
    dequeue(s, back >= 0, k, slot(back), get(s, D_QUEUE, slot(back)) - 1)
    page = slot(get(s, D_PAGE, slot(out)))
    claimed = dequeue(s, out >= 0, k, slot(out), get(s, D_QUEUE, slot(out)) - 1)
    drop_device(s, claimed, k, page)
    fresh = slot(get(s, D_PAGE, slot(new)))
    first = fresh == request_of(fresh) * PAGES
    level = ite(hosted(s, fresh), SECONDARY, ite(first, KEPT, ORDINARY))
    enqueue(s, new >= 0, k, slot(new), level)


_EVIDENCE = Evidence(
    target="near-reuse", horizon=1, confidence=900, provenance="last access", calibrated_on="recency"
)
_MANIFEST = Manifest(
    kind="offload",
    actions=does("begin_store", "dequeue", authority_copy="device"),
    evidence=_EVIDENCE,
    source="TensorRT-LLM#11879, offload while a free block is looked for",
    fidelity="[R] one victim an act",
)
OFFLOAD = Policy(name="alloc-offload", version="1", rule=swap_then_claim, manifest=_MANIFEST)
OFFLOAD_REPAIRED = Policy(name="alloc-offload", version="2", rule=claim_then_swap, manifest=_MANIFEST)
EVICTOR = Policy(
    name="priority-evictor",
    version="1",
    rule=file_by_priority,
    manifest=Manifest(
        kind="evict",
        actions=does("enqueue", "dequeue", "drop_device"),
        evidence=_EVIDENCE,
        source="TensorRT-LLM#11879, eviction queues by level and priority",
        fidelity="[R] two priorities, one frame an act",
    ),
)

REPORT = Report(
    name="TensorRT-LLM#11879",
    title="a victim is claimed from the list of the level to which it has just been swapped",
    url="https://github.com/NVIDIA/TensorRT-LLM/issues/11879",
    invariant="I11",
    policies=(OFFLOAD, EVICTOR),
    repaired={"alloc-offload": OFFLOAD_REPAIRED},
    trace=((ARRIVE, 0, 1), (TICK, 8, 0), (ACT, 1, 0), (ACT, 0, 0)),
)
