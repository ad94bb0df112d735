"""Operations on certificates: one policy scores a page, another consumes the score as the evidence for an act."""

from __future__ import annotations

from fuzzkv.semantics.contract.predicates import hazard
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.vocabulary import *


def certify(s: State, g: Bool, k: PolicyId, p: PageId, target: Int, horizon: Int) -> Bool:
    """The policy certifies that the page is low by its score: what the score predicts, and for how many steps
    of the session it holds.
    """
    ok = and_(g, get(s, OWNED, p) == 1, or_(get(s, CERT, p) != target, get(s, CERT_AT, p) != get(s, LIFE, p)))
    guard(ok)
    put_if(s, ok, CERT, p, target)
    put_if(s, ok, CERT_AT, p, get(s, LIFE, p))
    put_if(s, ok, CERT_FOR, p, horizon)
    done(s, ok, P_CERTIFY, k, p, target)
    return ok


def covers(target: Int, use: Int) -> Bool:
    """Whether evidence of this target can warrant the use: any may decide residency; lossy bytes without a
    backup take reconstruction or better; deletion takes the answer itself.
    """
    lossy = and_(use == DEGRADE, target >= RECONSTRUCTION)
    return or_(use == RESIDE, lossy, and_(use == DELETE, target >= ANSWER))


def spend(s: State, g: Bool, k: PolicyId, p: PageId, use: Int) -> Bool:
    """The policy takes the page's certificate as the warrant of an action (``RESIDE``, ``DEGRADE``,
    ``DELETE``).
    """
    can = and_(g, get(s, OWNED, p) == 1, get(s, CERT, p) > 0)
    guard(can)
    expired = get(s, LIFE, p) - get(s, CERT_AT, p) > get(s, CERT_FOR, p)
    short = or_(not_(covers(get(s, CERT, p), use)), expired)
    ok = and_(can, hazard(s, can, short, C_EVIDENCE, I17, k, p, P_SPEND))
    done(s, ok, P_SPEND, k, p, use)
    return ok
