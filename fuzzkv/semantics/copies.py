"""Copies in flight: how one gets on the transfer channel and off it, and how a primitive that ran is counted."""

from __future__ import annotations

from fuzzkv.semantics.facts import slot
from fuzzkv.semantics.vocabulary import *


def done(s: State, g: Bool, primitive: PrimitiveId, k: PolicyId, p: PageId, detail: AnyNumber) -> None:
    """Count a primitive that ran and tell it to the history."""
    add_if(s, g, PRIMS, 0, 1)
    add_if(s, and_(g, k >= 0), ACTED, slot(k) * NPRIM + primitive, 1)
    on = and_(g, k >= 0, p >= 0)
    add_if(
        s,
        and_(on, get(s, TOUCHED, slot(p)) != k + 1, get(s, TOUCHED, slot(p)) > 0),
        GOAL,
        GOAL_PAGE_OF_TWO,
        1,
    )
    put_if(s, on, TOUCHED, slot(p), k + 1)
    note(s, g, primitive, k, p, detail)


def fly(
    s: State, g: Bool, k: PolicyId, p: PageId, kind: Int, j: CopyId, src: AnyNumber, dst: AnyNumber, end: Int
) -> None:
    """Something of the page is in flight until a time."""
    guard(g)
    put_if(s, g, J_KIND, j, kind)
    put_if(s, g, J_PAGE, j, p)
    put_if(s, g, J_SRC, j, src)
    put_if(s, g, J_DST, j, dst)
    put_if(s, g, J_END, j, end)
    put_if(s, g, J_BY, j, k)
    put_if(s, g, J_FAIL, j, 0)
    put_if(s, g, J_OVER, j, 0)
    # A step that ran ahead is no copy of its page.
    add_if(s, and_(g, kind != RUN), BUSY, p, 1)
    add_if(s, and_(g, k >= 0), FLYING, slot(k), 1)


def launch(
    s: State, g: Bool, k: PolicyId, p: PageId, kind: Int, j: CopyId, src: AnyNumber, dst: AnyNumber
) -> None:
    """Put a copy on the link: first come first served, one page takes ``PAGE_COST`` ticks."""
    guard(g)
    now = get(s, NOW, 0)
    queue = get(s, LINK_FREE, 0)
    end = ite(queue > now, queue, now) + get(s, PAGE_COST, 0)
    other = 0
    for i in each(NJ):
        other = ite(and_(get(s, J_KIND, i) != 0, get(s, J_BY, i) != k, get(s, J_BY, i) >= 0), 1, other)
    add_if(s, and_(g, other == 1), GOAL, GOAL_COPIES_OF_TWO, 1)
    put_if(s, g, LINK_FREE, 0, end)
    fly(s, g, k, p, kind, j, src, dst, end)


def retire(s: State, g: Bool, j: CopyId) -> None:
    """A copy is no longer in flight."""
    guard(g)
    k = get(s, J_BY, j)
    kind = get(s, J_KIND, j)
    add_if(s, and_(g, kind != ABANDONED, kind != RUN), BUSY, get(s, J_PAGE, j), -1)
    put_if(s, g, J_KIND, j, 0)
    add_if(s, and_(g, k >= 0), FLYING, slot(k), -1)
