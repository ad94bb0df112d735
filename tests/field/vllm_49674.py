"""vllm#49674: a fence defers the frees of preempted sessions; the scheduler preempts as if each made room at once.

The fence repairs another conflict (frames that a step in flight still writes).  With it a preemption adds nothing to
the pool before the next step has ended: the allocation fails as before, the next victim is preempted for nothing, and
when nobody runs no step ends.  With immediate frees the first victim makes room; without preemption frees are late by
one step, and that's all.  Simplified [R]: two sessions, so one victim; the shorter session goes first; steps that
run ahead aren't modelled, only their fence.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, QUEUE
from tests.field.report import Report


def defer(s: State, k: Int) -> None:
    """Steps may be in flight at any time: what is given up is free only behind the next step's end."""
    defer_frees(s, True, k)


def schedule_round(s: State, k: Int, asks_first: int) -> None:
    """One round: the shorter of the sessions that wait goes first; if the free frames don't suffice for it, a longer
    one that runs is preempted; then whoever fits is admitted.
    """
    first = -1
    for r in each(NR):
        shorter = or_(first < 0, get(s, R_N, r) < get(s, R_N, slot(first)))
        first = ite(and_(waiting(s, r), shorter), r, first)
    one = slot(first)
    short = and_(first >= 0, get(s, R_TODO, one) > free_device_frames(s))
    victim = -1
    for r in each(NR):
        longer = and_(running(s, r), get(s, R_N, r) > get(s, R_N, one))
        busy = 0
        for i in each(PAGES):
            busy = busy + get(s, BUSY, r * PAGES + i)
        victim = ite(and_(short, longer, busy == 0), r, victim)
    reclaimed = or_(asks_first == 0, get(s, DEFER, 0) == 0)
    preempt(s, and_(victim >= 0, reclaimed), k, slot(victim))
    admit(s, first >= 0, k, one)
    for r in each(NR):
        admit(s, waiting(s, r), k, r)
    end_round(s, True, k)


def preempt_for_room(s: State, k: Int) -> None:
    """Takes it for granted that a victim's frames are free at once."""
    schedule_round(s, k, 0)


def preempt_if_reclaimed(s: State, k: Int) -> None:
    """The repair: a victim whose frames would stay behind the fence runs on."""
    schedule_round(s, k, 1)


FENCE = Policy(
    name="deferred-free",
    version="1",
    rule=defer,
    manifest=Manifest(
        kind="schedule",
        actions=does("defer_frees", authority_copy="none"),
        evidence=Evidence(
            target="next-access",
            horizon=1,
            confidence=1000,
            provenance="steps in flight",
            calibrated_on="run-ahead scheduling",
        ),
        source="vllm#49674, deferred block frees (the fix of vllm PR 45357)",
        fidelity="[R] the fence alone",
    ),
)
_MANIFEST = Manifest(
    kind="schedule",
    actions=does("preempt", "admit", authority_copy="none"),
    evidence=Evidence(
        target="next-access", horizon=1, confidence=1000, provenance="frames", calibrated_on="free frames"
    ),
    source="vllm#49674, preemption by recompute",
    fidelity="[R] the shorter session first, one victim a round",
)
SCHEDULER = Policy(
    name="preempt-scheduler", version="1", rule=preempt_for_room, workload=("queue",), manifest=_MANIFEST
)
SCHEDULER_REPAIRED = Policy(
    name="preempt-scheduler", version="2", rule=preempt_if_reclaimed, workload=("queue",), manifest=_MANIFEST
)

REPORT = Report(
    name="vllm#49674",
    title="preemption makes no room where frees are deferred, and nobody runs",
    url="https://github.com/vllm-project/vllm/issues/49674",
    invariant="I13",
    policies=(FENCE, SCHEDULER),
    repaired={"preempt-scheduler": SCHEDULER_REPAIRED},
    trace=((ACT, 0, 0), (ARRIVE, 0, 8), (QUEUE, 1, 5), (ACT, 1, 0), (ACT, 1, 0)),
)
