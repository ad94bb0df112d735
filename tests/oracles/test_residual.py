"""The residual risk: Good and Turing's estimate, and its limit."""

from __future__ import annotations

import random

import pytest

from fuzzkv.oracles.residual import Residual


def test_numbers_that_are_known() -> None:
    assert Residual(0, 0).estimate == Residual(0, 0).upper == 1.0
    assert Residual(0, 100).estimate == 0.0
    # The rule of three, exactly: 1 - 0.05 ** (1 / n).
    assert Residual(0, 100).upper == pytest.approx(1 - 0.05**0.01)
    assert Residual(3, 1000).estimate == 0.003
    assert 0.003 < Residual(3, 1000).upper < 0.01


def test_the_estimate_is_right_on_average() -> None:
    """Draws from a hundred classes of falling shares: what is left unseen is what the singletons say."""
    shares = [0.5**i for i in range(30)]
    total = sum(shares)
    errors = []
    for seed in range(200):
        draw = random.Random(seed)
        seen = draw.choices(range(30), shares, k=200)
        singletons = sum(seen.count(c) == 1 for c in set(seen))
        missing = sum(share for c, share in enumerate(shares) if c not in seen) / total
        errors.append(Residual(singletons, 200).estimate - missing)
        assert Residual(singletons, 200).upper > 0
    assert abs(sum(errors) / len(errors)) < 0.002
