"""S9: eviction degenerates an output, it runs on, and the memory that eviction saved is eaten again.

An evictor deletes the middle of a session for good, within its quota of losses; an admission policy fills the pool
with waiting sessions and counts on outputs of the expected length.  Alone the evictor's sessions run on into frames
that the engine's own admission keeps back; alone the admission policy meets no output that is longer than expected.
Together the frames are given away, those that eviction freed too, and the output that runs on has none: it is
preempted and computed again.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, FINISH, QUEUE, TICK
from tests.field.report import Report

SINKS, RECENT, QUOTA = 0, 1, 2


def evict_middle(s: State, k: Int) -> None:
    """StreamingLLM: of each running session the sinks and the recent window stay, the rest leaves, oldest page
    first.  A page leaves by way of the host: what lies there is deleted, on both tiers; else the next one goes
    there, if its loss fits the evictor's own quota.
    """
    for r in each(NR):
        staged, middle = -1, -1
        for i in each(PAGES):
            p = r * PAGES + i
            here = and_(running(s, r), present(s, p), not_(page_in_flight(s, p)))
            recent = get(s, R_N, r) - get(s, PARAM, k * NPARAM + RECENT)
            between = and_(i >= get(s, PARAM, k * NPARAM + SINKS), i < recent)
            staged = ite(and_(staged < 0, here, hosted(s, p)), p, staged)
            middle = ite(and_(middle < 0, here, between, not_(hosted(s, p))), p, middle)
        dead = slot(staged)
        drop_device(s, staged >= 0, k, dead)
        deleted = drop_host(s, staged >= 0, k, dead, 1)
        lose(s, deleted, k, dead)
        loss = get(s, SPENT, k * NR + r) + get(s, SHARE, get(s, R_N, r))
        fits = and_(loss <= get(s, PARAM, k * NPARAM + QUOTA), own_in_flight(s, k) == 0)
        begin_store(s, and_(middle >= 0, fits), k, slot(middle))


def fill_pool(s: State, k: Int, reserve: Int) -> None:
    """Admits each waiting session that the free frames suffice for, with ``reserve`` kept back for it and for each
    other one that runs, as far as they can still grow.
    """
    for r in each(NR):
        needed = 0
        kept = 0
        for i in each(PAGES):
            needed = needed + ite(to_do(s, r * PAGES + i), 1, 0)
        for q in each(NR):
            room = PAGES - get(s, R_N, q)
            most = ite(room < reserve, room, reserve)
            kept = kept + ite(or_(q == r, running(s, q)), most, 0)
        admit(s, and_(waiting(s, r), free_device_frames(s) - kept >= needed), k, r)


def admit_on_expected_length(s: State, k: Int) -> None:
    """Counts on outputs that end in the page where they are expected to."""
    fill_pool(s, k, 0)


def admit_on_longest_length(s: State, k: Int) -> None:
    """The repair: counts on outputs that run on."""
    fill_pool(s, k, 2)


EVICT = Policy(
    name="sink-window-evict",
    version="1",
    parameters={"sinks": 1, "recent": 1, "quota": 250},
    rule=evict_middle,
    manifest=Manifest(
        kind="evict",
        actions=does("begin_store", authority_copy="device")
        + does("drop_device")
        + does("drop_host", reversibility="irreversible", authority_copy="none", quality_budget=250),
        evidence=Evidence(
            target="current-attention",
            horizon=1,
            confidence=900,
            provenance="position in the session",
            calibrated_on="perplexity of outputs of the expected length",
        ),
        source="StreamingLLM (2309.17453); VaSE (2606.03928) and KV-Rescue (2608.15797) on outputs that loop",
        fidelity="[C] sinks and window; [R] of a page each, one page at a time and by way of the host",
    ),
)
_MANIFEST = Manifest(
    kind="schedule",
    actions=does("admit", authority_copy="none"),
    evidence=Evidence(
        target="next-access",
        horizon=1,
        confidence=900,
        provenance="mean length of earlier outputs",
        calibrated_on="outputs with full cache",
    ),
    source="the design's S9; admission by predicted output length",
    fidelity="[R] the prediction is that no output needs another page",
)
ADMISSION = Policy(
    name="expected-admission",
    version="1",
    rule=admit_on_expected_length,
    manifest=_MANIFEST,
    workload=("queue",),
)
ADMISSION_REPAIRED = Policy(
    name="expected-admission",
    version="2",
    rule=admit_on_longest_length,
    manifest=_MANIFEST,
    workload=("queue",),
)

REPORT = Report(
    name="S9",
    title="an output that degenerates after eviction runs on into frames that were given away on its expected length",
    url="",
    invariant="I14",
    policies=(ADMISSION, EVICT),
    repaired={"expected-admission": ADMISSION_REPAIRED},
    trace=(
        (QUEUE, 0, 6),
        (ACT, 0, 0),
        (ACT, 1, 0),
        (TICK, 8, 0),
        (ACT, 1, 0),
        (QUEUE, 1, 7),
        (ACT, 0, 0),
        (FINISH, 0, 0),
    ),
)
