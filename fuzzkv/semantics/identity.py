"""Ghost tags and index keys: one number that says what the bytes of a page depend on, and what a wrong one tells.

A ghost tag is one number with a field for each thing that bytes depend on, so a reader that meets a wrong tag
can name what is wrong with it: another owner's bytes, another branch, another adapter, another layout ...  An
index key is the same number with the fields left out that the key doesn't cover.
"""

from __future__ import annotations

from fuzzkv.semantics.vocabulary import *

# Place values of the fields; each field ends where the next one begins.
T_INDEX = 1
T_TOKENS = 8
T_BRANCH = 32
T_ADAPTER = 256
T_SCHEME = 1024
T_WEIGHTS = 4096
T_LINEAGE = 32768
T_LAYOUT = 65536
T_DRAFT = 262144
T_TEXT = 524288
OWN_TEXT = 8
"""Texts below this one may be shared by sessions; from here on each session has its own."""


def field(tag: Int, low: int, high: int) -> Int:
    """The field of a tag between two place values."""
    return div(tag - 1, low) - div(tag - 1, high) * div(high, low)


def next_in_field(value: Int, size: int) -> Int:
    """The next value of a field that counts up; after the last it goes on from 1."""
    return ite(value + 1 >= size, 1, value + 1)


def session_tag(s: State, r: SessionId) -> Int:
    """The part of the expected tag that all pages of a session share."""
    return (
        1
        + get(s, R_ADAPTER, r) * T_ADAPTER
        + get(s, R_SCHEME, r) * T_SCHEME
        + get(s, WEIGHTS, 0) * T_WEIGHTS
        + get(s, LAYOUT, 0) * T_LAYOUT
        + get(s, R_TEXT, r) * T_TEXT
    )


def tokens_in(s: State, r: SessionId, i: Int) -> Int:
    """Tokens in page ``i`` of a session, 0 for a full page."""
    return ite(i == get(s, R_N, r) - 1, get(s, R_RES, r), 0)


def expect(s: State, g: Bool, r: SessionId, i: Int) -> None:
    """Set the tag that the reader of page ``i`` of a session expects from now on."""
    guard(g)
    p = r * PAGES + i
    own = (
        i * T_INDEX
        + tokens_in(s, r, i) * T_TOKENS
        + get(s, P_BRANCH, p) * T_BRANCH
        + get(s, P_LINEAGE, p) * T_LINEAGE
    )
    put_if(s, g, WANT, p, session_tag(s, r) + own)


def key_of(tag: Int, covers: Int) -> Int:
    """The index key of bytes with this tag, covering the components in ``covers`` (``KEY_...`` bits).

    Every key names the place in the text and the tokens in the page; 0 is no key.
    """
    rest = covers
    layout = div(rest, KEY_LAYOUT)
    rest = rest - layout * KEY_LAYOUT
    lineage = div(rest, KEY_LINEAGE)
    rest = rest - lineage * KEY_LINEAGE
    weights = div(rest, KEY_WEIGHTS)
    rest = rest - weights * KEY_WEIGHTS
    scheme = div(rest, KEY_SCHEME)
    rest = rest - scheme * KEY_SCHEME
    adapter = div(rest, KEY_ADAPTER)
    rest = rest - adapter * KEY_ADAPTER
    branch = div(rest, KEY_BRANCH)
    text = rest - branch * KEY_BRANCH
    return (
        1
        + field(tag, T_INDEX, T_BRANCH)
        + branch * field(tag, T_BRANCH, T_ADAPTER) * T_BRANCH
        + adapter * field(tag, T_ADAPTER, T_SCHEME) * T_ADAPTER
        + scheme * field(tag, T_SCHEME, T_WEIGHTS) * T_SCHEME
        + weights * field(tag, T_WEIGHTS, T_LINEAGE) * T_WEIGHTS
        + lineage * field(tag, T_LINEAGE, T_LAYOUT) * T_LINEAGE
        + layout * field(tag, T_LAYOUT, T_DRAFT) * T_LAYOUT
        + text * div(tag - 1, T_TEXT) * T_TEXT
    )


def same_text(tag: Int, other: Int) -> Bool:
    """Whether two tags are of the same page of the same text, branch, adapter and scheme, however many tokens it
    holds and however it is laid out.
    """
    text = div(tag - 1, T_TEXT) == div(other - 1, T_TEXT)
    index = field(tag, T_INDEX, T_TOKENS) == field(other, T_INDEX, T_TOKENS)
    rest = field(tag, T_BRANCH, T_WEIGHTS) == field(other, T_BRANCH, T_WEIGHTS)
    return and_(text, index, rest)


def blame(tag: Int, want: Int) -> InvariantId:
    """The invariant that a reader who wants one tag and meets another sees broken (I2 to I9)."""
    text = div(tag - 1, T_TEXT) != div(want - 1, T_TEXT)
    index = field(tag, T_INDEX, T_TOKENS) != field(want, T_INDEX, T_TOKENS)
    branch = field(tag, T_BRANCH, T_ADAPTER) != field(want, T_BRANCH, T_ADAPTER)
    draft = field(tag, T_DRAFT, T_TEXT) != field(want, T_DRAFT, T_TEXT)
    tokens = field(tag, T_TOKENS, T_BRANCH) != field(want, T_TOKENS, T_BRANCH)
    layout = field(tag, T_LAYOUT, T_DRAFT) != field(want, T_LAYOUT, T_DRAFT)
    named = ite(or_(branch, draft), I9, ite(layout, I5, ite(tokens, I4, I7)))
    owned = ite(or_(text, index), I2, named)
    return ite(tag == 0, I3, ite(tag == GARBLED, I5, ite(tag == SKEWED, I6, owned)))
