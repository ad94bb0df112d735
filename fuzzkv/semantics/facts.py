"""Facts that several primitives, clauses and predicates ask about a state.  They change nothing."""

from __future__ import annotations

from fuzzkv.semantics.vocabulary import *


def request_of(p: PageId) -> SessionId:
    """The request of a page."""
    return div(p, PAGES)


def tag_of(s: State, p: PageId) -> Int:
    """The ghost tag of the bytes that the page's reader expects (``semantics.identity`` has its fields)."""
    return get(s, WANT, p)


def slot(i: AnyId) -> AnyId:
    """An index that may be -1, made safe for a lookup whose result then isn't used."""
    return ite(i < 0, 0, i)  # type: ignore[arg-type, return-value]


def present(s: State, p: PageId) -> Bool:
    """Whether the page has a filled device frame."""
    return and_(get(s, DEV, p) >= 0, get(s, D_FILL, slot(get(s, DEV, p))) == 1)


def hosted(s: State, p: PageId) -> Bool:
    """Whether the page has a filled host frame."""
    return and_(get(s, HOST, p) >= 0, get(s, H_FILL, slot(get(s, HOST, p))) == 1)


def device_exact(s: State, p: PageId) -> Bool:
    """Whether the device holds the page's exact bytes."""
    return and_(
        present(s, p),
        get(s, D_TAG, slot(get(s, DEV, p))) == tag_of(s, p),
        get(s, D_PREC, slot(get(s, DEV, p))) == EXACT,
    )


def host_exact(s: State, p: PageId) -> Bool:
    """Whether the host holds the page's exact bytes."""
    return and_(
        hosted(s, p),
        get(s, H_TAG, slot(get(s, HOST, p))) == tag_of(s, p),
        get(s, H_PREC, slot(get(s, HOST, p))) == EXACT,
    )


def free_device_frame(s: State) -> DeviceFrame:
    """The lowest free device frame, or -1."""
    f = -1
    for i in each(ND):
        f = ite(and_(f < 0, get(s, D_PAGE, i) == FREE), i, f)
    return f


def free_host_frame(s: State) -> HostFrame:
    """The lowest free host frame, or -1."""
    f = -1
    for i in each(NH):
        f = ite(and_(f < 0, get(s, H_PAGE, i) == FREE), i, f)
    return f


def free_device_frames(s: State) -> Int:
    """How many device frames are free."""
    n = 0
    for i in each(ND):
        n = n + ite(get(s, D_PAGE, i) == FREE, 1, 0)
    return n


def free_host_frames(s: State) -> Int:
    """How many host frames are free."""
    n = 0
    for i in each(NH):
        n = n + ite(get(s, H_PAGE, i) == FREE, 1, 0)
    return n


def free_job(s: State) -> CopyId:
    """The lowest free slot for a copy in flight, or -1."""
    f = -1
    for j in each(NJ):
        f = ite(and_(f < 0, get(s, J_KIND, j) == 0), j, f)
    return f


def page_in_flight(s: State, p: PageId) -> Bool:
    """Whether a copy of the page is in flight."""
    return get(s, BUSY, p) > 0


def in_flight_on_device(s: State, f: DeviceFrame) -> Bool:
    """Whether a copy in flight reads or fills this device frame."""
    n = 0
    for j in each(NJ):
        kind = get(s, J_KIND, j)
        source = and_(or_(kind == STORE, kind == SPILL), get(s, J_SRC, j) == f)
        target = and_(or_(kind == LOAD, kind >= RUN), kind != SPILL, get(s, J_DST, j) == f)
        n = ite(or_(source, target), 1, n)
    return n == 1


def in_flight_on_host(s: State, f: HostFrame) -> Bool:
    """Whether a copy in flight reads or fills this host frame."""
    n = 0
    for j in each(NJ):
        store = and_(get(s, J_KIND, j) == STORE, get(s, J_DST, j) == f)
        load = and_(get(s, J_KIND, j) == LOAD, get(s, J_SRC, j) == f)
        n = ite(or_(store, load), 1, n)
    return n == 1


def own_in_flight(s: State, k: PolicyId) -> Int:
    """How many copies of this policy are in flight."""
    return get(s, FLYING, k)


def waiting(s: State, r: SessionId) -> Bool:
    """Whether a session is open, but pages of it are still to be computed or brought."""
    return and_(get(s, R_ACTIVE, r) == 1, get(s, R_TODO, r) > 0)


def running(s: State, r: SessionId) -> Bool:
    """Whether a session is open and has all its pages: its next step can run."""
    return and_(get(s, R_ACTIVE, r) == 1, get(s, R_TODO, r) == 0)


def to_do(s: State, p: PageId) -> Bool:
    """Whether the page is still to be computed, and nothing was found or is on its way for it."""
    return and_(get(s, TODO, p) == 1, get(s, DEV, p) < 0)


def complete_page(s: State, p: PageId) -> Bool:
    """Whether the page is full of tokens, accepted or drafted."""
    r = request_of(p)
    last = p == r * PAGES + get(s, R_N, r) - 1
    return and_(get(s, OWNED, p) == 1, or_(not_(last), get(s, R_RES, r) == 0))


def settled(s: State, p: PageId) -> Bool:
    """Whether the page holds accepted tokens only."""
    r = request_of(p)
    last = p == r * PAGES + get(s, R_N, r) - 1
    return or_(not_(last), get(s, R_DRAFT, r) == 0)


def pinned(s: State, p: PageId) -> Bool:
    """Whether the page's host frame is pinned."""
    return and_(get(s, HOST, p) >= 0, get(s, H_PIN, slot(get(s, HOST, p))) > 0)


def quoted(s: State, p: PageId) -> Bool:
    """Whether some policy quotes the page as exactly recoverable."""
    n = 0
    for o in each(NK):
        n = ite(get(s, QUOTE, o * NP + p) == 1, 1, n)
    return n == 1


def quoted_by_another(s: State, g: Bool, k: PolicyId, p: PageId) -> Bool:
    """Whether a policy other than ``k`` quotes the page."""
    guard(g)
    n = 0
    for o in each(NK):
        n = ite(and_(o != k, get(s, QUOTE, o * NP + p) == 1), 1, n)
    return and_(g, n == 1)


def damage(s: State, p: PageId) -> Int:
    """How bad the best copy of a page is: 0 exact (or still to be computed), 1 int8, 2 int4, 3 no copy left
    that its reader could use.
    """
    d = slot(get(s, DEV, p))
    h = slot(get(s, HOST, p))
    on_device = and_(present(s, p), get(s, D_TAG, d) == tag_of(s, p))
    on_host = and_(hosted(s, p), get(s, H_TAG, h) == tag_of(s, p))
    a = ite(on_device, get(s, D_PREC, d), 3)
    b = ite(on_host, get(s, H_PREC, h), 3)
    return ite(or_(get(s, OWNED, p) == 0, get(s, TODO, p) == 1), 0, ite(a < b, a, b))
