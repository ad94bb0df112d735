"""``fuzzkv exhaust``: every schedule of a scope, for some policies and all their subsets.

Subsets come first, the empty one before all: one that passes the whole scope need not be run beside a larger set any
more, because a control arm that can't fail says nothing.  What a larger set breaks is a conflict if every smaller one
passes under the same schedule; it is filed or printed only after the Python interpreter agreed.

What the answers mean: ``exhausted`` is a statement about every schedule of the scope, ``bounded(d)`` about those of up to d
events.  Witnesses are shortest: no schedule of the scope with fewer events shows the class.  A class is an invariant, its
actor and primitive; if two violations of one invariant arise in the same event only the first is one (a state has room for
one), so that another actor or primitive is found there only where some event brings it first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fuzzkv.cases.case import Case
from fuzzkv.cases.casebook import make_case, title_of
from fuzzkv.cases.corpus import save_case, write_index
from fuzzkv.core.results import FailureClass, mask_of
from fuzzkv.errors import (
    EXIT_CLEAN,
    EXIT_CONFLICT,
    EXIT_ENVIRONMENT,
    EXIT_INTERRUPTED,
    EnvironmentFailure,
    UsageError,
)
from fuzzkv.modelcheck.explorer import Explorer
from fuzzkv.modelcheck.results import Explored, ShortestSchedule
from fuzzkv.modelcheck.scope import Scope
from fuzzkv.oracles.conflict import Finding, findings, part_of_known, smallest_failing
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.targets.model.recipe import Recipe, narrowed, outcomes

MEMORY = 800 << 20
"""Bytes for the whole process if nothing else is said."""

Tell = Callable[[tuple[str, ...], Explored], None]


@dataclass(frozen=True)
class Conflict:
    """A class that the Python interpreter agreed to: the shortest schedule, what it shows, and one line about it."""

    recipe: Recipe
    finding: Finding
    title: str
    case: Case | None = None


@dataclass(frozen=True)
class SetResult:
    """The result of one subset of the policies; ``idle`` are those that never acted."""

    policies: tuple[str, ...]
    explored: Explored
    conflicts: tuple[Conflict, ...]
    idle: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """``exhausted``, ``vacuous`` (exhausted, and some policy never acted) or ``bounded(depth)``."""
        if self.explored.ending != "exhausted":
            return f"bounded({self.explored.depth})"
        return "vacuous" if self.idle else "exhausted"


@dataclass
class ExhaustResult:
    """The results of all subsets, in the order in which they were searched.

    ``events`` names the kinds of events that were enumerated, each with how many of it a schedule has at most (``None``:
    without number).  ``conflicts`` are the classes of conflict, without those that a smaller set shows in the same way.
    """

    events: dict[str, int | None] = field(default_factory=dict)
    sets: list[SetResult] = field(default_factory=list)
    interrupted: bool = False

    @property
    def conflicts(self) -> list[Conflict]:
        """The conflicts of sets of two policies and more."""
        return [c for found in self.sets if len(found.policies) > 1 for c in found.conflicts]

    @property
    def single(self) -> list[str]:
        """The policies that fail alone."""
        return [found.policies[0] for found in self.sets if len(found.policies) == 1 and found.conflicts]

    @property
    def exit_code(self) -> int:
        """0 if all was exhausted and nothing found, 1 for a conflict, 3 if the search proves nothing, 130 if interrupted."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        if self.conflicts:
            return EXIT_CONFLICT
        # A policy that has nothing to do alone may well have beside the others, so the whole set says who was idle.
        proved = all(found.explored.ending == "exhausted" for found in self.sets) and not self.sets[-1].idle
        return EXIT_CLEAN if proved and not self.single else EXIT_ENVIRONMENT


def parse_memory(text: str) -> int:
    """``"800M"`` or ``"2G"`` to bytes.  Raises ``UsageError`` (FKV030) for anything else."""
    match = re.fullmatch(r"(\d{1,9})\s*([KMG])i?B?", text.strip(), flags=re.IGNORECASE)
    if match is None:
        raise UsageError(
            code="FKV030",
            value=f"--memory {text!r}",
            reason="it is not a number with a unit",
            cure="Write megabytes or gigabytes, such as 800M or 2G.",
        )
    return int(match[1]) << {"K": 10, "M": 20, "G": 30}[match[2].upper()]


def parse_sizes(text: str) -> tuple[int, ...]:
    """``"8,12"`` to ``(8, 12)``.  Raises ``UsageError`` (FKV030) for anything else."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise UsageError(
            code="FKV030",
            value=f"--tick-sizes {text!r}",
            reason="it is not a list of whole numbers",
            cure="Write ticks of virtual time, such as 8,12.",
        )
    return tuple(sorted({int(part) for part in parts}))


def exhaust(
    policies: Sequence[Policy],
    config: Config,
    scope: Scope,
    *,
    enforce: bool = False,
    memory: int = MEMORY,
    depth: int | None = None,
    seconds: float | None = None,
    corpus: Path | None = None,
    tell: Tell | None = None,
) -> ExhaustResult:
    """Search every schedule of a scope for every subset of some policies, the smaller ones first.

    Every subset meets the same events, those that any of the policies asks for among them.

    ``memory`` is in bytes and bounds the whole process; ``depth`` bounds the events of a schedule, ``seconds`` the time of
    all searches together.  With ``corpus`` conflicts are filed there, as a hunt does.  ``tell`` hears of progress.  Raises
    ``UsageError`` for policies in free Python (FKV038) and numbers out of range, and ``EnvironmentFailure`` (FKV073) if the
    Python interpreter doesn't see what the compiled one found.
    """
    explorer = Explorer(policies, config, scope, memory=memory, enforce=enforce)
    result = ExhaustResult(scope.budgets(explorer.extras))
    safe: set[int] = set()
    known: set[FailureClass] = set()
    until = None if seconds is None else time.monotonic() + seconds
    masks = sorted(range(1 << len(policies)), key=lambda mask: (mask.bit_count(), mask))
    for number, mask in enumerate(masks):
        names = tuple(policy.name for k, policy in enumerate(policies) if mask >> k & 1)
        # What a small set leaves of its share is for the larger ones.
        share = None if until is None else max(0.0, until - time.monotonic()) / (len(masks) - number)
        explored = explorer.explore(
            mask,
            safe=safe,
            depth=depth,
            seconds=share,
            tell=None if tell is None else partial(tell, names),
        )
        conflicts = []
        for witness in explored.witnesses:
            known.add(witness.failure_class)
            if not part_of_known(witness.failure_class, known):
                conflicts.append(_agreed(policies, config, witness, explored.states, enforce, corpus))
        if explored.ending == "exhausted" and not explored.witnesses:
            safe.add(mask)
        idle = tuple(p.name for k, p in enumerate(policies) if mask >> k & 1 and not explored.acted >> k & 1)
        result.sets.append(SetResult(names, explored, tuple(conflicts), idle))
        if explored.ending == "interrupted":
            result.interrupted = True
            break
    if corpus is not None and any(conflict.case for conflict in result.conflicts):
        write_index(corpus)
    return result


def _agreed(
    policies: Sequence[Policy],
    config: Config,
    witness: ShortestSchedule,
    states: int,
    enforce: bool,
    corpus: Path | None,
) -> Conflict:
    """The conflict of a witness, once the Python interpreter has seen it; filed if it is one of two policies or more."""
    wanted = witness.failure_class
    mask = mask_of([policy.name for policy in policies], wanted.policies)
    chosen, schedule = narrowed(policies, mask, witness.events)
    recipe = Recipe(schedule, chosen, config)
    arms = outcomes(recipe.histories(enforce=enforce))
    full = (1 << len(chosen)) - 1
    found = [
        finding
        for finding in (findings(arms, full, schedule.policies) if full in smallest_failing(arms) else [])
        if finding.failure_class == wanted and not finding.consequence
    ]
    if not found:
        names = " + ".join(schedule.policies)
        raise EnvironmentFailure(
            code="FKV073",
            value=f"{wanted.invariant} of {names}",
            reason="the Python interpreter doesn't see what the compiled one found",
            cure="Please report this: it is a fault of fuzzkv.",
        )
    case = None
    if corpus is not None and len(chosen) > 1:
        # With the contract enforced the same schedule may show nothing without it; then there is no case to file.
        made = make_case(recipe, wanted.invariant, seed=0, schedules=states)
        case = save_case(made, corpus).case if made is not None else None
    return Conflict(recipe, found[0], title_of(schedule.policies, found[0]), case)
