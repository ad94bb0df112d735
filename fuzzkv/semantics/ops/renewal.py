"""Operations of renewal: new weights, sleep and wake, and the parts of the cache that they clear."""

from __future__ import annotations

from fuzzkv.semantics.contract.clauses import refuse
from fuzzkv.semantics.contract.predicates import hazard
from fuzzkv.semantics.copies import done
from fuzzkv.semantics.frames import let_go
from fuzzkv.semantics.identity import expect, next_in_field
from fuzzkv.semantics.ops.index import part, remove
from fuzzkv.semantics.sessions import abandon, forget_host
from fuzzkv.semantics.vocabulary import *


def ask_weights(s: State, g: Bool) -> None:
    """An operator publishes new weights; a renewing policy may act on it."""
    put_if(s, g, W_ASKED, 0, 1)


def ask_sleep(s: State, g: Bool, depth: Int) -> None:
    """An operator asks for sleep: 1 keeps the weights, 2 gives them up too."""
    put_if(s, g, S_ASKED, 0, depth)


def clear(s: State, g: Bool, parts: Int) -> None:
    """Clear parts of the cache: running sessions wait again, host copies go, the index is emptied."""
    guard(g)
    for r in each(NR):
        abandon(s, and_(g, or_(part(parts, DEVICE_PART), part(parts, HOST_PART))), r, 0)
        for i in each(PAGES):
            p = r * PAGES + i
            mine = and_(g, get(s, OWNED, p) == 1)
            forget_host(s, and_(mine, part(parts, HOST_PART)), p)
            back = and_(mine, part(parts, DEVICE_PART), get(s, EVICTED, p) == 0)
            let_go(s, back, p)
            add_if(s, and_(back, get(s, TODO, p) == 0), R_TODO, r, 1)
            put_if(s, back, TODO, p, 1)
            put_if(s, and_(mine, part(parts, STATE_PART)), CKPT, p, 0)
    for x in each(NX):
        remove(s, and_(g, part(parts, INDEX_PART)), x, True)


def load_weights(s: State, g: Bool, k: PolicyId, parts: Int) -> Bool:
    """New weights are loaded: every page is expected as they would compute it; ``parts`` of the cache are
    cleared.
    """
    guard(g)
    here = 0
    there = 0
    for p in each(NP):
        here = ite(get(s, DEV, p) >= 0, 1, here)
        there = ite(get(s, HOST, p) >= 0, 1, there)
    stale = or_(
        and_(here == 1, not_(part(parts, DEVICE_PART))), and_(there == 1, not_(part(parts, HOST_PART)))
    )
    ok = and_(g, not_(refuse(s, and_(g, stale), C_VERSION)))
    put_if(s, ok, W_ASKED, 0, 0)
    put_if(s, ok, WEIGHTS, 0, next_in_field(get(s, WEIGHTS, 0), 8))
    clear(s, ok, parts)
    for r in each(NR):
        for i in each(PAGES):
            expect(s, and_(ok, get(s, OWNED, r * PAGES + i) == 1), r, i)
    done(s, ok, P_LOAD_WEIGHTS, k, -1, parts)
    return ok


def doze(s: State, g: Bool, k: PolicyId, parts: Int) -> Bool:
    """The engine sleeps and wakes: device memory has lost its bytes; ``parts`` of the cache are cleared.

    Host copies and the external store survive.
    """
    guard(g)
    left = 0
    for x in each(NX):
        near = and_(get(s, X_KEY, x) > 0, get(s, X_TIER, x) == ON_DEVICE)
        left = ite(near, 1, left)
    here = 0
    for p in each(NP):
        here = ite(get(s, DEV, p) >= 0, 1, here)
    blank = refuse(s, and_(g, here == 1, not_(part(parts, DEVICE_PART))), C_FAIL_CLOSED)
    named = and_(left == 1, not_(part(parts, INDEX_PART)))
    ok = and_(g, not_(blank), hazard(s, g, named, C_INDEX, I8, k, 0, P_DOZE))
    put_if(s, ok, S_ASKED, 0, 0)
    for f in each(ND):
        put_if(s, ok, D_TAG, f, 0)
    clear(s, ok, parts)
    done(s, ok, P_DOZE, k, -1, parts)
    return ok
