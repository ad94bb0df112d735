"""Hypothesis strategies for schedules of the model, and the way back, for a user's ``@given`` and ``@example``.

The same events that the compiled search runs.  Simpler draws make simpler events, so Hypothesis shrinks schedules
well; and because a schedule found by other means can be written as choices, Hypothesis can start from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from fuzzkv.semantics.schedule import Schedule
from fuzzkv.strategies import ways
from fuzzkv.strategies.model import LONGEST, model_space


def schedules(
    policies: Sequence[str], *, workload: Sequence[str] = (), max_events: int = LONGEST
) -> st.SearchStrategy[Schedule]:
    """Schedules for a set of policies (names, slot by slot).

    Draws workloads, faults and the moments at which each policy may act, all interleaved; ``workload`` names the
    extra events that the policies ask for (``Policy.workload``).
    """
    return ways.schedules(model_space(policies, workload), max_events)
