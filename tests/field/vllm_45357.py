"""vllm PR 45357: a block that a run-ahead step still writes to is freed, and receives another request's KV.

With asynchronous scheduling the next step of a request is on the device before it is known that the request has
ended.  Its block goes back to the pool at once.  If a peer's KV lands there first, the late step overwrites it; what
the device writes itself comes behind the step in stream order, so without a connector nothing is wrong.

Simplified [R]: a step that ran ahead writes the newest page only; a page comes from one peer at a fixed cost,
smaller than a step's.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, FINISH, QUEUE, STEP, TICK, Config
from tests.field.report import Report


def launch_next_steps(s: State, k: Int) -> None:
    """Every session that runs gets its next step launched, unless one is on its way already."""
    for r in each(NR):
        tail = r * PAGES + slot(get(s, R_N, r) - 1)
        idle = not_(in_flight_on_device(s, slot(get(s, DEV, tail))))
        run_ahead(s, and_(running(s, r), present(s, tail), idle), k, r)


def free_at_once(s: State, k: Int) -> None:
    """Runs ahead; what a session gives up is free at once."""
    launch_next_steps(s, k)


def free_behind_the_step(s: State, k: Int) -> None:
    """The repair: while steps may run ahead, what is given up is free only after the next step has ended."""
    defer_frees(s, True, k)
    launch_next_steps(s, k)


def receive_pages(s: State, k: Int) -> None:
    """A decoding node: sessions that wait get their pages from a peer."""
    for p in each(NP):
        skip(to_do(s, p))
        receive(s, and_(waiting(s, request_of(p)), to_do(s, p)), k, p, 0)


RECEIVER = Policy(
    name="peer-receiver",
    version="1",
    rule=receive_pages,
    workload=("queue",),
    manifest=Manifest(
        kind="relocate",
        actions=does("receive", authority_copy="none"),
        evidence=Evidence(
            target="next-access", horizon=1, confidence=900, provenance="queue", calibrated_on="prompts"
        ),
        source="vllm PR 45357, a connector that receives a prompt's KV from the node that computed it",
        fidelity="[R] as many pages at once as may be in flight, no lease",
    ),
)
_EVIDENCE = Evidence(
    target="next-access",
    horizon=1,
    confidence=900,
    provenance="running sessions",
    calibrated_on="decode steps",
)
RUN_AHEAD = Policy(
    name="run-ahead",
    version="1",
    rule=free_at_once,
    manifest=Manifest(
        kind="schedule",
        actions=does("run_ahead", authority_copy="none"),
        evidence=_EVIDENCE,
        source="vllm PR 45357, asynchronous scheduling",
        fidelity="[R] one step ahead a session",
    ),
)
RUN_AHEAD_REPAIRED = Policy(
    name="run-ahead",
    version="2",
    rule=free_behind_the_step,
    manifest=Manifest(
        kind="schedule",
        actions=does("run_ahead", "defer_frees", authority_copy="none"),
        evidence=_EVIDENCE,
        source="vllm PR 45357, asynchronous scheduling with deferred frees",
        fidelity="[R] one step ahead a session",
    ),
)

REPORT = Report(
    name="vllm PR 45357",
    title="a step that ran ahead writes into a freed block that has received another request's KV meanwhile",
    url="https://github.com/vllm-project/vllm/pull/45357",
    invariant="I2",
    policies=(RECEIVER, RUN_AHEAD),
    repaired={"run-ahead": RUN_AHEAD_REPAIRED},
    trace=(
        (ARRIVE, 0, 1),
        (ACT, 1, 0),
        (FINISH, 0, 0),
        (QUEUE, 0, 1),
        (ACT, 0, 0),
        (TICK, 12, 0),
        (STEP, 0, 0),
    ),
    config=Config(step_cost=12, page_cost=2),
)
