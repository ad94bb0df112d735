"""The outcome of a hunt: its word, its exit code, and the remarks of its summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fuzzkv.core.options import CORPUS, HuntOptions
from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT, EXIT_INTERRUPTED
from fuzzkv.events import Outcome
from fuzzkv.search.admission import Admission
from fuzzkv.search.loop import Search
from fuzzkv.semantics.layout import GOALS

INTERACTIONS = (
    "quantised_quoted",
    "condemned_away",
    "dropped_quoted",
    "copies_of_two",
    "losses_of_two",
    "page_of_two",
)
"""Goals of which a hunt of several policies must reach one: two policies touched each other."""


@dataclass(frozen=True)
class HuntOutcome:
    """An outcome with its exit code and the words for it."""

    outcome: Outcome
    exit_code: int
    text: str


def interacted(goals: Mapping[str, int]) -> bool:
    """Whether the policies of a search touched each other."""
    return any(goals[name] for name in INTERACTIONS)


def judge(admission: Admission, search: Search | None, *, conflict: bool, interrupted: bool) -> HuntOutcome:
    """The judgement of a hunt; ``search`` is ``None`` if it came to none, ``conflict`` says whether there are cases."""
    if interrupted:
        return HuntOutcome("interrupted", EXIT_INTERRUPTED, "What was found so far is filed.")
    if conflict:
        return HuntOutcome("conflict", EXIT_CONFLICT, remarks(search))
    if admission.single:
        alone = ", ".join(admission.single)
        text = f"single-policy: {alone} fails alone, which is no conflict. Mend it first."
        return HuntOutcome("failed", EXIT_ENVIRONMENT, text)
    if admission.idle:
        text = f"{' and '.join(admission.idle)} never acted: this hunt shows nothing about it."
        return HuntOutcome("vacuous", EXIT_ENVIRONMENT, text)
    if search is not None and len(search.engine.names) > 1:
        tally = search.tally
        if not (interacted(tally.goals) or tally.refused):
            text = "The policies never touched each other: this hunt shows nothing."
            return HuntOutcome("vacuous", EXIT_ENVIRONMENT, text)
    return HuntOutcome("clean", EXIT_CLEAN, remarks(search))


def remarks(search: Search | None) -> str:
    """What a summary says besides: interactions reached or, with the contract, capacity still freed (dC)."""
    if search is None or len(search.engine.names) < 2:
        return ""
    if search.enforced:
        freed, without = search.freed[True], search.freed[False]
        share = 100 * freed / without if without else 0.0
        return (
            f"Capacity still freed under the contract (dC): {freed:.2f} device frames on average, {share:.0f} % of "
            f"the {without:.2f} that the same policies free without it."
        )
    goals = search.tally.goals
    missed = [GOALS[name] for name, times in goals.items() if not times]
    rest = f"; never: {', '.join(missed)}" if missed else ""
    return f"Interactions that were to be reached: {len(goals) - len(missed)} of {len(goals)}{rest}."


def flags_of(options: HuntOptions) -> str:
    """What the printed commands need besides a case's id."""
    paths = ",".join(name for name in options.policies if ":" in name)
    elsewhere = f" --corpus {options.corpus}" if options.corpus != CORPUS else ""
    return elsewhere + (f" --policies {paths}" if paths else "")
