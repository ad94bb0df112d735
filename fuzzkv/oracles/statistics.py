"""The statistics of verdicts, in one place to import from.

:mod:`fuzzkv.oracles.paired` holds paired binary outcomes and exact limits, :mod:`fuzzkv.oracles.bootstrap`
resampling by whole requests and contexts, :mod:`fuzzkv.oracles.power` sample sizes and planned looks.
"""

from fuzzkv.oracles.bootstrap import mean_difference_bootstrap, p99_bootstrap, p99_difference_bootstrap
from fuzzkv.oracles.paired import (
    Decision,
    Interval,
    PairedCounts,
    clopper_pearson_lower,
    clopper_pearson_upper,
    decide,
    failure_rates,
    newcombe_ci,
    paired_counts,
    tango_ci,
    tango_p,
    tango_z,
)
from fuzzkv.oracles.power import (
    SamplePlan,
    decide_looks,
    formula_items,
    paired_power,
    plan_items,
    planned_alphas,
)

__all__ = [
    "Decision",
    "Interval",
    "PairedCounts",
    "SamplePlan",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "decide",
    "decide_looks",
    "failure_rates",
    "formula_items",
    "mean_difference_bootstrap",
    "newcombe_ci",
    "p99_bootstrap",
    "p99_difference_bootstrap",
    "paired_counts",
    "paired_power",
    "plan_items",
    "planned_alphas",
    "tango_ci",
    "tango_p",
    "tango_z",
]
