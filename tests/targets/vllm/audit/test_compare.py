"""The measures, against numbers worked out by hand; what is noise, what is a tie, what differs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fuzzkv.targets.vllm.audit.compare import FACTOR, ULP, compare, judge, limit


def test_the_measures() -> None:
    rebuilt = [np.log([0.5, 0.25, 0.25]), np.array([0.0, 3.0, 1.0])]
    retained = [np.log([0.25, 0.5, 0.25]), np.array([0.0, 2.5, 1.0])]
    found = compare(retained, rebuilt)
    assert found.greedy == (1, 0) and found.agree == 1 and found.of == 2
    assert found.gap == pytest.approx((math.log(2), math.log(2)))
    assert found.decision == pytest.approx(math.log(2)) and found.forced == 0.5
    assert found.most == pytest.approx(math.log(2)) and found.largest == 3.0
    assert found.kl == pytest.approx(0.5 * math.log(2) + 0.25 * math.log(0.5))  # of retained from rebuilt


def test_a_shift_of_all_logits_is_no_divergence() -> None:
    row = np.array([1000.0, 999.0, -1000.0])
    assert compare([row + 5], [row]).kl == pytest.approx(0.0)


def test_identical_runs_are_identical() -> None:
    rows = [np.array([1.0, 2.0]), np.array([3.0, 1.0])]
    found = compare(rows, rows)
    assert (found.most, found.kl, found.agree) == (0.0, 0.0, 2)
    assert judge(found.most, agree=True, noise=0.0) == "same"


def test_not_a_number_is_a_difference() -> None:
    rows = [np.array([1.0, math.nan]), np.array([3.0, 1.0])]
    found = compare(rows, [np.array([1.0, 2.0]), np.array([3.0, 1.0])])
    assert math.isnan(found.most) and math.isnan(found.kl)
    assert judge(found.most, agree=True, noise=1e9) == "differs"
    assert judge(math.nan, agree=False, noise=1e9) == "differs"


def test_runs_of_other_lengths_are_not_compared() -> None:
    with pytest.raises(ValueError, match="same shape"):
        compare([np.zeros(3)], [np.zeros(3), np.zeros(3)])


@pytest.mark.parametrize(
    ("most", "agree", "verdict"),
    [(0.5, True, "same"), (0.5, False, "numeric-tie"), (0.6, True, "differs"), (0.6, False, "differs")],
)
def test_verdicts(most: float, agree: bool, verdict: str) -> None:
    assert judge(most, agree=agree, noise=0.5) == verdict


def test_the_limit_is_measured_and_at_least_a_rounding_error() -> None:
    assert limit([(1e-4, 8.0), (2e-4, 4.0)]) == pytest.approx(FACTOR * 2e-4)
    assert limit([(0.0, 8.0)]) == FACTOR * 8.0 * ULP
    assert limit([]) == 0.0
