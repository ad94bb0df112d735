"""Policies with so little to do that every question about them is a matter of seconds."""

# The vocabulary is imported as a whole, so that a rule reads like a rule.
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace

from fuzzkv.api import *
from fuzzkv.policies.registry import resolve


def promises(s: State, k: Int) -> None:
    """Quotes the first page as exact."""
    promise(s, True, k, 0)


def stores(s: State, k: Int) -> None:
    """Copies the first page to the host, and back over what has become of it."""
    begin_store(s, True, k, 0)
    begin_load(s, True, k, 0)


def shrinks(s: State, k: Int) -> None:
    """Rewrites the first page."""
    quantise(s, True, k, 0, INT4)


def shrinks_what_is_safe(s: State, k: Int) -> None:
    """The clean twin: rewrites a page that nobody quotes and that nothing is in flight for."""
    calm = and_(not_(page_in_flight(s, 0)), not_(hosted(s, 0)))
    for o in each(NK):
        calm = and_(calm, get(s, QUOTE, o * NP) == 0)
    quantise(s, calm, k, 0, INT4)


def shrinks_late(s: State, k: Int) -> None:
    """Rewrites the first page if it was asked for, or opened, after 40 ticks and more."""
    quantise(s, get(s, LAST, 0) >= 40, k, 0, INT4)


def warned(s: State, k: Int) -> None:
    """Takes a warning as long as no step has gone over the first page and the host hasn't got it; later, without one, it
    quotes the page, rewrites it and frees the host's copy.
    """
    early = get(s, LIFE, 0) == 0
    put_if(s, and_(early, not_(hosted(s, 0)), get(s, OWNED, 0) == 1), NOTE, k, 1)
    goes = and_(not_(early), get(s, NOTE, k) == 0)
    promise(s, goes, k, 0)
    quantise(s, goes, k, 0, INT4)
    drop_host(s, goes, k, 0, 0)


def shrinks_what_faded(s: State, k: Int) -> None:
    """Rewrites the first page once nobody attends to it."""
    quantise(s, and_(get(s, OWNED, 0) == 1, get(s, RELEVANT, 0) == 0), k, 0, INT4)


def tiny(name: str, rule: Rule) -> Policy:
    """A policy of this rule that declares what the evictor does."""
    return replace(resolve(["evict"])[0], name=name, rule=rule, parameters={})


PROMISES, STORES, SHRINKS = tiny("promises", promises), tiny("stores", stores), tiny("shrinks", shrinks)
SAFE, LATE_ONE = tiny("shrinks-safely", shrinks_what_is_safe), tiny("shrinks-late", shrinks_late)
WARNED, OF_FADED = tiny("needs-a-warning", warned), tiny("shrinks-faded", shrinks_what_faded)
