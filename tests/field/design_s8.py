"""S8: an aborted branch is still attended: same tokens, other cache, other answer.

A session API keeps a handle on a session's cache, so that its next turn starts from there; a rollback takes the
text back when a user aborts a turn and restores the cache to the accepted boundary.  Each is clean.  Together the
transcript is rolled back and the handle's pages aren't: the next step attends to what was aborted.
The repaired rollback re-prefills a session on which a handle is held from its committed text.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ABORT, ACT, ARRIVE, STEP
from tests.field.report import Report


def keep_handles(s: State, k: Int) -> None:
    """Keeps a handle on every session that runs."""
    for r in each(NR):
        hold(s, running(s, r), k, r)


def idle(s: State, r: Int) -> Bool:
    """Whether no copy of the session's pages is in flight."""
    n = 0
    for i in each(PAGES):
        n = ite(page_in_flight(s, r * PAGES + i), 1, n)
    return n == 0


def roll_back(s: State, k: Int, again: int) -> None:
    """Takes every session whose user took text back to that boundary: device, host, index and the state of other
    groups.  With ``again`` above 0 one with a handle is then set aside, and its pages are computed anew.
    """
    for r in each(NR):
        boundary = get(s, R_ASKED, r) - 1
        asked = and_(boundary >= 0, running(s, r), idle(s, r))
        back = rewind(s, asked, k, r, slot(boundary), ALL_PARTS)
        preempt(s, and_(back, get(s, HOLD, r) == 1, again == 1), k, r)


def roll_back_to_boundary(s: State, k: Int) -> None:
    """Trusts that what it restored is what will be attended."""
    roll_back(s, k, 0)


def roll_back_and_rebind(s: State, k: Int) -> None:
    """The repair: a handle isn't trusted beyond a rollback."""
    roll_back(s, k, 1)


_ANSWER = Evidence(
    target="answer", horizon=1, confidence=1000, provenance="what the user accepted", calibrated_on="nothing"
)
SESSIONS = Policy(
    name="session-handle",
    version="1",
    rule=keep_handles,
    manifest=Manifest(
        kind="reuse",
        actions=does("hold", authority_copy="device"),
        evidence=_ANSWER,
        source="Aborted but Not Forgotten (2608.15939): retained session handles",
        fidelity="[A] what a handle retains; [R] one is kept on every session that runs",
    ),
)
_MANIFEST = Manifest(
    kind="rewind",
    actions=does("rewind", "preempt", authority_copy="none"),
    evidence=_ANSWER,
    source="Aborted but Not Forgotten (2608.15939): rollback of the transcript; fixed by re-prefilling what was committed",
    fidelity="[A] rollback and repair; [R] boundaries are pages",
)
ROLLBACK = Policy(
    name="turn-rollback", version="1", rule=roll_back_to_boundary, manifest=_MANIFEST, workload=("abort",)
)
ROLLBACK_REPAIRED = Policy(
    name="turn-rollback", version="2", rule=roll_back_and_rebind, manifest=_MANIFEST, workload=("abort",)
)

REPORT = Report(
    name="S8",
    title="a session handle keeps the pages of an aborted branch through a rollback, and the next step attends to them",
    url="",
    invariant="I9",
    policies=(SESSIONS, ROLLBACK),
    repaired={"turn-rollback": ROLLBACK_REPAIRED},
    trace=((ARRIVE, 0, 1), (ACT, 0, 0), (ABORT, 0, 0), (ACT, 1, 0), (STEP, 0, 0)),
)
