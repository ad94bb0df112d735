"""The clauses of the contract: for each, when a policy's action is refused while the contract is enforced.

They read quotes, manifests and the shared ledgers, never a policy's inside.  Each refusal is counted under
its clause.
"""

from __future__ import annotations

from fuzzkv.semantics.facts import device_exact, host_exact, present, quoted, request_of
from fuzzkv.semantics.vocabulary import *


def refuse(s: State, g: Bool, clause: ClauseId) -> Bool:
    """Count a refusal under its clause; returns whether there was one, and never without the clause enforced."""
    refused = and_(get(s, ENFORCE, clause) == 1, g)
    add_if(s, refused, REFUSED, clause, 1)
    return refused


def permit_copy(s: State, g: Bool, k: PolicyId) -> Bool:
    """Link budget: after this background copy a reader's own recovery still keeps the latency objective."""
    guard(g)
    now = get(s, NOW, 0)
    queue = get(s, LINK_FREE, 0)
    wait = ite(queue > now, queue - now, 0) + 2 * get(s, PAGE_COST, 0)
    late = refuse(s, and_(g, wait > get(s, OBJECTIVE, 0) - get(s, STEP_COST, 0)), C_LINK_BUDGET)
    return not_(late)


def permit_frame(s: State, g: Bool, frame: DeviceFrame) -> Bool:
    """Fence: a copy isn't started into a frame that a device step in flight will still write."""
    guard(g)
    n = 0
    for j in each(NJ):
        n = ite(and_(get(s, J_KIND, j) == RUN, get(s, J_DST, j) == frame), 1, n)
    return not_(refuse(s, and_(g, n == 1), C_FENCE))


def permit_destroy(s: State, g: Bool, k: PolicyId, p: PageId, last: Bool, busy: Bool, loss: Int) -> Bool:
    """Authority, fence and quality budget: giving up a copy.

    ``last``: after it no copy as good is left, or none at all.
    """
    guard(g)
    # Unless the loss is paid for: then it is the ledger's affair, if nobody was promised the page.
    unpaid = and_(loss == 0, get(s, EVICTED, p) == 0)
    relied = refuse(s, and_(g, last, or_(quoted(s, p), unpaid)), C_AUTHORITY)
    in_use = refuse(s, and_(g, busy), C_FENCE)
    over = get(s, R_LOSS, request_of(p)) + loss > get(s, LEDGER, 0)
    dear = refuse(s, and_(g, loss > 0, over), C_QUALITY_BUDGET)
    return and_(not_(relied), not_(in_use), not_(dear))


def permit_reshape(s: State, g: Bool, k: PolicyId, p: PageId, busy: Bool) -> Bool:
    """Authority and fence: rewriting a page's bytes in place."""
    guard(g)
    relied = refuse(s, and_(g, device_exact(s, p), not_(host_exact(s, p)), quoted(s, p)), C_AUTHORITY)
    in_use = refuse(s, and_(g, busy), C_FENCE)
    return and_(not_(relied), not_(in_use))


def permit_promise(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """Claim: a quote is given only while an exact copy exists."""
    guard(g)
    return not_(refuse(s, and_(g, not_(device_exact(s, p)), not_(host_exact(s, p))), C_CLAIM))


def permit_condemn(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """Evidence: who condemns a page has seen it read within the evidence's horizon; what isn't resident isn't
    seen.
    """
    guard(g)
    stale = get(s, LIFE, p) - get(s, SEEN, p) > get(s, MF_HORIZON, k)
    return not_(refuse(s, and_(g, or_(stale, not_(present(s, p)))), C_EVIDENCE))
