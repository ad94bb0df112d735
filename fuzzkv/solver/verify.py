"""``fuzzkv verify``: the solver's answer about a composition, without a search by chance.

Without the contract classes come from three places, and all of them are run on the machine before they count, with every
smaller set beside: what the corpus has for these very policies (where a certificate is on file for this text of the
contract, their length is the shortest there is); a short compiled search (``seeding``); and the solver's own search of every
set, event by event (``solver.ascent``), in a window of the machine.  Those whose length nobody has shown to be the shortest
the solver is asked about one by one (``solver.refuting``).  (With the contract enforced the command asks
``solver.induction`` instead, which proves.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fuzzkv.cases.corpus import scan_corpus
from fuzzkv.errors import EXIT_CONFLICT, EXIT_ENVIRONMENT, EXIT_INTERRUPTED, EnvironmentFailure, UsageError
from fuzzkv.oracles.conflict import findings, smallest_failing
from fuzzkv.semantics.contract.minimal import subsets
from fuzzkv.semantics.layout import NR, PAGES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import FAIL, FINISH, LATE, Config, Event, Schedule
from fuzzkv.simulator.interpreters import text_digest
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.ascent import Ascent, Climb, Judged
from fuzzkv.solver.asking import Space
from fuzzkv.solver.certify import Part, shortest_in, used
from fuzzkv.solver.refuting import Claim, Refuting
from fuzzkv.solver.seeds import first_schedules
from fuzzkv.solver.unrolling import Breach, Unrolling
from fuzzkv.strategies.covering_arrays import enabled
from fuzzkv.targets.model.recipe import Recipe, outcomes, read_case

Events = tuple[Event, ...]
SEEDS, SOWING, SHORT = 100, 0.1, 12
"""Short searches at most, the share of the time that those after the first may take, and events up to which they aren't
needed.
"""
FIRST = 4
"""Events of every schedule that are looked at before classes are asked about one by one: some seconds."""
REFUTING = 0.8
"""The share of the time left after that for these."""


@dataclass(frozen=True)
class Refuted:
    """A class that is broken: the schedule, and whether that is the shortest (``proved``: within the window that was
    searched, ``kept``: the corpus says so of this window, ``certified``: on the whole machine, ``known``: nobody showed it).

    ``needs`` are the sessions and pages of each that the schedule uses, if that is more than the window has: then a shorter
    one may lie beyond it as well.
    """

    policies: tuple[str, ...]
    target: Breach
    events: Events
    shortest: str
    case: str = ""
    needs: tuple[int, int] | None = None

    @property
    def settled(self) -> bool:
        """Whether the schedule is known to be the shortest, in the window or on the whole machine."""
        return self.shortest == "certified" or (self.shortest != "known" and self.needs is None)


KnownClasses = dict[int, dict[Breach, Refuted]]
"""By set (mask) and class."""


@dataclass(frozen=True)
class SetVerdict:
    """The result of one set: ``refuted``, or ``bounded(k)``: every schedule of up to k events is safe but for the classes."""

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
    """The results of all sets, the smaller ones first."""

    window: Window
    sets: list[SetVerdict] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def conflicts(self) -> list[Refuted]:
        """The classes of conflict of sets of two policies and more."""
        return [found for each in self.sets if len(each.policies) > 1 for found in each.refuted]

    @property
    def exit_code(self) -> int:
        """1 if something is refuted, else 3: a bound proves nothing beyond it; 130 after an interrupt."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_CONFLICT if any(each.refuted for each in self.sets) else EXIT_ENVIRONMENT


@dataclass
class Verification:
    """One run of ``verify`` over all sets of some policies.

    ``window`` bounds what is searched; ``faults`` adds failed and late copies and ends of sessions to the events;
    ``enforce`` runs everything under the contract; no set is searched beyond ``deepest`` events.  ``tell`` hears in words how
    it goes, ``climbed`` of every answer of the search of all schedules, ``settled`` of a class as soon as its schedule is
    shown to be the shortest, or a shorter one is found.

    Policies in ordinary Python are known by their manifests (``solver.envelope``): what is found beside one is real, for
    the machine ran it, but that nothing is found holds only for acts of as many primitives as the over-approximation has.  So no
    schedule of such a set is said to be the shortest.  Raises
    ``UsageError`` for a window that lacks a page or a session that a rule names by its number (FKV030).
    """

    policies: tuple[Policy, ...]
    config: Config
    window: Window
    faults: bool = False
    enforce: bool = False
    deepest: int = 64
    tell: Callable[[str], None] | None = None
    climbed: Callable[[Climb], None] | None = None
    settled: Callable[[Refuted], None] | None = None

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
        """The machine's verdict: the Python interpreter runs the set and every smaller one."""
        recipe = self.recipe(mask, events)
        full = (1 << len(recipe.policies)) - 1
        arms = outcomes(recipe.histories(enforce=self.enforce))
        failing = tuple(sub for sub in subsets(full) if arms[sub].failed)
        if full not in smallest_failing(arms):
            return Judged(failing=failing)
        shown = [f.failure_class for f in findings(arms, full, recipe.schedule.policies) if not f.consequence]
        return Judged(tuple((kind.invariant, kind.actor, kind.action) for kind in shown))

    def filed(self, corpus: Path) -> KnownClasses:
        """What the corpus has of these very policies and this configuration, if it still fails: by set and class, with
        how short its schedule is known to be.
        """
        found: KnownClasses = {}
        for mask, one in self.ours(corpus):
            best = found.setdefault(mask, {})
            if one.target not in best or len(one.events) < len(best[one.target].events):
                best[one.target] = one
        return found

    def ours(
        self, corpus: Path, of: tuple[str, ...] | None = None, only: Breach | None = None
    ) -> Iterator[tuple[int, Refuted]]:
        """Every case of these very policies and this configuration that still fails, with its set; or those of one set, or
        of one class.
        """
        if not corpus.is_dir():
            return
        ours = {policy.name: policy for policy in self.policies}
        for case in scan_corpus(corpus)[0]:
            names = tuple(case["class"]["policies"])
            target = (case["class"]["invariant"], case["class"]["actor"] or None, case["class"]["action"])
            if not set(names) <= set(ours) or of not in (None, names) or only not in (None, target):
                continue
            try:
                recipe = read_case(case, allowed=ours)
            except UsageError:
                continue
            if recipe.config != self.config or any(p != ours[p.name] for p in recipe.policies):
                continue
            mask = sum(1 << k for k, policy in enumerate(self.policies) if policy.name in names)
            events = recipe.schedule.events
            if target in self.judge(mask, events).shown:
                yield mask, Refuted(names, target, events, self._standing(case, recipe), case["id"])

    @property
    def part(self) -> Part:
        """The part of the machine that is searched."""
        space = self._space((1 << len(self.policies)) - 1)
        return Part.of(space.window, self.codes, idle_first=False)

    def _standing(self, case: Mapping[str, Any], recipe: Recipe) -> str:
        """How short a case is known to be: a certificate counts only for the text that it is about."""
        certificate, text = case.get("certificate"), text_digest(recipe.policies)
        if certificate is None or certificate["text"] != text:
            return "known"
        if any(policy.free for policy in recipe.policies):
            return "known"
        if certificate["verdict"] == "certified":
            return "certified"
        return "kept" if shortest_in(case, self.part, text) else "known"

    def run(self, seconds: float, corpus: Path | None = None, *, seeded: bool = False) -> Verified:
        """Look into the corpus, search by chance (if ``seeded``), then let the solver search and refute for so long.

        An interrupt ends it: what is known by then is the result.
        Raises ``EnvironmentFailure`` (FKV062) without Z3's program, and FKV073 where the interpreters disagree.
        """
        began = time.monotonic()

        def left(part: float = 1.0) -> float:
            return max(0.0, (seconds - (time.monotonic() - began)) * part)

        known = {} if corpus is None else self.filed(corpus)
        masks = sorted(range(1, 1 << len(self.policies)), key=lambda mask: (mask.bit_count(), mask))
        spaces = {mask: self._space(mask) for mask in masks}
        ascent = Ascent(spaces, self.judge, tell=self._climbed)
        result = Verified(self.window)
        try:
            if seeded:
                self._seed(known, seconds, left)
            for climb in ascent.climbs:
                classes = known.get(climb.mask, {})
                climb.aside.update({target: len(found.events) for target, found in classes.items()})
            ascent.run(left(), min(FIRST, self.deepest) if seeded else self.deepest)
            if seeded:
                self._refute(known, spaces, ascent.climbs, left(REFUTING))
                ascent.run(left(), self.deepest)
        except KeyboardInterrupt:
            result.interrupted = True
        for climb in ascent.climbs:
            if result.interrupted and climb.ending in ("", "time", "depth"):
                climb.ending = "interrupt"
            result.sets.append(self._verdict(climb, known.get(climb.mask, {})))
        result.seconds = time.monotonic() - began
        return result

    def _seed(self, known: KnownClasses, seconds: float, left: Callable[[], float]) -> None:
        self._sow(known, 0, lambda: left() < seconds / 2)
        # Another seed's schedules may shrink to shorter ones, which costs less than to ask for them.
        for seed in range(1, SEEDS):
            if left() < seconds * (1 - SOWING) or not self._long(known):
                break
            self._sow(known, seed, lambda: left() < seconds * (1 - SOWING))

    @staticmethod
    def _long(known: KnownClasses) -> bool:
        """Whether there is a class about whose length the solver wouldn't soon be done."""
        classes = [found for classes in known.values() for found in classes.values()]
        return any(found.shortest == "known" and len(found.events) > SHORT for found in classes)

    def _sow(self, known: KnownClasses, seed: int, late: Callable[[], bool]) -> None:
        """Add what a short search finds: classes that aren't known, and shorter schedules of those that are."""

        def drawn(schedules: int, classes: int) -> None:
            self._say(f"a short search: {schedules:,} schedules, classes of failures: {classes}")

        found = first_schedules(
            self.policies, self.config, enforce=self.enforce, seed=seed, tell=drawn, late=late
        )
        for mask, classes in found.items():
            for target, events in classes.items():
                old = known.get(mask, {}).get(target)
                shorter = old is None or len(events) < len(old.events)
                if shorter and target in self.judge(mask, events).shown:
                    known.setdefault(mask, {})[target] = Refuted(self.names(mask), target, events, "known")

    def _refute(
        self, known: KnownClasses, spaces: dict[int, Space], climbs: Sequence[Climb], seconds: float
    ) -> None:
        """Ask about those classes, one by one, that the search of every schedule didn't come to."""
        claims = []
        for climb in climbs:
            if climb.space.wide:
                continue
            for target, found in known.get(climb.mask, {}).items():
                if (
                    found.shortest == "known"
                    and target not in climb.found
                    and not self._gone_through(climb, found)
                ):
                    claims.append(Claim(climb.mask, target, found.events))
        Refuting(spaces, claims, self.judge, tell=lambda claim: self._answered(known, claim)).run(seconds)
        for claim in claims:
            if claim.denied:
                raise self._disagreement(claim.mask)

    @staticmethod
    def _gone_through(climb: Climb, found: Refuted) -> bool:
        """Whether a climb asked for a class in all of fewer events; it doesn't ask for those that a part of its set has."""
        length = len(found.events)
        return climb.aside.get(found.target, 0) >= length and climb.depth >= length - 1

    def _answered(self, known: KnownClasses, claim: Claim) -> None:
        old = known[claim.mask][claim.target]
        case = old.case if claim.events == old.events else ""
        word = "proved" if claim.shown else "known"
        new = replace(old, events=claim.events, shortest=word, case=case)
        known[claim.mask][claim.target] = new
        if new != old and self.settled is not None:
            self.settled(new)
        self._refuted(claim)

    def _climbed(self, climb: Climb) -> None:
        if self.climbed is not None:
            self.climbed(climb)
        names = " + ".join(self.names(climb.mask))
        self._say(f"{names}: every schedule of {climb.depth} events, {len(climb.found)} new classes")

    def _refuted(self, claim: Claim) -> None:
        names, length = " + ".join(self.names(claim.mask)), len(claim.events)
        shown = f"none shorter than {length} events" if claim.shown else f"{length} events"
        self._say(f"{names}: {claim.target[0]}, {shown}")

    def _say(self, text: str) -> None:
        if self.tell is not None:
            self.tell(text)

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

    def _needs(self, mask: int, events: Events) -> tuple[int, int] | None:
        window = used(self.recipe(mask, events))
        inside = window.requests <= self.window.requests and window.pages <= self.window.pages
        return None if inside else (window.requests, window.pages)

    def _disagreement(self, mask: int) -> EnvironmentFailure:
        return EnvironmentFailure(
            code="FKV073",
            value=" + ".join(self.names(mask)),
            reason="the machine doesn't see what the solver found",
            cure="Please report this: it is a fault of fuzzkv.",
        )

    def _verdict(self, climb: Climb, known: dict[Breach, Refuted]) -> SetVerdict:
        names = self.names(climb.mask)
        if climb.ending == "disagreement":
            raise self._disagreement(climb.mask)
        word = "known" if climb.space.wide else "proved"
        refuted = [
            replace(found, shortest=word)
            if found.shortest == "known" and self._gone_through(climb, found)
            else found
            for found in known.values()
            if found.target not in climb.found
        ]
        refuted += [Refuted(names, target, events, word) for target, events in climb.found.items()]
        refuted = [replace(found, needs=self._needs(climb.mask, found.events)) for found in refuted]
        refuted.sort(key=lambda found: (len(found.events), found.target[0], str(found.target)))
        return SetVerdict(names, tuple(refuted), climb.depth, climb.ending, climb.spurious, climb.questions)
