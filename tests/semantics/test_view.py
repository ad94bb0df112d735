"""What a policy in ordinary Python may say: arguments are checked, a wrong one is told and changes nothing."""

from __future__ import annotations

import pytest

from fuzzkv.semantics import apply
from fuzzkv.semantics.layout import ALL_PARTS, INT8, KEY_ALL, NH, NP
from fuzzkv.semantics.ops.registry import FRAMES, OPERATIONS, PLACES
from fuzzkv.semantics.schedule import Config
from fuzzkv.semantics.view import Cache
from fuzzkv.simulator.start import first_state
from tests.broken import CAREFUL


def opened() -> Cache:
    """A cache with a session of two pages."""
    state = first_state(Config(), (CAREFUL, CAREFUL))
    apply.apply_arrive(state, 0, 2)
    return Cache(state, 0, {})


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("promise", (NP,), "promise: p is 16, and can be 0 to 15"),
        ("enqueue", (99, 0), "enqueue: frame is 99, and can be 0 to 15"),
        ("unpin", (-1,), f"unpin: frame is -1, and can be 0 to {NH - 1}"),
        ("quantise", (0, 9), "precision is 9"),
        ("publish", (0, KEY_ALL + 1), "covers is 128"),
        ("doze", (ALL_PARTS + 1,), "parts is 16"),
        ("draft", (0, -3), "tokens is -3"),
    ],
)
def test_an_argument_out_of_range_changes_nothing(name: str, arguments: tuple[int, ...], told: str) -> None:
    cache = opened()
    before = list(cache.state)
    with pytest.raises(ValueError, match=told):
        getattr(cache, name)(*arguments)
    assert cache.state == before


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(TypeError, match=r"quantise takes \(p, precision\)"):
        opened().quantise(0)
    assert opened().quantise(0, precision=INT8) and opened().publish(0)


def test_a_column_has_its_own_places() -> None:
    assert opened().at("DEV", NP - 1) == -1
    with pytest.raises(IndexError, match="DEV has places 0 to 15, not 16"):
        opened().at("DEV", NP)


def test_every_argument_has_its_range() -> None:
    words = {w for f in OPERATIONS.values() for w in f.__code__.co_varnames[3 : f.__code__.co_argcount]}
    assert words == {*PLACES, "frame"} and set(FRAMES) <= set(OPERATIONS)
