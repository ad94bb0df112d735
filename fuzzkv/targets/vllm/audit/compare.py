"""Two runs over the same tokens, compared: what they decide, and how far apart their logits are.

A run is a list of rows: the logits after the decision step, then after each of the next forced tokens, which
are the same in both runs. So the first row says what the session does next, and the others how long it keeps
apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

FACTOR: Final = 4
"""A difference counts beyond so many times the largest one between two caches that were both rebuilt."""
CEILING: Final = 1e-3
"""Noise is at most this part of the largest logit: two rebuilt caches that are further apart are no measure of it."""
ULP: Final = 2.0**-23
"""Relative distance of two neighbours in float32: the least noise that is assumed where none was measured."""

LogitRow = Any
"""One row of logits: a one-dimensional array of floats."""
Verdict = Literal["same", "numeric-tie", "differs", "refused"]


@dataclass(frozen=True)
class LogitDifference:
    """How a run on a retained cache (first of each pair) differs from one on a rebuilt cache (second).

    ``greedy``: the tokens decided; ``gap``: logits of the best minus the second-best, for each; ``decision``:
    the largest absolute difference of logits at the decision; ``forced``: the same over the forced tokens;
    ``kl``: Kullback-Leibler divergence of the decision from the rebuilt one's, in nats; ``agree`` of ``of``
    rows have the same best token; ``largest``: the largest absolute logit.
    """

    greedy: tuple[int, int]
    gap: tuple[float, float]
    decision: float
    forced: float
    kl: float
    agree: int
    of: int
    largest: float

    @property
    def most(self) -> float:
        """The largest difference of any row; nan if one isn't a number."""
        return float(np.max([self.decision, self.forced]))

    def as_json(self) -> dict[str, Any]:
        """Plain data, every measure a decimal string."""
        return {
            "greedy": list(self.greedy),
            "gap": [decimal(x) for x in self.gap],
            "decision": decimal(self.decision),
            "forced": decimal(self.forced),
            "kl": decimal(self.kl),
            "agree": self.agree,
            "of": self.of,
            "largest": decimal(self.largest),
        }


def compare(retained: Sequence[LogitRow], rebuilt: Sequence[LogitRow]) -> LogitDifference:
    """The difference of two runs of equally many rows. ValueError if they are not."""
    a, b = (np.asarray(rows, dtype=np.float64) for rows in (retained, rebuilt))
    if a.shape != b.shape or a.ndim != 2:
        raise ValueError(f"two runs of the same shape are compared, not {a.shape} and {b.shape}")
    apart = np.abs(a - b).max(axis=1)
    best_a, best_b = a.argmax(axis=1), b.argmax(axis=1)
    return LogitDifference(
        greedy=(int(best_a[0]), int(best_b[0])),
        gap=(_gap(a[0]), _gap(b[0])),
        decision=float(apart[0]),
        forced=float(apart[1:].max()) if len(apart) > 1 else 0.0,
        kl=_divergence(b[0], a[0]),
        agree=int((best_a == best_b).sum()),
        of=len(a),
        largest=float(np.abs(b).max()),
    )


def limit(twins: Sequence[tuple[float, float]]) -> float:
    """From (difference, largest logit) of pairs that were both rebuilt: the difference beyond which two runs
    differ."""
    measured = max((difference for difference, _ in twins), default=0.0)
    assumed = max((largest for _, largest in twins), default=0.0) * ULP
    return FACTOR * max(measured, assumed)


def judge(most: float, *, agree: bool, noise: float) -> Verdict:
    """The verdict on a difference: nan counts as one; another token within the noise is a tie."""
    if not most <= noise:
        return "differs"
    return "same" if agree else "numeric-tie"


def decimal(number: float) -> str:
    """A measure as a decimal string of six digits."""
    return format(number, ".6g")


def _gap(row: LogitRow) -> float:
    top = np.partition(row, -2)[-2:]
    return float(top[1] - top[0])


def _divergence(p: LogitRow, q: LogitRow) -> float:
    """KL(p || q) of two rows of logits, in nats."""
    log_p, log_q = (x - x.max() - np.log(np.exp(x - x.max()).sum()) for x in (p, q))
    found = float((np.exp(log_p) * (log_p - log_q)).sum())
    return 0.0 if found < 0 else found  # rounding; nan stays
