"""The fields of shared metadata, and the columns of the state that a policy can observe by itself.

Every column of a state is one of three things to a policy: *private* (it can observe that by itself: its own memory, words,
copies and ledger, and physical facts such as where a page lies and when it was read), carried by one *field* of what
policies share, or *unseen* (the judge's own bookkeeping, what the workload will do next, other policies' memory): no rule
has it, with or without the contract.  ``FIELDS`` says which columns carry a field and why.

Only what means something is looked at: frames that hold something, pages that somebody owns, sessions that are open,
copies that are in flight.  Frames keep their numbers: a view that is equal here is equal to any rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from fuzzkv.semantics.layout import CACHED, COLUMNS, ND, NH, NJ, NK, NP, NQ, NR, NX, PENDING

_C = COLUMNS


@dataclass(frozen=True)
class MetadataField:
    """One field of shared metadata: the columns of the state that carry it, and why they are it."""

    name: str
    columns: tuple[str, ...]
    why: str


FIELDS: tuple[MetadataField, ...] = (
    MetadataField("target", ("CERT",), "what a certificate predicts; that one stands on the page is in view"),
    MetadataField(
        "horizon",
        ("CERT_AT", "CERT_FOR", "MF_HORIZON"),
        "when a certificate was given and for how long it holds, and other policies' declared horizons",
    ),
    MetadataField(
        "reversibility",
        ("D_PREC", "H_PREC", "J_PREC", "D_CODED", "EVICTED"),
        "whether what others did to bytes can be taken back: lossy copies, pages given up for good",
    ),
    MetadataField(
        "authority",
        ("QUOTE", "HOLD", "H_PIN", "X_FULL"),
        "which copy others rely on: their quotes, handles and pins, entries whose bytes have arrived",
    ),
    MetadataField(
        "recovery time",
        ("LINK_FREE", "LATE", "J_END", "LEASE"),
        "how long a recovery would take from now: when the link is free and each copy ends",
    ),
    MetadataField(
        "version",
        (
            *("WEIGHTS", "LAYOUT", "R_ADAPTER", "R_SCHEME", "P_BRANCH", "P_LINEAGE", "WANT", "D_TAG", "D_SIDE", "D_PAY"),
            *("H_TAG", "J_TAG", "X_TAG", "GROUP", "G_AT", "R_BOUND", "CKPT", "RING", "RING_IDX", "RING_OFF"),
        ),
        "what bytes were computed with and what their reader expects: weights, adapter, layout, branch, lineage, positions",
    ),
    MetadataField("quality budget", ("R_LOSS", "SPENT", "PAID"), "the request's ledger: losses that others were charged with"),
    MetadataField(
        "link budget",
        ("FLYING", "J_KIND", "J_PAGE", "J_SRC", "J_DST", "J_BY", "J_OVER"),
        "which copies others have in flight, with what they carry; that a page is in flight is in view",
    ),
)  # fmt: skip
"""The fields, in the order in which they are told."""

FIELD_NAMES: tuple[str, ...] = tuple(part.name for part in FIELDS)
"""Names of the fields."""

PRIVATE: tuple[str, ...] = (
    *(
        "NOW",
        "STEPS",
        "DEFER",
        "W_ASKED",
        "S_ASKED",
        "F_ASKED",
        "IDLE",
        "Q_LEN",
        "NOTE",
        "PARAM",
        "R_ACTIVE",
        "R_N",
    ),
    *(
        "R_STEPS",
        "R_TEXT",
        "R_TODO",
        "R_RES",
        "R_DRAFT",
        "R_OPENED",
        "R_ASKED",
        "OWNED",
        "DEV",
        "HOST",
        "BUSY",
        "ATT",
    ),
    *(
        "LIFE",
        "SEEN",
        "LAST",
        "GAP",
        "HITS",
        "TODO",
        "MARK",
        "DUE",
        "D_PAGE",
        "D_FILL",
        "D_REF",
        "D_QUEUE",
        "H_PAGE",
    ),
    *("H_FILL", "X_KEY", "X_TIER", "X_FRAME", "X_BY"),
)
"""Columns that a policy sees by itself; of ``QUOTE``, ``FLYING``, ``SPENT``, ``MF_HORIZON``, ``X_FULL`` and the copies in flight
it has its own part too.
"""
CONFIGURED: tuple[str, ...] = (
    *("STEP_COST", "PAGE_COST", "OBJECTIVE", "TOLERANCE", "LEDGER", "HEADROOM", "SHARE", "QSHARE", "ENFORCE"),
)
"""Columns that the configuration sets: in view, and the same in both traces of a pair."""
UNSEEN: tuple[str, ...] = (
    *(
        "ACTOR",
        "EVENT",
        "PRIMS",
        "LAT_MAX",
        "LAT_SUM",
        "FREED",
        "REMOTE",
        "DEMAND",
        "V_COUNT",
        "V_EVENT",
        "V_STAMP",
        "V_PAGE",
    ),
    *(
        "V_ACTOR",
        "V_PRIM",
        "ACTED",
        "REFUSED",
        "GOAL",
        "R_EPOCH",
        "RELEVANT",
        "J_FAIL",
        "R_NEXT",
        "TOUCHED",
        "RUN_ON",
        "D_DMA",
    ),
)
"""Columns that no rule has, and others' part of ``MARK``, ``DUE``, ``NOTE`` and ``PARAM``."""

View = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""What is private, and each field in the order of ``FIELDS``."""


def _at(*places: int) -> Callable[[Sequence[int]], tuple[int, ...]]:
    if len(places) == 1:
        (only,) = places
        return lambda s: (s[only],)
    return itemgetter(*places)


def _columns(names: Sequence[str], i: int) -> list[int]:
    return [_C[name] + i for name in names]


_TARGET, _HORIZON, _REVERSIBILITY, _AUTHORITY, _RECOVERY, _VERSION, _QUALITY, _LINK = range(8)


class Observer:
    """The view of the policy in slot ``k``: ``look`` splits a state into what is private and the fields."""

    def __init__(self, k: int) -> None:
        self.k = k
        others = [o for o in range(NK) if o != k]
        self._all = _at(
            *_columns(("NOW", "STEPS", "DEFER", "W_ASKED", "S_ASKED", "F_ASKED", "IDLE"), 0),
            *(_C["Q_LEN"] + q for q in range(NQ)),
            *_columns(("NOTE", "FLYING", "MF_HORIZON"), k),
            *(_C["R_ACTIVE"] + r for r in range(NR)),
            *(_C["D_PAGE"] + f for f in range(ND)),
            *(_C["H_PAGE"] + f for f in range(NH)),
        )
        self._told: dict[int, Callable[[Sequence[int]], tuple[int, ...]]] = {
            _HORIZON: _at(*(_C["MF_HORIZON"] + o for o in others)),
            _VERSION: _at(*_columns(("WEIGHTS", "LAYOUT"), 0), *(_C["D_SIDE"] + f for f in range(ND))),
            _LINK: _at(*(_C["FLYING"] + o for o in others)),
        }
        session = ("R_N", "R_STEPS", "R_TEXT", "R_TODO", "R_RES", "R_DRAFT", "R_OPENED", "R_ASKED")
        self._session = [_at(*_columns(session, r), _C["SPENT"] + k * NR + r) for r in range(NR)]
        of_session = ("R_ADAPTER", "R_SCHEME", "GROUP", "G_AT", "R_BOUND", "RING", "RING_IDX", "RING_OFF")
        self._session_version = [_at(*_columns(of_session, r)) for r in range(NR)]
        self._session_quality = [
            _at(_C["R_LOSS"] + r, *(_C["SPENT"] + o * NR + r for o in others)) for r in range(NR)
        ]
        page = ("DEV", "HOST", "BUSY", "ATT", "LIFE", "SEEN", "LAST", "GAP", "HITS", "TODO")
        mine = ("QUOTE", "MARK", "DUE")
        self._page = [_at(*_columns(page, p), *_columns(mine, k * NP + p)) for p in range(NP)]
        self._page_version = [_at(*_columns(("P_BRANCH", "P_LINEAGE", "WANT", "CKPT"), p)) for p in range(NP)]
        self._page_quotes = [_at(*(_C["QUOTE"] + o * NP + p for o in others)) for p in range(NP)]
        self._device = [_at(*_columns(("D_FILL", "D_REF", "D_QUEUE"), f)) for f in range(ND)]
        self._device_version = [_at(*_columns(("D_TAG", "D_PAY"), f)) for f in range(ND)]
        self._copy = [
            _at(*_columns(("J_KIND", "J_PAGE", "J_SRC", "J_DST", "J_BY", "J_OVER"), j)) for j in range(NJ)
        ]
        self._entry = [_at(*_columns(("X_KEY", "X_TIER", "X_FRAME", "X_BY"), x)) for x in range(NX)]

    def look(self, s: Sequence[int]) -> View:
        """The private part of a state, and each field."""
        c = _C
        own: list[int] = list(self._all(s))
        told: list[list[int]] = [
            list(self._told[i](s)) if i in self._told else [] for i in range(len(FIELDS))
        ]
        for r in range(NR):
            if s[c["R_ACTIVE"] + r]:
                own += self._session[r](s)
                told[_VERSION] += self._session_version[r](s)
                told[_QUALITY] += self._session_quality[r](s)
                told[_AUTHORITY].append(s[c["HOLD"] + r])
        for p in range(NP):
            if s[c["OWNED"] + p]:
                self._look_at_page(s, p, own, told)
        for f in range(ND):
            owner = s[c["D_PAGE"] + f]
            if owner >= 0 or owner in (CACHED, PENDING):
                own += self._device[f](s)
                told[_VERSION] += self._device_version[f](s)
                told[_REVERSIBILITY] += (s[c["D_PREC"] + f], s[c["D_CODED"] + f])
        for f in range(NH):
            if s[c["H_PAGE"] + f] >= 0:
                full = s[c["H_FILL"] + f]
                own.append(full)
                told[_AUTHORITY].append(s[c["H_PIN"] + f])
                told[_VERSION].append(full and s[c["H_TAG"] + f])
                told[_REVERSIBILITY].append(full and s[c["H_PREC"] + f])
        self._look_at_link(s, own, told)
        for x in range(NX):
            if s[c["X_KEY"] + x]:
                own += self._entry[x](s)
                told[_VERSION].append(s[c["X_TAG"] + x])
                (own if s[c["X_BY"] + x] == self.k else told[_AUTHORITY]).append(s[c["X_FULL"] + x])
        return tuple(own), tuple(map(tuple, told))

    def _look_at_page(self, s: Sequence[int], p: int, own: list[int], told: list[list[int]]) -> None:
        c = _C
        own.append(p)
        own += self._page[p](s)
        target = s[c["CERT"] + p]
        own.append(int(target > 0))
        if target > 0:
            told[_TARGET].append(target)
            told[_HORIZON] += (s[c["CERT_AT"] + p], s[c["CERT_FOR"] + p])
        told[_REVERSIBILITY].append(s[c["EVICTED"] + p])
        told[_AUTHORITY] += self._page_quotes[p](s)
        told[_VERSION] += self._page_version[p](s)
        told[_QUALITY].append(s[c["PAID"] + p])

    def _look_at_link(self, s: Sequence[int], own: list[int], told: list[list[int]]) -> None:
        c = _C
        wait = s[c["LINK_FREE"]] - s[c["NOW"]]
        told[_RECOVERY] += (max(0, wait), s[c["LATE"]])
        # Which slot a copy is in means nothing.
        for row in sorted((*self._copy[j](s), j) for j in range(NJ) if s[c["J_KIND"] + j]):
            j = row[-1]
            mine = s[c["J_BY"] + j] == self.k
            (own if mine else told[_LINK]).extend(row[:-1])
            told[_RECOVERY] += (s[c["J_END"] + j], s[c["LEASE"] + j])
            # What a copy carries is told with it: who isn't told of the copy doesn't know that either.
            told[_VERSION if mine else _LINK].append(s[c["J_TAG"] + j])
            told[_REVERSIBILITY if mine else _LINK].append(s[c["J_PREC"] + j])
