"""Bootstrap intervals that resample whole requests or whole contexts.

The tokens of one request share its slow or fast state, and items of one prompt family share their context,
so the unit of resampling is the request or the context, never the token: resampling tokens covers a nominal
95 % interval of the P99 only 13 to 22 % of the time. Three hundred requests or more are needed for a claim
about P99.

All functions are seeded (``numpy.random.Generator``) and vectorised: no Python loop runs over the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzkv.errors import UsageError
from fuzzkv.oracles.paired import Interval

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]

_CELLS = 4_000_000
"""Cells of the largest temporary array (samples x tokens), so that memory stays under some 100 MB."""


def p99_bootstrap(
    requests: Sequence[Sequence[float]],
    *,
    seed: int,
    samples: int = 2000,
    confidence: float = 0.95,
    quantile: float = 0.99,
    minimum: int = 1,
) -> Interval:
    """Percentile interval of a quantile over pooled tokens, resampling whole requests.

    Parameters: ``requests`` holds one sequence of latencies (any unit, kept) per request; ``minimum`` is
    the least number of requests for which a claim is allowed (FKV072 below it).
    """
    pool = _Pool(requests, minimum)
    draws = pool.quantiles(_weights(len(requests), samples, seed), quantile)
    whole = np.ones((1, len(requests)), dtype=np.int32)
    estimate = float(pool.quantiles(whole, quantile)[0])
    return _interval(draws, estimate, confidence, f"request-bootstrap-q{quantile:g}")


def p99_difference_bootstrap(
    reference: Sequence[Sequence[float]],
    candidate: Sequence[Sequence[float]],
    *,
    seed: int,
    samples: int = 2000,
    confidence: float = 0.95,
    quantile: float = 0.99,
    minimum: int = 1,
) -> Interval:
    """Percentile interval of P99(candidate) - P99(reference), paired: request ``i`` is the same in both arms.

    Each sample draws one set of request ids and uses it in both arms, so what a hard request does to both
    cancels.
    """
    if len(reference) != len(candidate):
        raise UsageError(
            code="FKV070",
            value=f"{len(reference)} and {len(candidate)} requests",
            reason="a paired bootstrap needs the same requests in both arms",
            cure="Replay the same frozen requests in each arm.",
        )
    first, second = _Pool(reference, minimum), _Pool(candidate, minimum)
    weights = _weights(len(reference), samples, seed)
    draws = second.quantiles(weights, quantile) - first.quantiles(weights, quantile)
    whole = np.ones((1, len(reference)), dtype=np.int32)
    estimate = float(second.quantiles(whole, quantile)[0] - first.quantiles(whole, quantile)[0])
    return _interval(draws, estimate, confidence, f"paired-request-bootstrap-q{quantile:g}")


def mean_difference_bootstrap(
    reference: Sequence[float],
    candidate: Sequence[float],
    contexts: Sequence[Any],
    *,
    seed: int,
    samples: int = 2000,
    confidence: float = 0.90,
) -> Interval:
    """Percentile interval of the mean of ``candidate - reference``, resampling whole contexts.

    ``contexts[i]`` names the context (prompt family) of item ``i``. For accuracies give 0 and 1; for the
    rise of NLL, nats per token. A 90 % interval gives one-sided limits at 5 %.
    """
    if not len(reference) == len(candidate) == len(contexts) or not len(contexts):
        raise UsageError(
            code="FKV070",
            value=f"{len(reference)}, {len(candidate)} and {len(contexts)} values",
            reason="reference, candidate and contexts must have the same length, at least one",
            cure="Give one context label per paired item.",
        )
    order: dict[Any, int] = {}
    labels = np.array([order.setdefault(context, len(order)) for context in contexts])
    difference = np.asarray(candidate, dtype=np.float64) - np.asarray(reference, dtype=np.float64)
    sums = np.bincount(labels, weights=difference, minlength=len(order))
    counts = np.bincount(labels, minlength=len(order)).astype(np.float64)
    weights = _weights(len(order), samples, seed).astype(np.float64)
    draws = (weights @ sums) / (weights @ counts)
    return _interval(draws, float(difference.mean()), confidence, "context-bootstrap-mean")


class _Pool:
    """Tokens of all requests in ascending order, each with the request that it belongs to."""

    def __init__(self, requests: Sequence[Sequence[float]], minimum: int) -> None:
        lengths = np.array([len(request) for request in requests], dtype=np.int64)
        if len(requests) < max(minimum, 1) or not lengths.sum():
            raise UsageError(
                code="FKV072",
                value=f"{len(requests)} requests",
                reason=f"a P99 claim needs at least {max(minimum, 1)} requests with latencies",
                cure="Run more requests, or report the raw latencies without a claim.",
            )
        values = np.concatenate([np.asarray(request, dtype=np.float64) for request in requests])
        order = np.argsort(values, kind="stable")
        self.values: Floats = values[order]
        self.owner = np.repeat(np.arange(len(requests)), lengths)[order]
        self.lengths = lengths

    def quantiles(self, weights: Counts, quantile: float) -> Floats:
        """The quantile (inverse of the empirical distribution) for each row of request weights, shape
        (samples,).
        """
        totals = weights @ self.lengths
        ranks = np.maximum(np.ceil(quantile * totals - 1e-9), 1)
        result = np.empty(len(weights), dtype=np.float64)
        chunk = max(1, _CELLS // len(self.values))
        for start in range(0, len(weights), chunk):
            rows = slice(start, start + chunk)
            cumulative = np.cumsum(weights[rows][:, self.owner], axis=1, dtype=np.int32)
            index = (cumulative < ranks[rows, None]).sum(axis=1)
            result[rows] = self.values[np.minimum(index, len(self.values) - 1)]
        return result


def _weights(units: int, samples: int, seed: int) -> Counts:
    """How often each unit occurs in each bootstrap sample, shape (samples, units)."""
    if samples < 1:
        raise UsageError(
            code="FKV070", value=samples, reason="a bootstrap needs samples", cure="Give 1000 or more."
        )
    generator = np.random.default_rng(seed)
    draws = generator.integers(0, units, size=(samples, units))
    flat = (draws + np.arange(samples)[:, None] * units).ravel()
    return np.bincount(flat, minlength=samples * units).reshape(samples, units).astype(np.int32)


def _interval(draws: Floats, estimate: float, confidence: float, method: str) -> Interval:
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(estimate=estimate, low=float(low), high=float(high), confidence=confidence, method=method)
