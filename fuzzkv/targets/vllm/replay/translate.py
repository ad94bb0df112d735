"""From histories to scripts: the page operations by which an engine replays each arm of a case.

Only what the history says is translated; an engine replay decides nothing.  Pages that lie on the host when a
session's questions are asked come back through the host copy that the arm still has, which is how a broken
promise is called in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fuzzkv.semantics.layout import INT4, INT8, PAGES
from fuzzkv.simulator.history import History, Record
from fuzzkv.targets.vllm.replay.script import Op, ReplayArm, ReplayJob, ReplayKind

BITS = {INT8: 8, INT4: 4}
"""Precision of the machine -> bits on the engine."""
TICK_US = 2500
"""Length of a tick in latency replays, in microseconds."""
KINDS: Mapping[str, ReplayKind] = {
    "latency": "latency",
    "quality": "quality",
    "content": "quality",
    "contract": "quality",
}
"""Oracle that failed -> kind of replay."""

_COPIES = {
    "begin_store": "store",
    "end_store": "stored",
    "begin_load": "load",
    "end_load": "loaded",
    "fail_copy": "fail",
    "drop_device": "discard_device",
    "drop_host": "discard_host",
}


class _Writer:
    """Writes one arm's script, following where each page is."""

    def __init__(self, step_cost: int, page_cost: int) -> None:
        self.step_cost, self.page_cost = step_cost, page_cost
        self.ops: list[Op] = []
        self.open: dict[int, int] = {}
        self.away: set[int] = set()
        self.hosted: set[int] = set()
        self.loading: set[int] = set()

    def put(self, verb: str, p: int, arg: int = 0) -> None:
        self.ops.append(Op(verb, p // PAGES, p % PAGES, arg))

    def bring(self, p: int) -> None:
        """A demand load."""
        for verb in ("load", "await", "loaded"):
            self.put(verb, p, self.page_cost if verb == "load" else 0)

    def recall(self, request: int) -> None:
        """Everything of a session that is on the host only comes back before its questions are asked."""
        for i in range(self.open[request]):
            p = request * PAGES + i
            if p in self.loading:
                # It is on its way already.
                self.put("await", p)
                self.put("loaded", p)
            elif p in self.away and p in self.hosted:
                self.bring(p)

    def serve(self, focus: int, records: list[Record]) -> None:
        """What the reader waits for comes first, so that its clock runs while the link is busy with other
        copies.
        """
        if focus in self.loading:
            failed = [r for r in records if r.primitive == "fail_copy" and r.page == focus]
            for _ in failed:
                self.put("fail", focus)
            self.put("await", focus)
        if any(r.primitive in ("demand_load", "remote_read") for r in records):
            self.bring(focus)

    def event(self, records: list[Record]) -> None:
        step = next((r for r in records if r.primitive == "step"), None)
        if step is not None:
            self.serve(step.page, records)
        in_place = None
        for r in records:
            if r.primitive == "fail_copy" and step is not None and r.page == step.page in self.loading:
                self.loading.discard(r.page)  # told before the reader waits
            elif r.primitive in _COPIES:
                self.put(_COPIES[r.primitive], r.page, r.detail if r.primitive.startswith("begin") else 0)
                self._follow(r)
            elif r.primitive == "quantise":
                self.put("quantise", r.page, BITS[r.detail])
            elif r.primitive in ("demand_load", "remote_read"):
                self.away.discard(r.page)
                in_place = r.page if r.primitive == "remote_read" else None
            elif r.primitive == "arrive":
                self.open[r.page // PAGES] = r.detail
                pages = range(r.page, r.page + PAGES)
                for group in (self.away, self.hosted, self.loading):
                    group.difference_update(pages)
                self.ops.append(Op("arrive", r.page // PAGES, -1, r.detail))
            elif r.primitive == "tick":
                self.ops.append(Op("wait", -1, -1, r.detail))
            elif r.primitive == "finish":
                self.recall(r.page // PAGES)
                self.open.pop(r.page // PAGES)
                self.ops.append(Op("finish", r.page // PAGES, -1, 0))
            elif r.primitive == "step":
                self.put("ask", r.page, self.step_cost)
        if in_place is not None:
            # Read where it lies: the page has no device frame of its own afterwards.
            self.put("discard_device", in_place)
            self.away.add(in_place)

    def _follow(self, r: Record) -> None:
        if r.primitive == "drop_device":
            self.away.add(r.page)
        elif r.primitive == "end_load":
            self.away.discard(r.page)
            self.loading.discard(r.page)
        elif r.primitive == "begin_load":
            self.loading.add(r.page)
        elif r.primitive == "end_store":
            self.hosted.add(r.page)
        elif r.primitive == "drop_host":
            self.hosted.discard(r.page)
        elif r.primitive == "fail_copy":
            self.loading.discard(r.page)


def script_of(
    history: History, *, step_cost: int, page_cost: int, asked: int | None = None
) -> tuple[Op, ...]:
    """The script of one arm.  Steps from event ``asked`` on move pages, but ask nothing.

    An ``ask`` carries the ticks that a step takes at least, so that a latency replay keeps the schedule's
    pace.
    """
    writer = _Writer(step_cost, page_cost)
    by_event: dict[int, list[Record]] = {}
    for record in history.records:
        by_event.setdefault(record.event, []).append(record)
    for event in sorted(by_event):
        done = len(writer.ops)
        writer.event(by_event[event])
        if asked is not None and event >= asked:
            writer.ops[done:] = [op for op in writer.ops[done:] if op.verb != "ask"]
    for request in sorted(writer.open):
        writer.recall(request)
    return tuple(writer.ops)


def job_of(
    case_id: str,
    oracle: str,
    histories: Mapping[int, History],
    *,
    asked: int,
    page: int,
    seed: int,
    step_cost: int,
    page_cost: int,
    objective: int,
    tolerance: int,
) -> ReplayJob:
    """The job that confirms a case: all arms, the questions that decide, and the kind of judgement.

    A breach of the quality ledger is judged over every page of the session, anything else over the page
    that was hurt.  The latency slack of the engine is the model's, and half of the model's tolerance,
    above what the empty control needs.
    """
    kind = KINDS[oracle]
    arms = tuple(
        ReplayArm(history.policies, script_of(history, step_cost=step_cost, page_cost=page_cost, asked=asked))
        for _, history in sorted(histories.items())
    )
    if oracle == "quality":
        pages = [op.arg for op in arms[-1].script if op.verb == "arrive" and op.request == page // PAGES]
        endpoint = tuple((page // PAGES, i) for i in range(max(pages)))
    else:
        endpoint = ((page // PAGES, page % PAGES),)
    return ReplayJob(
        case_id=case_id,
        kind=kind,
        arms=arms,
        endpoint=endpoint,
        seed=seed,
        tick_us=TICK_US,
        slack_ticks=objective - step_cost + tolerance // 2,
    )


def exact_of(job: ReplayJob, histories: Mapping[int, History]) -> ReplayJob | None:
    """The same case judged by token identity, or ``None`` where some control can't be exact.

    It can where nothing is quantised and no control loses a page: then every page comes back before its
    session's questions are asked. Steps in between read only what is resident, so they are left out.
    """
    full = max(histories)
    lossy = any(op.verb == "quantise" for arm in job.arms for op in arm.script)
    lost = any(max(history.outcome.damage) for mask, history in histories.items() if mask != full)
    if job.kind != "quality" or lossy or lost:
        return None
    arms = tuple(
        ReplayArm(arm.policies, tuple(op for op in arm.script if op.verb != "ask")) for arm in job.arms
    )
    return replace(job, kind="exact", arms=arms)
