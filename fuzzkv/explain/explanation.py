"""The explanation of a case, of whichever target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuzzkv.cases.corpus import is_live
from fuzzkv.explain.formats import as_text
from fuzzkv.explain.graph import Explanation
from fuzzkv.explain.live import explain_live
from fuzzkv.explain.model import explain_model
from fuzzkv.semantics.policy import Policy


def explained(
    case: Mapping[str, Any], policies: Sequence[Policy] = (), *, guards: bool = True
) -> Explanation | None:
    """The explanation of a case, ``None`` if its invariant isn't broken any more.

    ``policies`` may be named beside the installed ones; ``guards``: of a case of the model, ask the solver too.  Raises as
    ``read_case`` does, and ``UsageError`` (FKV102) for a case of a live engine that carries no page-event log.
    """
    return explain_live(case) if is_live(case) else explain_model(case, policies, guards=guards)


def explain(case: Mapping[str, Any], policies: Sequence[Policy] = ()) -> str:
    """The same as plain text."""
    found = explained(case, policies)
    return as_text(found) if found is not None else fixed(case)


def fixed(case: Mapping[str, Any]) -> str:
    """What is said of a case that doesn't fail any more."""
    invariant = case["class"]["invariant"]
    return f"{case['id']}: {invariant} is no longer broken under this schedule; the case is fixed on this version."
