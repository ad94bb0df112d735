"""The statistics against published and simulated numbers, and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from fuzzkv.errors import UsageError
from fuzzkv.oracles import power
from fuzzkv.oracles import statistics as stats


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 400))
    b = draw(st.integers(0, n))
    return b, draw(st.integers(0, n - b)), n


def test_tango_interval_against_the_published_number() -> None:
    interval = stats.tango_ci(40, 20, 160, alpha=0.05)
    assert (interval.low, interval.high) == pytest.approx((0.0309, 0.2181), abs=5e-5)
    assert interval.estimate == 0.125 and interval.confidence == 0.95


def test_newcombe_interval_against_the_published_number() -> None:
    interval = stats.newcombe_ci(36, 12, 2, 0, alpha=0.05)
    assert (interval.low, interval.high) == pytest.approx((0.0569, 0.3404), abs=5e-5)


@pytest.mark.parametrize(("n", "percent"), [(59, 5.0), (299, 1.0), (1000, 0.30)])
def test_no_failures_at_all(n: int, percent: float) -> None:
    assert 100 * stats.clopper_pearson_upper(0, n) == pytest.approx(percent, abs=0.05)


@given(st.integers(1, 500), st.data())
@settings(max_examples=40, deadline=None)
def test_clopper_pearson_agrees_with_scipy(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    upper = binomtest(k, n, alternative="less").proportion_ci(0.95, "exact").high
    lower = binomtest(k, n, alternative="greater").proportion_ci(0.95, "exact").low
    assert stats.clopper_pearson_upper(k, n, 0.05) == pytest.approx(upper, abs=1e-9)
    assert stats.clopper_pearson_lower(k, n, 0.05) == pytest.approx(lower, abs=1e-9)


@given(counts())
@settings(max_examples=60, deadline=None)
def test_tango_limits_are_roots_ordered_and_symmetric(item: tuple[int, int, int]) -> None:
    b, c, n = item
    interval = stats.tango_ci(b, c, n)
    assert -1 <= interval.low <= interval.estimate <= interval.high <= 1
    mirror = stats.tango_ci(c, b, n)
    assert (-mirror.high, -mirror.low) == pytest.approx((interval.low, interval.high), abs=1e-9)
    for limit, sign in ((interval.low, 1), (interval.high, -1)):
        if abs(limit) < 0.999:
            assert stats.tango_z(b, c, n, limit) == pytest.approx(sign * 1.6449, abs=1e-3)


@given(counts(), st.sampled_from([0.05, 0.15]))
@settings(max_examples=60, deadline=None)
def test_decision_is_the_interval_against_the_margin(item: tuple[int, int, int], margin: float) -> None:
    b, c, n = item
    interval = stats.tango_ci(b, c, n, alpha=0.10)
    decision = stats.decide(b, c, n, margin=margin, alpha=0.05)
    if abs(interval.low + margin) > 1e-6 and abs(interval.high + margin) > 1e-6:
        expected = (
            "within-margin"
            if interval.low > -margin
            else "beyond-margin"
            if interval.high < -margin
            else "undecided"
        )
        assert decision == expected
    assert (stats.tango_p(b, c, n, margin) < 0.05) == (decision == "within-margin")


def test_the_array_form_is_the_scalar_form() -> None:
    pairs = [(b, c) for b in range(0, 41, 4) for c in range(0, 41, 4) if b + c <= 40]
    b, c = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    for delta in (-0.9, -0.15, 0.0, 0.3):
        expected = [stats.tango_z(x, y, 40, delta) for x, y in pairs]
        z = power.tango_z_array(b, c, 40, delta)
        finite = np.isfinite(expected)
        assert z[finite] == pytest.approx(np.array(expected)[finite], abs=1e-6)


@pytest.mark.parametrize(
    ("n", "discordant", "expected"),
    [(100, 0.05, 0.58), (100, 0.20, 0.29), (200, 0.10, 0.69), (400, 0.20, 0.71)],
)
def test_power_of_the_rule_against_the_simulated_table(n: int, discordant: float, expected: float) -> None:
    found = stats.paired_power(n, discordant / 2, discordant / 2, margin=0.05)
    assert found == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("n", "discordant", "expected"), [(100, 0.1, 0.045), (400, 0.2, 0.051)])
def test_size_of_the_rule_against_the_simulated_table(n: int, discordant: float, expected: float) -> None:
    b, c = (discordant - 0.05) / 2, (discordant + 0.05) / 2
    assert stats.paired_power(n, b, c, margin=0.05) == pytest.approx(expected, abs=0.008)


@pytest.mark.parametrize(("looks", "shape"), [(3, 1.0), (3, 3.0), (5, 1.0)])
def test_planned_looks_keep_the_level(looks: int, shape: float) -> None:
    assert sum(stats.planned_alphas(0.05, looks, shape=shape)) == pytest.approx(0.05)
    for side in ("within-margin", "beyond-margin"):
        wrong = stats.paired_power(
            300, 0.03, 0.18, margin=0.15, looks=looks, shape=shape, side=side, samples=10_000
        )
        assert wrong <= 0.055


def test_decisions_over_looks() -> None:
    alphas = stats.planned_alphas(0.05, 2)
    assert stats.decide_looks([(0, 5, 40), (0, 40, 100)], margin=0.15, alphas=alphas) == ("beyond-margin", 2)
    assert stats.decide_looks([(1, 0, 100)], margin=0.15, alphas=alphas) == ("within-margin", 1)
    assert stats.decide_looks([(1, 7, 40)], margin=0.15, alphas=alphas) == ("undecided", 1)
    with pytest.raises(UsageError, match="FKV070"):
        stats.decide_looks([(0, 5, 40)] * 3, margin=0.15, alphas=alphas)


@pytest.mark.parametrize(
    ("discordant", "margin", "n"), [(0.02, 0.02, 310), (0.05, 0.02, 773), (0.05, 0.01, 3092)]
)
def test_planning_formula(discordant: float, margin: float, n: int) -> None:
    assert stats.formula_items(discordant, margin=margin) == pytest.approx(n, abs=1)


def test_a_plan_reaches_its_power_or_says_that_it_cannot() -> None:
    plan = stats.plan_items(0.02, 0.02, margin=0.15, limit=400)
    assert plan.n is not None and plan.n < 60 and plan.power >= 0.8
    assert stats.plan_items(0.10, 0.24, margin=0.15, limit=100).n is None


def test_paired_counts_and_slices() -> None:
    reference, candidate = [True, True, True, False, False], [True, False, False, True, False]
    table = stats.paired_counts(reference, candidate)
    assert table.as_dict() == {"n": 5, "both": 1, "b": 1, "c": 2, "neither": 1}
    assert table.cache_induced_failure_rate == pytest.approx(2 / 3) and table.difference == pytest.approx(
        -0.2
    )
    slices = stats.failure_rates(reference, candidate, ["x", "y", "x", "x", "y"])
    assert list(slices) == ["x", "y", "all"] and slices["y"].c == 1 and slices["all"] == table
    assert math.isnan(stats.paired_counts([False], [True]).cache_induced_failure_rate)


def test_bad_counts_are_refused() -> None:
    for call in (
        lambda: stats.tango_ci(3, 3, 5),
        lambda: stats.tango_z(0, 0, 0, 0.0),
        lambda: stats.clopper_pearson_upper(4, 3),
        lambda: stats.paired_counts([True], []),
        lambda: stats.decide(1, 1, 9, margin=15),
        lambda: stats.planned_alphas(0.05, 0),
        lambda: stats.paired_power(10, 0.9, 0.9, margin=0.1),
        lambda: stats.p99_difference_bootstrap([[1.0]], [], seed=1),
        lambda: stats.mean_difference_bootstrap([1.0], [1.0], [], seed=1),
        lambda: stats.p99_bootstrap([[1.0]], seed=1, samples=0),
    ):
        with pytest.raises(UsageError, match="FKV070"):
            call()
    with pytest.raises(UsageError, match=r"FKV072: 2 requests: .* 300 requests"):
        stats.p99_bootstrap([[1.0], [2.0]], seed=1, minimum=300)


def _latencies(count: int, seed: int, slow: float = 0.03, tokens: int = 16) -> list[list[float]]:
    generator = np.random.default_rng(seed)
    scale = np.where(generator.random(count) < slow, 5.0, 1.0)
    return [list(level * generator.gamma(20, 1 / 20, size=tokens)) for level in scale]


def test_p99_interval_is_seeded_and_holds_the_estimate() -> None:
    requests = _latencies(300, 1)
    first = stats.p99_bootstrap(requests, seed=7, samples=500, confidence=0.95)
    assert first == stats.p99_bootstrap(requests, seed=7, samples=500, confidence=0.95)
    assert first != stats.p99_bootstrap(requests, seed=8, samples=500, confidence=0.95)
    pooled = np.concatenate([np.array(request) for request in requests])
    assert first.estimate == np.quantile(pooled, 0.99, method="inverted_cdf")
    assert first.low < first.estimate < first.high and first.estimate in first


def test_weighted_quantiles_are_those_of_the_resampled_tokens() -> None:
    requests = [[3.0, 1.0], [2.0], [9.0, 9.0, 4.0], [7.0]]
    from fuzzkv.oracles.bootstrap import _Pool, _weights

    weights = _weights(4, 50, seed=3)
    found = _Pool(requests, 1).quantiles(weights, 0.75)
    for row, value in zip(weights, found, strict=True):
        tokens = [
            token for request, times in zip(requests, row, strict=True) for token in request * int(times)
        ]
        assert value == np.quantile(tokens, 0.75, method="inverted_cdf")


def test_whole_requests_cover_where_tokens_do_not() -> None:
    truth = float(np.quantile(np.concatenate([np.array(r) for r in _latencies(20_000, 99)]), 0.99))
    whole = tokens = 0
    for seed in range(20):
        requests = _latencies(200, seed)
        whole += truth in stats.p99_bootstrap(requests, seed=seed, samples=200)
        flat = [[token] for request in requests for token in request]
        tokens += truth in stats.p99_bootstrap(flat, seed=seed, samples=50)
    assert whole >= 15 and tokens <= 12


def test_paired_difference_cancels_what_both_arms_share() -> None:
    reference = _latencies(300, 5)
    candidate = [[token + 0.5 for token in request] for request in reference]
    interval = stats.p99_difference_bootstrap(reference, candidate, seed=1, samples=300)
    assert interval.low == pytest.approx(0.5) and interval.high == pytest.approx(0.5)


def test_context_bootstrap_is_wider_than_the_item_bootstrap() -> None:
    generator = np.random.default_rng(4)
    shift = np.repeat(generator.normal(0.0, 1.0, size=30), 10)
    contexts = [f"c{i // 10}" for i in range(300)]
    zero = [0.0] * 300
    by_context = stats.mean_difference_bootstrap(zero, list(shift), contexts, seed=1, samples=500)
    by_item = stats.mean_difference_bootstrap(zero, list(shift), list(range(300)), seed=1, samples=500)
    assert by_context.high - by_context.low > 2 * (by_item.high - by_item.low)
    assert by_context.estimate == pytest.approx(shift.mean())


def test_an_interval_as_data_has_no_floats() -> None:
    assert stats.Interval(0.125, 0.0309, 1 / 3, 0.95, "tango").as_dict() == {
        "estimate": "0.125",
        "low": "0.0309",
        "high": "0.333333",
        "confidence": "0.95",
        "method": "tango",
    }
