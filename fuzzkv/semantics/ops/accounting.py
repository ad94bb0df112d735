"""Accounting: pins on host frames, and the queues in which evictable device frames are filed."""

from __future__ import annotations

from fuzzkv.semantics.contract.predicates import hazard
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.facts import hosted, slot
from fuzzkv.semantics.vocabulary import *


def pin(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """The page's host frame is pinned: nobody can drop it until it is unpinned."""
    ok = and_(g, hosted(s, p))
    guard(ok)
    add_if(s, ok, H_PIN, slot(get(s, HOST, p)), 1)
    done(s, ok, P_PIN, k, p, 0)
    return ok


def unpin(s: State, g: Bool, k: PolicyId, frame: HostFrame) -> Bool:
    """One pin of a host frame is taken back; a frame whose session has ended is free after the last."""
    ok = and_(g, get(s, H_PIN, frame) > 0)
    guard(ok)
    add_if(s, ok, H_PIN, frame, -1)
    orphan = and_(ok, get(s, H_PAGE, frame) <= ORPHAN, get(s, H_PIN, frame) == 0)
    put_if(s, orphan, H_PAGE, frame, FREE)
    done(s, ok, P_UNPIN, k, -1, frame)
    return ok


def enqueue(s: State, g: Bool, k: PolicyId, frame: DeviceFrame, queue: QueueId) -> Bool:
    """A device frame in use is filed in a queue of evictable frames; one that stands in another queue moves."""
    old = get(s, D_QUEUE, frame)
    used = or_(get(s, D_PAGE, frame) >= 0, get(s, D_PAGE, frame) == CACHED)
    ok = and_(g, used, old != queue + 1)
    guard(ok)
    for q in each(NQ):
        add_if(s, and_(ok, old == q + 1), Q_LEN, q, -1)
        add_if(s, and_(ok, queue == q), Q_LEN, q, 1)
    put_if(s, ok, D_QUEUE, frame, queue + 1)
    done(s, ok, P_ENQUEUE, k, -1, frame)
    return ok


def dequeue(s: State, g: Bool, k: PolicyId, frame: DeviceFrame, queue: QueueId) -> Bool:
    """A frame is claimed from the queue in which the policy believes it to stand.

    If it stands in another one, the wrong queue is counted down and the frame stays filed.
    """
    can = and_(g, get(s, D_QUEUE, frame) > 0)
    guard(can)
    wrong = get(s, D_QUEUE, frame) != queue + 1
    p = slot(get(s, D_PAGE, frame))
    ok = and_(can, hazard(s, can, wrong, C_ACCOUNTING, I11, k, p, P_DEQUEUE))
    for q in each(NQ):
        add_if(s, and_(ok, queue == q), Q_LEN, q, -1)
    put_if(s, and_(ok, not_(wrong)), D_QUEUE, frame, 0)
    done(s, ok, P_DEQUEUE, k, p, frame)
    return ok
