"""Fingerprints of 128 bits of an arm's state, equal for states that no rule, event or clause can tell apart.

Merged, because the futures are the same up to the names:

* clocks: a time is taken relative to now; a link that is free is free, whenever it became so;
* frames: which frame holds a page doesn't matter, except frame 0 of each tier, which a text may look at through an
  index of -1 (``slot``); what an empty frame held before is forgotten.  Frames are taken by number instead where a rule
  tells them apart or something may be left in an empty one (``modelcheck.projection``), and in states in which something else than
  its page names one: the index, several pages, a copy of another kind than to the host and back;
* epochs: a text of a session's own is relative to its epoch, in ghost tags and index keys as well;
* what is over: pages that nobody owns, columns of sessions that aren't open, copies that have ended, counters that only
  report;
* columns that nothing reads: attention, gaps, hits, ages where no rule of the set looks at them (``modelcheck.counters``).

A column that isn't named here is taken as it is (``modelcheck.projection`` says which that are for a set).

Not merged: pages of one session, sessions, slots of copies in flight.  Rules break ties by the lowest index, so a state
with two pages exchanged has other futures (a test shows one).  Where a policy may tell merged states apart after all
(it reads absolute time, say), the explorer finds out by trial and takes the exact form, in which every number counts.

The functions are compiled behind the text of the policy set, like those of ``simulator.bulk.search``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzkv.semantics.identity import OWN_TEXT, T_TEXT
from fuzzkv.semantics.layout import (
    ABANDONED,
    COLUMNS,
    FREE,
    NJ,
    NP,
    NPRIM,
    NR,
    NX,
    ON_DEVICE,
    PAGES,
    RUN,
    STORE,
)

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
_ACTED, _WANT, _TEXT, _LEASE, _SIDE = _C["ACTED"], _C["WANT"], _C["R_TEXT"], _C["LEASE"], _C["D_SIDE"]
_X_KEY, _X_TAG, _X_TIER = _C["X_KEY"], _C["X_TAG"], _C["X_TIER"]

BASE = (1 << 40) + 12345
"""The time at which an exploration starts: so late that a number of this size is a time and no other one is."""
HALF = 1 << 39
"""Above it a number is a time."""
_CLOCK = 1 << 50

_SHIFT = 1 << 12
"""Added to a text that is relative to its epoch: more than there are sessions in a schedule, and no shared text."""

# Places in the array that tells ``imprint`` what to look at; the last five say where in it the lists of columns begin (the
# base offsets of those of sessions, pages, device and host frames) and where the last one ends.
F_PAGES, F_REQUESTS, F_DEVICE, F_HOST, F_EXACT, F_SLOTS = range(6)
F_NAMED, F_FADES, F_INDEX, F_KEEP = range(6, 10)
"""Whether frames are taken by number, attention counts, there is an index, and what is over is kept as it is."""
F_SESSIONS, F_OWNED, F_ON_DEVICE, F_ON_HOST, F_END = range(10, 15)
F_HEAD = 15


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


def told(s: Any, text: int) -> Any:
    """A text of a session's own relative to its epoch."""
    if text < OWN_TEXT:
        return text
    return text - s[_R_EPOCH + (text - OWN_TEXT) % NR] * NR + _SHIFT


def tag(s: Any, value: int) -> Any:
    """A ghost tag or an index key, its text relative to the epoch of the session whose it is."""
    if value <= 0:
        return value
    text = (value - 1) // T_TEXT
    return value + (told(s, text) - text) * T_TEXT


def orderly(s: Any, form: Any) -> bool:
    """Whether pages, frames and copies in flight name each other and nothing else does, so that frames can go by their
    pages.
    """
    if form[F_NAMED] == 1:
        return False
    for j in range(NJ):
        if s[_J_KIND + j] >= RUN:
            return False
    if form[F_INDEX] == 1:
        for x in range(NX):
            if s[_X_KEY + x] != 0 and s[_X_TIER + x] == ON_DEVICE:
                return False
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


def imprint_device(s: Any, form: Any, h: Any, f: int) -> None:
    """What a device frame holds, and what stands beside it; the precision of an empty one is forgotten as in a state in
    which frames go by their pages.
    """
    over = f > 0 and s[_D_PAGE + f] == FREE and form[F_NAMED] == 0
    stir(h, s[_D_FILL + f] if over else s[_D_PREC + f] * 2 + s[_D_FILL + f])
    stir(h, tag(s, s[_D_TAG + f]))
    for c in range(form[F_ON_DEVICE], form[F_ON_HOST]):
        stir(h, tag(s, s[form[c] + f]) if form[c] == _SIDE else s[form[c] + f])


def imprint_host(s: Any, form: Any, h: Any, f: int) -> None:
    """What a host frame holds, and what is known of it."""
    stir(h, s[_H_PREC + f] * 2 + s[_H_FILL + f])
    stir(h, tag(s, s[_H_TAG + f]))
    for c in range(form[F_ON_HOST], form[F_END]):
        stir(h, s[form[c] + f])


def imprint_frames(s: Any, form: Any, h: Any, ordered: bool) -> None:
    """Frames: by their pages where they are in order (frame 0 by itself), else every one as it is."""
    for f in range(1 if ordered else form[F_DEVICE]):
        if not ordered or s[_D_PAGE + f] == FREE:
            stir(h, s[_D_PAGE + f])
            imprint_device(s, form, h, f)
    for f in range(min(1, form[F_HOST]) if ordered else form[F_HOST]):
        if not ordered or s[_H_PAGE + f] == FREE:
            stir(h, s[_H_PAGE + f])
            imprint_host(s, form, h, f)


def imprint_page(s: Any, form: Any, h: Any, p: int, mask: int, ordered: bool) -> None:
    """One page: where it is, what is seen of it, what the policies of ``mask`` quote."""
    now = s[_NOW]
    if s[_OWNED + p] == 0 and form[F_KEEP] == 0:
        stir(h, 0)
        return
    quoted = 1
    for k in range(form[F_SLOTS]):
        if mask >> k & 1:
            quoted = quoted * 2 + s[_QUOTE + k * NP + p]
    seen = (quoted * 16 + s[_BUSY + p]) * 2 + s[_EVICTED + p]
    stir(h, (seen * 2 + s[_PAID + p]) * 2 + s[_OWNED + p])
    stir(h, tag(s, s[_WANT + p]))
    d = s[_DEV + p]
    # An unfilled frame may still show the precision of what was there before.
    stir(h, (min(d, 1) if ordered else d) + 2)
    if d >= 0 and ordered:
        imprint_device(s, form, h, d)
    g = s[_HOST + p]
    stir(h, (min(g, 1) if ordered else g) + 2)
    if g >= 0 and ordered:
        imprint_host(s, form, h, g)
    for c in range(form[F_OWNED], form[F_ON_DEVICE]):
        stir(h, since(s[form[c] + p], now))


def imprint_session(s: Any, form: Any, h: Any, r: int, mask: int) -> None:
    """One session, but for its pages."""
    stir(h, s[_R_ACTIVE + r])
    if s[_R_ACTIVE + r] == 0 and form[F_KEEP] == 0:
        # One that opens with the same shared text finds what belongs to it.
        stir(h, s[_TEXT + r] if s[_TEXT + r] < OWN_TEXT else 0)
        return
    stir(h, told(s, s[_TEXT + r]))
    stir(h, s[_R_N + r] * 65536 + s[_R_LOSS + r])
    for c in range(form[F_SESSIONS], form[F_OWNED]):
        stir(h, s[form[c] + r])
    for k in range(form[F_SLOTS]):
        if mask >> k & 1:
            stir(h, s[_SPENT + k * NR + r])


def imprint_memory(s: Any, h: Any, k: int) -> None:
    """What the policy in slot ``k`` keeps for itself, of pages that nobody owns as well: numbers other than 0 by place."""
    now = s[_NOW]
    stir(h, since(s[_MEMO + k], now))
    for p in range(NP):
        if s[_MARK + k * NP + p] != 0:
            stir(h, p)
            stir(h, since(s[_MARK + k * NP + p], now))
    for p in range(NP):
        if s[_DUE + k * NP + p] != 0:
            stir(h, NP + p)
            stir(h, since(s[_DUE + k * NP + p], now))
    stir(h, -1)


def imprint_copy(s: Any, h: Any, j: int, ordered: bool) -> None:
    """One copy in flight, or whatever else is."""
    kind = s[_J_KIND + j]
    if kind == 0:
        stir(h, 0)
        return
    stir(h, ((kind * 64 + s[_J_BY + j] + 1) * 2 + s[_J_FAIL + j]) * 32 + s[_J_PAGE + j])
    stir(h, s[_J_END + j] - s[_NOW])
    if kind == STORE or kind >= RUN:
        # What a load's slot says of tag and precision is left from the copy before.
        stir(h, tag(s, s[_J_TAG + j]))
        stir(h, s[_J_PREC + j])
    if kind >= RUN:
        stir(h, since(s[_LEASE + j], s[_NOW]))
    elif kind != STORE and kind != ABANDONED:
        stir(h, s[_J_OVER + j])
    if kind != ABANDONED and not ordered:
        stir(h, s[_J_SRC + j] * 64 + s[_J_DST + j])


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
        imprint_session(s, form, h, r, mask)
        for i in range(form[F_PAGES]):
            imprint_page(s, form, h, r * PAGES + i, mask, ordered)
    for k in range(form[F_SLOTS]):
        if mask >> k & 1:
            imprint_memory(s, h, k)
    if form[F_INDEX] == 1:
        for x in range(NX):
            key = s[_X_KEY + x]
            stir(h, tag(s, key) if key >= 0 else -tag(s, -key))
            stir(h, tag(s, s[_X_TAG + x]))
    for j in range(NJ):
        imprint_copy(s, h, j, ordered)
    return did
