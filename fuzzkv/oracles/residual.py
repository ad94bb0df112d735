"""Residual risk of a search that ends: the chance that its next schedule shows a new class of failure.

Good and Turing (Biometrika 40, 1953): of independent draws, the share of classes that were seen once estimates
the chance that the next draw is of a class never seen.  Its upper limit here is the exact binomial one
(Clopper and Pearson) for so many singletons among so many draws: the estimate's sampling error, not a confidence
bound on what is missing, because plans are stratified and a search may look at it many times.  It speaks of the
schedules that this search draws, not of all there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuzzkv.oracles.paired import clopper_pearson_upper


@dataclass(frozen=True)
class Residual:
    """The estimate and its upper 95 % limit, from so many singletons among so many independent schedules."""

    singletons: int
    schedules: int

    @property
    def estimate(self) -> float:
        """The chance that the next schedule shows a new class; 1 before any was drawn."""
        return self.singletons / self.schedules if self.schedules else 1.0

    @property
    def upper(self) -> float:
        """Its one-sided upper 95 % limit."""
        return clopper_pearson_upper(self.singletons, self.schedules, 0.05) if self.schedules else 1.0
