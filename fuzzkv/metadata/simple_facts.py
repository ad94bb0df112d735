"""Simple facts that a rule could go by before an act: each is one number, and private or carried by one field.

They are for telling people what separates acts that must be refused from others; a private view is far more than these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzzkv.semantics.layout import COLUMNS, FREE, ND, NH, NJ, NK, NP, NR, NX, PAGES, SPILL, STORE

FactReading = Callable[[Sequence[int], int, int], int]
"""``fact(state, slot, page)``."""

_C = COLUMNS


def _of_page(name: str) -> FactReading:
    base = _C[name]
    return lambda s, k, p: s[base + p]


def _of_session(name: str) -> FactReading:
    base = _C[name]
    return lambda s, k, p: s[base + p // PAGES]


def _somewhere(name: str) -> FactReading:
    base = _C[name]
    return lambda s, k, p: int(s[base + p] >= 0)


def _precision(where: str, column: str) -> FactReading:
    home, base = _C[where], _C[column]
    return lambda s, k, p: s[base + s[home + p]] if s[home + p] >= 0 else -1


def _free(column: str, size: int) -> FactReading:
    base = _C[column]
    return lambda s, k, p: sum(owner == FREE for owner in s[base : base + size])


def _others(column: str, size: int, at: Callable[[int], int]) -> FactReading:
    base = _C[column]
    return lambda s, k, p: sum(s[base + o * size + at(p)] for o in range(NK) if o != k)


def _own(column: str, size: int, at: Callable[[int], int]) -> FactReading:
    base = _C[column]
    return lambda s, k, p: s[base + k * size + at(p)]


def _unseen(s: Sequence[int], k: int, p: int) -> int:
    return s[_C["LIFE"] + p] - s[_C["SEEN"] + p]


def _holds_for(s: Sequence[int], k: int, p: int) -> int:
    return s[_C["CERT_AT"] + p] + s[_C["CERT_FOR"] + p] - s[_C["LIFE"] + p]


def _wait(s: Sequence[int], k: int, p: int) -> int:
    return max(0, s[_C["LINK_FREE"]] - s[_C["NOW"]])


def _hollow(s: Sequence[int], k: int, p: int) -> int:
    return sum(s[_C["X_KEY"] + x] > 0 and s[_C["X_FULL"] + x] == 0 for x in range(NX))


def _next_is_awaited(s: Sequence[int], k: int, p: int) -> int:
    free = [f for f in range(ND) if s[_C["D_PAGE"] + f] == FREE]
    rows = [j for j in range(NJ) if s[_C["J_KIND"] + j] not in (0, STORE, SPILL) and s[_C["J_BY"] + j] != k]
    return int(any(s[_C["J_DST"] + j] == f for f in free[:1] for j in rows))


def _ring(s: Sequence[int], k: int, p: int) -> int:
    return s[_C["RING_OFF"] + p // PAGES] if s[_C["RING"] + p // PAGES] else 0


def _right_bytes(s: Sequence[int], k: int, p: int) -> int:
    d = s[_C["DEV"] + p]
    return int(d >= 0 and s[_C["D_TAG"] + d] == s[_C["WANT"] + p])


def _nowhere(p: int) -> int:
    return 0


def _page(p: int) -> int:
    return p


def _session(p: int) -> int:
    return p // PAGES


FACTS: tuple[tuple[str, str, FactReading], ...] = (
    ("", "copies of the page in flight", _of_page("BUSY")),
    ("", "the page is on the device", _somewhere("DEV")),
    ("", "the page is on the host", _somewhere("HOST")),
    ("", "steps since one read the page", _unseen),
    ("", "its own quote stands on the page", _own("QUOTE", NP, _page)),
    ("", "its own copies in flight", _own("FLYING", 1, _nowhere)),
    ("", "pages in flight", lambda s, k, p: sum(s[_C["BUSY"] : _C["BUSY"] + NP])),
    ("", "free host frames", _free("H_PAGE", NH)),
    ("", "free device frames", _free("D_PAGE", ND)),
    ("", "losses that it was charged with itself", _own("SPENT", NR, _session)),
    ("", "its mark on the page", _own("MARK", NP, _page)),
    ("", "steps since the page was written", _of_page("LIFE")),
    ("", "the text was taken back to a page (plus 1)", _of_session("R_ASKED")),
    ("target", "target of the certificate", _of_page("CERT")),
    ("horizon", "steps that the certificate still holds", _holds_for),
    ("authority", "others' quotes on the page", _others("QUOTE", NP, _page)),
    ("authority", "a handle stands on the session", _of_session("HOLD")),
    ("authority", "entries of the index without their bytes", _hollow),
    ("reversibility", "precision on the device", _precision("DEV", "D_PREC")),
    ("reversibility", "precision on the host", _precision("HOST", "H_PREC")),
    ("recovery time", "ticks until the link is free", _wait),
    ("link budget", "others' copies in flight", _others("FLYING", 1, _nowhere)),
    ("link budget", "what others have in flight will write the next free device frame", _next_is_awaited),
    ("version", "layout of the pool", lambda s, k, p: s[_C["LAYOUT"]]),
    ("version", "adapter of the session", _of_session("R_ADAPTER")),
    ("version", "the page was computed after lossy ones", _of_page("P_LINEAGE")),
    ("version", "the ring's offset", _ring),
    ("version", "branch of the page", _of_page("P_BRANCH")),
    ("version", "the device has the bytes that the page's reader expects", _right_bytes),
    ("quality budget", "losses charged to the request", _of_session("R_LOSS")),
)
"""The field that carries each (empty: private), its name, and how it is read; private ones first."""
