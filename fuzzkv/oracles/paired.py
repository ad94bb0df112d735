"""Paired binary outcomes: the intervals and tests behind "within the margin" and "beyond the margin".

Words. ``n`` items are each scored right or wrong under a *reference* (full cache, or the policies alone)
and under a *candidate* (the composition). ``b`` counts candidate right and reference wrong, ``c`` candidate
wrong and reference right. The difference of accuracies is ``(b - c) / n``, all rates are fractions in [0,
1].

Sources: T. Tango, Statistics in Medicine 17 (1998) 891-908 (score interval and test); R. G. Newcombe,
Statistics in Medicine 17 (1998) 2635-2650 (method 10); C. J. Clopper and E. S. Pearson, Biometrika 26
(1934) 404-413. Items that share a prompt family are not independent: use
:func:`fuzzkv.oracles.bootstrap.mean_difference_bootstrap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from fuzzkv.errors import UsageError

Decision = Literal["within-margin", "beyond-margin", "undecided"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A point estimate with its confidence limits. ``confidence`` is a fraction, such as 0.95."""

    estimate: float
    low: float
    high: float
    confidence: float
    method: str

    def as_dict(self) -> dict[str, str]:
        """Plain data without floats: six-digit decimal strings."""
        numbers = {name: f"{getattr(self, name):.6g}" for name in ("estimate", "low", "high", "confidence")}
        return {**numbers, "method": self.method}

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """The two-by-two table of one pair of arms: both right, only candidate, only reference, both wrong."""

    both: int
    b: int
    c: int
    neither: int

    @property
    def n(self) -> int:
        """Number of paired items."""
        return self.both + self.b + self.c + self.neither

    @property
    def difference(self) -> float:
        """Accuracy of the candidate minus accuracy of the reference."""
        return (self.b - self.c) / self.n

    @property
    def cache_induced_failure_rate(self) -> float:
        """Share of the items that the reference passes and the candidate fails (NaN where it passes none)."""
        passed = self.both + self.c
        return self.c / passed if passed else math.nan

    def as_dict(self) -> dict[str, int]:
        """Raw counts."""
        return {"n": self.n, "both": self.both, "b": self.b, "c": self.c, "neither": self.neither}


def paired_counts(reference: Sequence[bool], candidate: Sequence[bool]) -> PairedCounts:
    """Count the pairs of two arms that ran the same items in the same order. FKV070 when the lengths
    differ.
    """
    if len(reference) != len(candidate) or not reference:
        raise UsageError(
            code="FKV070",
            value=f"{len(reference)} reference and {len(candidate)} candidate outcomes",
            reason="paired arms need the same items, at least one",
            cure="Run both arms on the same frozen requests.",
        )
    table = [0, 0, 0, 0]
    for ref, cand in zip(reference, candidate, strict=True):
        table[2 * (not cand) + (not ref)] += 1
    return PairedCounts(both=table[0], b=table[1], c=table[2], neither=table[3])


def failure_rates(
    reference: Sequence[bool], candidate: Sequence[bool], slices: Sequence[str]
) -> dict[str, PairedCounts]:
    """The paired counts of every slice (workload family, policy ...), and of ``"all"``; keys sorted."""
    groups: dict[str, tuple[list[bool], list[bool]]] = {}
    for ref, cand, name in zip(reference, candidate, slices, strict=True):
        pair = groups.setdefault(name, ([], []))
        pair[0].append(ref)
        pair[1].append(cand)
    result = {name: paired_counts(*groups[name]) for name in sorted(groups)}
    result["all"] = paired_counts(reference, candidate)
    return result


def tango_z(b: int, c: int, n: int, delta: float) -> float:
    """Tango's score statistic for the hypothesis that the difference of accuracies is ``delta``.

    Positive: the data lie above ``delta``. With ``delta = -margin``, z above the normal quantile of ``1 -
    alpha`` rejects "worse than the margin".
    """
    _check(b, c, n)
    big_b = -b - c + (2 * n - b + c) * delta
    root = math.sqrt(max(big_b * big_b + 8 * n * c * delta * (1 - delta), 0.0))
    # (root - B) / 2A cancels where B > 0: use the other form of the same root there.
    q = (root - big_b) / (4 * n) if big_b <= 0 else 2 * c * delta * (1 - delta) / (root + big_b)
    variance = n * (2 * q + delta * (1 - delta))
    distance = b - c - n * delta
    if variance <= 1e-12 * n:
        return 0.0 if abs(distance) < 1e-9 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def tango_ci(b: int, c: int, n: int, alpha: float = 0.10) -> Interval:
    """Tango's score interval, two-sided at ``1 - alpha``: each limit is one-sided at ``alpha / 2``."""
    _check(b, c, n)
    z = NormalDist().inv_cdf(1 - _fraction(alpha) / 2)
    estimate = (b - c) / n
    low = -1.0 if estimate == -1 else _bisect(lambda d: tango_z(b, c, n, d) - z, -1.0, estimate)
    high = 1.0 if estimate == 1 else _bisect(lambda d: tango_z(b, c, n, d) + z, estimate, 1.0)
    return Interval(estimate=estimate, low=low, high=high, confidence=1 - alpha, method="tango")


def tango_p(b: int, c: int, n: int, margin: float) -> float:
    """One-sided p-value of "worse than ``-margin``"; small means non-inferior. ``margin`` is a positive
    fraction.
    """
    return 1 - NormalDist().cdf(tango_z(b, c, n, -_fraction(margin)))


def decide(b: int, c: int, n: int, *, margin: float, alpha: float = 0.05) -> Decision:
    """Where the composition stands against the margin, each side at one-sided ``alpha`` (Tango).

    ``within-margin``: the lower limit lies above ``-margin`` (non-inferior). ``beyond-margin``: the upper
    limit lies below ``-margin`` (shown to be worse than allowed). ``undecided``: neither; more items are
    needed.
    """
    z = tango_z(b, c, n, -_fraction(margin))
    critical = NormalDist().inv_cdf(1 - _fraction(alpha))
    return "within-margin" if z > critical else "beyond-margin" if z < -critical else "undecided"


def newcombe_ci(both: int, b: int, c: int, neither: int, alpha: float = 0.10) -> Interval:
    """Newcombe's hybrid score interval for paired proportions (method 10), two-sided at ``1 - alpha``."""
    n = both + b + c + neither
    _check(b, c, n)
    z = NormalDist().inv_cdf(1 - _fraction(alpha) / 2)
    p1, p2 = (both + b) / n, (both + c) / n
    (low1, high1), (low2, high2) = _wilson(p1, n, z), _wilson(p2, n, z)
    product = (both + b) * (c + neither) * (both + c) * (b + neither)
    cross = both * neither - b * c
    cross_corrected = max(cross - n / 2, 0.0) if cross > 0 else cross
    phi = cross_corrected / math.sqrt(product) if product else 0.0
    below, above = (p1 - low1, high2 - p2), (high1 - p1, p2 - low2)
    down, up = (math.sqrt(max(x * x - 2 * phi * x * y + y * y, 0.0)) for x, y in (below, above))
    return Interval(
        estimate=p1 - p2, low=p1 - p2 - down, high=p1 - p2 + up, confidence=1 - alpha, method="newcombe-10"
    )


def clopper_pearson_upper(k: int, n: int, alpha: float = 0.05) -> float:
    """Exact one-sided upper limit, at confidence ``1 - alpha``, of a rate of which ``k`` of ``n`` were
    seen.
    """
    _check(k, 0, n)
    if k == n:
        return 1.0
    if k == 0:
        return float(1 - _fraction(alpha) ** (1 / n))
    from scipy.special import betaincinv

    return float(betaincinv(k + 1, n - k, 1 - _fraction(alpha)))


def clopper_pearson_lower(k: int, n: int, alpha: float = 0.05) -> float:
    """Exact one-sided lower limit of the same rate."""
    return 1 - clopper_pearson_upper(n - k, n, alpha)


def _wilson(p: float, n: int, z: float) -> tuple[float, float]:
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return centre - half, centre + half


def _bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of a falling function on [low, high]; an end where the function does not change sign."""
    for _ in range(60):
        middle = (low + high) / 2
        if function(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _check(b: int, c: int, n: int) -> None:
    if n <= 0 or b < 0 or c < 0 or b + c > n:
        raise UsageError(
            code="FKV070",
            value=f"counts {b} and {c} of {n}",
            reason="counts must be non-negative and sum to at most a positive number of items",
            cure="Check that both arms ran the same items.",
        )


def _fraction(value: float) -> float:
    if not 0 < value < 1:
        raise UsageError(
            code="FKV070",
            value=value,
            reason="a margin, level or rate must lie strictly between 0 and 1",
            cure="Give a fraction, such as 0.05 for 5 %.",
        )
    return value
