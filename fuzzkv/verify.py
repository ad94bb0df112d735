"""``fuzzkv verify``: the solver's answer about a composition, without a search by chance.

Without the contract every set of the policies is searched event by event (``solver.ascent``), in a window of the machine;
what the solver finds counts only once the machine has run it, with every smaller set beside it.  Classes that the corpus
has for these very policies are looked up first: they run on the machine as well, and where a certificate is on file for
this text of the contract, their length is the shortest there is.  (With the contract enforced the command asks
``solver.induction`` instead, which proves.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fuzzkv.casebook import Recipe, outcomes, read_case
from fuzzkv.contract.layout import NR, PAGES
from fuzzkv.contract.policy import Policy
from fuzzkv.contract.schedule import FAIL, FINISH, LATE, Config, Event, Schedule
from fuzzkv.corpus import scan_corpus
from fuzzkv.errors import EXIT_CONFLICT, EXIT_ENVIRONMENT, EnvironmentFailure, UsageError
from fuzzkv.machine.plans import enabled
from fuzzkv.machine.readers import text_digest
from fuzzkv.machine.window import Window
from fuzzkv.oracles.verdict import findings, smallest_failing, subsets
from fuzzkv.solver.ascent import Ascent, Climb, Judged
from fuzzkv.solver.asking import Space
from fuzzkv.solver.unrolling import Target, Unrolling

Events = tuple[Event, ...]


@dataclass(frozen=True)
class Refuted:
    """A class that is broken: the schedule, and whether that is the shortest (``proved``: within the window that was
    searched, ``certified``: on the whole machine, ``known``: nobody showed it).
    """

    policies: tuple[str, ...]
    target: Target
    events: Events
    shortest: str
    case: str = ""


@dataclass(frozen=True)
class SetVerdict:
    """What is known of one set: ``refuted``, or ``bounded(k)``: every schedule of up to k events is safe but for the classes."""

    policies: tuple[str, ...]
    refuted: tuple[Refuted, ...]
    depth: int
    ending: str
    spurious: int
    questions: int

    @property
    def verdict(self) -> str:
        """The word for it."""
        return "refuted" if self.refuted else f"bounded({self.depth})" if self.depth else "unknown"


@dataclass
class Verified:
    """What came of all sets, the smaller ones first."""

    window: Window
    sets: list[SetVerdict] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def conflicts(self) -> list[Refuted]:
        """The classes of conflict of sets of two policies and more."""
        return [found for each in self.sets if len(each.policies) > 1 for found in each.refuted]

    @property
    def exit_code(self) -> int:
        """1 if something is refuted, else 3: a bound proves nothing beyond it."""
        return EXIT_CONFLICT if any(each.refuted for each in self.sets) else EXIT_ENVIRONMENT


@dataclass
class Verification:
    """One run of ``verify`` over all sets of some policies.

    ``window`` bounds what is searched; ``faults`` adds failed and late copies and ends of sessions to the events;
    ``enforce`` runs everything under the contract; no set is searched beyond ``deepest`` events.

    Policies in ordinary Python are known by their manifests (``solver.envelope``): what is found beside one is real, for
    the machine ran it, but that nothing is found holds only for acts of as many primitives as the envelope has.  Raises
    ``UsageError`` for a window that lacks a page or a session that a rule names by its number (FKV030).
    """

    policies: tuple[Policy, ...]
    config: Config
    window: Window
    faults: bool = False
    enforce: bool = False
    deepest: int = 64
    tell: Callable[[Climb], None] | None = None

    def __post_init__(self) -> None:
        kinds = enabled(self.policies)
        self.codes = tuple(c for c in kinds if self.faults or c not in (FAIL, LATE, FINISH))
        try:
            space = self._space((1 << len(self.policies)) - 1)
            looked = Unrolling(space.policies, space.config, space.window, space.codes)
            looked.extend()
            looked.extend()
        except IndexError as error:
            raise UsageError(
                code="FKV030",
                value=f"a window of {self.window.requests} x {self.window.pages} pages",
                reason=f"a rule names a place outside it ({error})",
                cure=f"Take the whole machine: --requests {NR} --pages {PAGES}.",
            ) from error

    def names(self, mask: int) -> tuple[str, ...]:
        """The policies of a set."""
        return tuple(policy.name for k, policy in enumerate(self.policies) if mask >> k & 1)

    def recipe(self, mask: int, events: Events) -> Recipe:
        """A schedule of a set as something to run."""
        chosen = tuple(policy for k, policy in enumerate(self.policies) if mask >> k & 1)
        return Recipe(Schedule(self.names(mask), events), chosen, self.config)

    def judge(self, mask: int, events: Events) -> Judged:
        """What the machine says: the Python reader runs the set and every smaller one."""
        recipe = self.recipe(mask, events)
        full = (1 << len(recipe.policies)) - 1
        arms = outcomes(recipe.histories(enforce=self.enforce))
        failing = tuple(sub for sub in subsets(full) if arms[sub].failed)
        if full not in smallest_failing(arms):
            return Judged(failing=failing)
        shown = [f.kind for f in findings(arms, full) if not f.consequence]
        return Judged(tuple((kind.invariant, kind.actor, kind.primitive) for kind in shown))

    def filed(self, corpus: Path) -> dict[int, dict[Target, tuple[Events, str, str]]]:
        """What the corpus has of these very policies and this configuration, if it still fails: by set and class the
        schedule, how short it is known to be and the case's id.
        """
        found: dict[int, dict[Target, tuple[Events, str, str]]] = {}
        if not corpus.is_dir():
            return found
        ours = {policy.name: policy for policy in self.policies}
        for case in scan_corpus(corpus)[0]:
            names = case["class"]["policies"]
            if not set(names) <= set(ours):
                continue
            try:
                recipe = read_case(case, allowed=ours)
            except UsageError:
                continue
            if recipe.config != self.config or any(p != ours[p.name] for p in recipe.policies):
                continue
            mask = sum(1 << k for k, policy in enumerate(self.policies) if policy.name in names)
            target = (case["class"]["invariant"], case["class"]["actor"] or None, case["class"]["action"])
            events = recipe.schedule.events
            if target not in self.judge(mask, events).shown:
                continue
            best = found.setdefault(mask, {})
            if target not in best or len(events) < len(best[target][0]):
                best[target] = (events, _standing(case, recipe), case["id"])
        return found

    def run(self, seconds: float, corpus: Path | None = None) -> Verified:
        """Look into the corpus, then search for so long.

        Raises ``EnvironmentFailure`` (FKV062) without Z3's program, and FKV073 where the readers disagree.
        """
        began = time.monotonic()
        known = {} if corpus is None else self.filed(corpus)
        masks = sorted(range(1, 1 << len(self.policies)), key=lambda mask: (mask.bit_count(), mask))
        spaces = {mask: self._space(mask) for mask in masks}
        ascent = Ascent(spaces, self.judge, deepest=self.deepest, tell=self.tell)
        for climb in ascent.climbs:
            climb.aside.update(known.get(climb.mask, {}))
        ascent.run(max(0.0, seconds - (time.monotonic() - began)))
        result = Verified(self.window)
        for climb in ascent.climbs:
            result.sets.append(self._verdict(climb, known.get(climb.mask, {})))
        result.seconds = time.monotonic() - began
        return result

    def _space(self, mask: int) -> Space:
        chosen = self.recipe(mask, ()).policies
        # More device frames than the sessions have pages cost the solver time; the machine judges with all of them.
        frames = min(self.config.device_frames, self.window.requests * self.window.pages)
        window = replace(self.window, device=frames, policies=len(chosen))
        return Space(
            policies=chosen,
            config=replace(self.config, device_frames=frames),
            window=window,
            codes=self.codes,
            enforce=self.enforce,
        )

    def _verdict(self, climb: Climb, known: dict[Target, tuple[Events, str, str]]) -> SetVerdict:
        names = self.names(climb.mask)
        if climb.ending == "disagreement":
            raise EnvironmentFailure(
                code="FKV073",
                value=" + ".join(names),
                reason="the machine doesn't see what the solver found",
                cure="Please report this: it is a fault of fuzzkv.",
            )
        refuted = [
            Refuted(names, target, events, standing, case)
            for target, (events, standing, case) in known.items()
        ]
        refuted += [Refuted(names, target, events, "proved") for target, events in climb.found.items()]
        refuted.sort(key=lambda found: (len(found.events), found.target[0], str(found.target)))
        return SetVerdict(names, tuple(refuted), climb.depth, climb.ending, climb.spurious, climb.questions)


def _standing(case: dict[str, Any], recipe: Recipe) -> str:
    """How short a case is known to be: a certificate counts only for the text that it is about."""
    certificate = case.get("certificate")
    if certificate is None or certificate["text"] != text_digest(recipe.policies):
        return "known"
    return "certified" if certificate["verdict"] == "certified" else "known"
