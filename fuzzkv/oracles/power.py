"""Power of the paired tests by simulating the exact decision rule: items that a claim needs, and the price of several looks.

The discordance rate drives the sample size, not the accuracy: measure it in a pilot, then simulate. A run
that can't reach the wanted power says so and claims nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fuzzkv.errors import UsageError
from fuzzkv.oracles.paired import Decision, decide

Side = Literal["within-margin", "beyond-margin"]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def tango_z_array(b: Ints, c: Ints, n: int, delta: float) -> Floats:
    """:func:`fuzzkv.oracles.paired.tango_z` over arrays of counts of the same shape."""
    big_b = -b - c + (2.0 * n - b + c) * delta
    root = np.sqrt(np.maximum(big_b * big_b + 8.0 * n * c * delta * (1 - delta), 0))
    variance = n * ((root - big_b) / (2.0 * n) + delta * (1 - delta))
    distance = b - c - n * delta
    safe = np.maximum(variance, 1e-12 * n)
    z: Floats = np.where((variance <= 1e-12 * n) & (np.abs(distance) < 1e-9), 0.0, distance / np.sqrt(safe))
    return z


def planned_alphas(alpha: float, looks: int, *, shape: float = 1.0) -> tuple[float, ...]:
    """One-sided level of each of ``looks`` equally spaced looks, together at most ``alpha``.

    The levels are increments of the spending function ``alpha * t ** shape`` (power family), added up by
    the union bound, which holds for any dependence between looks: ``shape`` 1 is Bonferroni, 3 spends late.
    Plan the looks before the run; a look that was not planned may not decide.
    """
    if looks < 1 or not 0 < alpha < 1 or shape <= 0:
        raise UsageError(
            code="FKV070",
            value=f"alpha {alpha}, {looks} looks, shape {shape}",
            reason="planned looks need 0 < alpha < 1, at least one look and a positive shape",
            cure="Use for example alpha 0.05 and 3 looks.",
        )
    spent = [alpha * (look / looks) ** shape for look in range(looks + 1)]
    return tuple(after - before for before, after in itertools.pairwise(spent))


def decide_looks(
    looks: Sequence[tuple[int, int, int]], *, margin: float, alphas: Sequence[float]
) -> tuple[Decision, int]:
    """The first decision over planned looks, with its number (from 1); undecided: the number of looks so far.

    ``looks[i]`` is the cumulative ``(b, c, n)`` at look ``i``; ``alphas`` come from :func:`planned_alphas`.
    """
    if len(looks) > len(alphas):
        raise UsageError(
            code="FKV070",
            value=f"look {len(looks)} of {len(alphas)} planned",
            reason="only looks that were planned before the run may decide",
            cure="Register more looks in the thresholds file before the run.",
        )
    for number, ((b, c, n), alpha) in enumerate(zip(looks, alphas, strict=False), start=1):
        decision = decide(b, c, n, margin=margin, alpha=alpha)
        if decision != "undecided":
            return decision, number
    return "undecided", len(looks)


def paired_power(
    n: int,
    p_b: float,
    p_c: float,
    *,
    margin: float,
    alpha: float = 0.05,
    side: Side = "within-margin",
    looks: int = 1,
    shape: float = 1.0,
    seed: int = 0,
    samples: int = 20_000,
) -> float:
    """Probability that the paired rule ends in ``side``, by simulation of multinomial counts.

    ``p_b`` and ``p_c`` are the true rates of "only candidate right" and "only reference right" (from a
    pilot), ``n`` the items at the last look. With several looks the first decision counts, as in
    :func:`decide_looks`.
    """
    if n < looks or p_b < 0 or p_c < 0 or p_b + p_c > 1:
        raise UsageError(
            code="FKV070",
            value=f"n {n}, rates {p_b} and {p_c}",
            reason="power needs an item per look and rates that sum to at most 1",
            cure="Take the rates from a pilot's raw counts.",
        )
    generator = np.random.default_rng(seed)
    ends = [n * look // looks for look in range(looks + 1)]
    b, c = np.zeros(samples, dtype=np.int64), np.zeros(samples, dtype=np.int64)
    open_runs, reached = np.ones(samples, dtype=bool), np.zeros(samples, dtype=bool)
    sign = 1 if side == "within-margin" else -1
    for start, end, level in zip(ends, ends[1:], planned_alphas(alpha, looks, shape=shape), strict=False):
        step = generator.multinomial(end - start, [p_b, p_c, max(0.0, 1 - p_b - p_c)], size=samples)
        b, c = b + step[:, 0], c + step[:, 1]
        z = tango_z_array(b, c, end, -margin)
        critical = NormalDist().inv_cdf(1 - level)
        reached |= open_runs & (sign * z > critical)
        open_runs &= np.abs(z) <= critical
    return float(reached.mean())


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """The least number of items that reaches the power wanted, or ``n`` None where ``limit`` items don't."""

    n: int | None
    power: float
    limit: int


def plan_items(
    p_b: float,
    p_c: float,
    *,
    margin: float,
    alpha: float = 0.05,
    power: float = 0.8,
    side: Side = "within-margin",
    looks: int = 1,
    limit: int = 5000,
    seed: int = 0,
    samples: int = 4000,
) -> SamplePlan:
    """The sample size for a claim: bisection over ``n`` on simulated power (a Monte Carlo error of about
    0.01).
    """

    def reach(n: int) -> float:
        return paired_power(
            n, p_b, p_c, margin=margin, alpha=alpha, side=side, looks=looks, seed=seed, samples=samples
        )

    best = reach(limit)
    if best < power:
        return SamplePlan(n=None, power=best, limit=limit)
    low, high = max(looks, 1), limit
    while low < high:
        middle = (low + high) // 2
        if reach(middle) >= power:
            high = middle
        else:
            low = middle + 1
    return SamplePlan(n=high, power=reach(high), limit=limit)


def formula_items(discordant: float, *, margin: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """The planning formula at a true difference of zero: a starting value for :func:`plan_items`."""
    normal = NormalDist()
    total = normal.inv_cdf(1 - alpha) + normal.inv_cdf(power)
    return math.ceil(total * total * discordant / (margin * margin))
