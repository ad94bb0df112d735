"""When two states are the same: what is left of one arm's state once nothing is said twice, as 128 bits.

Merged, because the futures are the same up to the names:

* clocks: a time is taken relative to now; a link that is free is free, whenever it became so;
* frames: which frame holds a page doesn't matter, except frame 0 of each tier, which a text may look at through an
  index of -1 (``slot``); what an empty frame held before is forgotten;
* epochs: the ghost tags of a session's bytes are relative to its epoch;
* what is over: pages that nobody owns, copies that have ended, counters that only report;
* columns that nothing reads: attention, gaps, hits, ages where no rule of the set looks at them (``SLICED``).

A column that isn't named here is taken as it is; one of frames then tells frames apart as far as it differs.

Not merged: pages of one session, sessions, slots of copies in flight.  Rules break ties by the lowest index, so a state
with two pages exchanged has other futures (a test shows one).  Where a policy may tell merged states apart after all
(it reads absolute time, say), the explorer finds out by trial and takes the exact form, in which every number counts.

The functions are compiled behind the text of the policy set, like those of ``machine.bulk``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzkv.contract.layout import ABANDONED, COLUMNS, FREE, NJ, NP, NPRIM, NR, PAGES, STORE

_C = COLUMNS
_NOW, _LINK_FREE, _LATE = _C["NOW"], _C["LINK_FREE"], _C["LATE"]
_R_ACTIVE, _R_N, _R_EPOCH, _R_LOSS = _C["R_ACTIVE"], _C["R_N"], _C["R_EPOCH"], _C["R_LOSS"]
_OWNED, _DEV, _HOST, _BUSY = _C["OWNED"], _C["DEV"], _C["HOST"], _C["BUSY"]
_EVICTED, _PAID = _C["EVICTED"], _C["PAID"]
_D_PAGE, _D_TAG, _D_PREC, _D_FILL = _C["D_PAGE"], _C["D_TAG"], _C["D_PREC"], _C["D_FILL"]
_H_PAGE, _H_TAG, _H_PREC, _H_FILL = _C["H_PAGE"], _C["H_TAG"], _C["H_PREC"], _C["H_FILL"]
_J_KIND, _J_PAGE, _J_SRC, _J_DST = _C["J_KIND"], _C["J_PAGE"], _C["J_SRC"], _C["J_DST"]
_J_END, _J_BY, _J_FAIL = _C["J_END"], _C["J_BY"], _C["J_FAIL"]
_J_TAG, _J_PREC, _J_OVER = _C["J_TAG"], _C["J_PREC"], _C["J_OVER"]
_QUOTE, _MARK, _DUE, _SPENT, _MEMO = _C["QUOTE"], _C["MARK"], _C["DUE"], _C["SPENT"], _C["NOTE"]
_ACTED = _C["ACTED"]

SLICED: dict[str, tuple[str, ...]] = {
    "R_STEPS": (),
    "RELEVANT": (),
    "ATT": ("RELEVANT",),
    "LIFE": (),
    "SEEN": ("LIFE",),
    "LAST": (),
    "GAP": ("LAST",),
    "HITS": (),
}
"""Columns that the workload keeps up for the policies alone, each with those that it is computed from.

One that no rule of the set reads, directly or through what it calls, is left out.
"""
REPORTS = (
    *(
        "STEPS",
        "LAT_MAX",
        "LAT_SUM",
        "FREED",
        "REMOTE",
        "DEMAND",
        "PRIMS",
        "GOAL",
        "REFUSED",
        "EVENT",
        "ACTOR",
    ),
    *("V_COUNT", "V_EVENT", "V_STAMP", "V_PAGE", "V_ACTOR", "V_PRIM"),
)
"""Columns that only report; a state in which an invariant is broken is never looked at again."""
FIXED = (
    *("ENFORCE", "STEP_COST", "PAGE_COST", "OBJECTIVE", "TOLERANCE", "LEDGER", "HEADROOM", "SHARE", "QSHARE"),
    *("PARAM", "MF_HORIZON"),
)
"""Columns that no event changes."""
HANDLED = (
    *("NOW", "LINK_FREE", "LATE", "R_ACTIVE", "R_N", "R_EPOCH", "R_LOSS", "OWNED", "DEV", "HOST", "BUSY"),
    *("EVICTED", "PAID", "D_PAGE", "D_TAG", "D_PREC", "D_FILL", "H_PAGE", "H_TAG", "H_PREC", "H_FILL"),
    *("J_KIND", "J_PAGE", "J_SRC", "J_DST", "J_END", "J_BY", "J_FAIL", "J_TAG", "J_PREC", "J_OVER"),
    *("FLYING", "QUOTE", "MARK", "DUE", "SPENT", "NOTE", "ACTED"),
)
"""Columns that ``imprint`` looks at by name (``FLYING`` is the number of a policy's copies in flight)."""

BASE = (1 << 40) + 12345
"""The time at which an exploration starts: so late that a number of this size is a time and no other one is."""
HALF = 1 << 39
"""Above it a number is a time."""
_CLOCK = 1 << 50

# Places in the array that tells ``imprint`` what to look at.
F_PAGES, F_REQUESTS, F_DEVICE, F_HOST, F_EXACT, F_SLOTS = range(6)
F_SLICED = 6
"""The first of the columns of ``SLICED``, each as its base offset, or -1 if it is left out; ``R_STEPS`` first."""
F_SIZE = F_SLICED + len(SLICED)


def stir(h: Any, value: Any) -> None:
    """Take a number into the two halves of a fingerprint; a bijection of each half for each number."""
    x = np.uint64(value)
    a = (h[0] ^ x) * np.uint64(0x9E3779B97F4A7C15)
    h[0] = a ^ (a >> np.uint64(29))
    b = (h[1] + x) * np.uint64(0xD6E8FEB86659FD93)
    h[1] = b ^ (b >> np.uint64(32))


def since(value: int, now: int) -> int:
    """A time relative to now; another number as it is."""
    return value - now + _CLOCK if value > HALF else value


def tag(s: Any, value: int) -> Any:
    """A ghost tag relative to the epoch of the session that it names."""
    if value == 0:
        return 0
    return value - s[_R_EPOCH + (value - 1) % NP // PAGES] * NP


def orderly(s: Any, form: Any) -> bool:
    """Whether pages, frames and copies in flight name each other, so that frames can go by their pages."""
    device = 0
    host = 0
    for r in range(form[F_REQUESTS]):
        for i in range(form[F_PAGES]):
            p = r * PAGES + i
            if s[_OWNED + p] == 1:
                d = s[_DEV + p]
                if d >= 0:
                    device += 1
                    if s[_D_PAGE + d] != p:
                        return False
                h = s[_HOST + p]
                if h >= 0:
                    host += 1
                    if s[_H_PAGE + h] != p:
                        return False
    for f in range(form[F_DEVICE]):
        if s[_D_PAGE + f] != FREE:
            device -= 1
    for f in range(form[F_HOST]):
        if s[_H_PAGE + f] != FREE:
            host -= 1
    if device != 0 or host != 0:
        return False
    for j in range(NJ):
        kind = s[_J_KIND + j]
        if kind != 0 and kind != ABANDONED:
            p = s[_J_PAGE + j]
            d = s[_J_SRC + j] if kind == STORE else s[_J_DST + j]
            h = s[_J_DST + j] if kind == STORE else s[_J_SRC + j]
            if s[_DEV + p] != d or s[_HOST + p] != h:
                return False
    return True


def imprint_frames(s: Any, form: Any, h: Any, ordered: bool) -> None:
    """Frames: by their pages where they are in order (frame 0 by itself), else every one as it is."""
    for f in range(1 if ordered else form[F_DEVICE]):
        if not ordered or s[_D_PAGE + f] == FREE:
            stir(h, s[_D_PAGE + f] * 64 + s[_D_PREC + f] * 2 + s[_D_FILL + f])
            stir(h, tag(s, s[_D_TAG + f]))
    for f in range(min(1, form[F_HOST]) if ordered else form[F_HOST]):
        if not ordered or s[_H_PAGE + f] == FREE:
            stir(h, s[_H_PAGE + f] * 64 + s[_H_PREC + f] * 2 + s[_H_FILL + f])
            stir(h, tag(s, s[_H_TAG + f]))


def imprint_page(s: Any, form: Any, h: Any, p: int, mask: int, ordered: bool) -> None:
    """One page: where it is, what is seen of it, what the policies of ``mask`` keep about it."""
    now = s[_NOW]
    for k in range(form[F_SLOTS]):
        if mask >> k & 1:
            stir(h, since(s[_MARK + k * NP + p], now))
    if s[_OWNED + p] == 0:
        return
    quoted = 0
    for k in range(form[F_SLOTS]):
        if mask >> k & 1:
            stir(h, since(s[_DUE + k * NP + p], now))
            quoted = quoted * 2 + s[_QUOTE + k * NP + p]
    stir(h, ((quoted * 16 + s[_BUSY + p]) * 2 + s[_EVICTED + p]) * 2 + s[_PAID + p])
    d = s[_DEV + p]
    # An unfilled frame may still show the precision of what was there before.
    where = (min(d, 1) if ordered else d) + 2
    if d >= 0:
        stir(h, (where * 4 + s[_D_PREC + d]) * 2 + s[_D_FILL + d])
        stir(h, tag(s, s[_D_TAG + d]))
    else:
        stir(h, 1)
    g = s[_HOST + p]
    where = (min(g, 1) if ordered else g) + 2
    if g >= 0:
        stir(h, (where * 4 + s[_H_PREC + g]) * 2 + s[_H_FILL + g])
        stir(h, tag(s, s[_H_TAG + g]))
    else:
        stir(h, 1)
    for c in range(F_SLICED + 1, F_SIZE):
        if form[c] >= 0:
            stir(h, since(s[form[c] + p], now))


def imprint(s: Any, mask: int, form: Any, places: Any, h: Any) -> int:
    """Write the fingerprint of one arm's state into ``h`` (two halves); returns which policies have acted.

    ``places`` are the numbers that are taken as they are: in the exact form all that can change.
    """
    h[0] = np.uint64(0x243F6A8885A308D3)
    h[1] = np.uint64(0x13198A2E03707344)
    now = s[_NOW]
    did = 0
    for k in range(form[F_SLOTS]):
        for i in range(NPRIM):
            if s[_ACTED + k * NPRIM + i] > 0:
                did |= 1 << k
                break
    stir(h, did)
    for i in range(len(places)):
        stir(h, since(s[places[i]], now))
    if form[F_EXACT] == 1:
        return did
    stir(h, max(0, s[_LINK_FREE] - now) * 65536 + s[_LATE])
    ordered = orderly(s, form)
    stir(h, 1 if ordered else 0)
    imprint_frames(s, form, h, ordered)
    for r in range(form[F_REQUESTS]):
        stir(h, s[_R_ACTIVE + r])
        if s[_R_ACTIVE + r] == 1:
            stir(h, s[_R_N + r] * 65536 + s[_R_LOSS + r])
            if form[F_SLICED] >= 0:
                stir(h, s[form[F_SLICED] + r])
            for k in range(form[F_SLOTS]):
                if mask >> k & 1:
                    stir(h, s[_SPENT + k * NR + r])
        for i in range(form[F_PAGES]):
            imprint_page(s, form, h, r * PAGES + i, mask, ordered)
    for k in range(form[F_SLOTS]):
        if mask >> k & 1:
            stir(h, since(s[_MEMO + k], now))
    for j in range(NJ):
        kind = s[_J_KIND + j]
        stir(
            h, ((kind * 64 + s[_J_BY + j] + 1) * 2 + s[_J_FAIL + j]) * 32 + s[_J_PAGE + j] if kind != 0 else 0
        )
        if kind != 0:
            stir(h, s[_J_END + j] - now)
            if kind == STORE:
                stir(h, tag(s, s[_J_TAG + j]) * 4 + s[_J_PREC + j])
            elif kind != ABANDONED:
                # What a load's slot says of tag and precision is left from the copy before.
                stir(h, s[_J_OVER + j])
            if kind != ABANDONED and not ordered:
                stir(h, s[_J_SRC + j] * 64 + s[_J_DST + j])
    return did
