"""From witnesses to filed cases: each class of failure is shrunk, checked by the Python interpreter and written, once.

A kind is filed quickly as soon as it is seen (:meth:`Filing.keep`), so that a kill loses nothing, and
thoroughly in the end (:meth:`Filing.settle`), which replaces the quick file.  A hunt and a gate file in this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fuzzkv.cases.casebook import make_case
from fuzzkv.cases.corpus import save_case, write_index
from fuzzkv.cases.shrink import Events, shrink
from fuzzkv.core.results import FailureClass, mask_of, names_of
from fuzzkv.errors import FuzzkvError
from fuzzkv.events import CaseFiled, Event, Listener, Progress, ShrinkStep, WarningRaised, emit
from fuzzkv.oracles.conflict import part_of_known
from fuzzkv.semantics.contract.minimal import subsets
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.bulk.tally import Tally
from fuzzkv.targets.model.recipe import Recipe, narrowed


@dataclass(frozen=True)
class Witness:
    """A schedule that shows a class of failure on a machine of this configuration.

    ``drawn`` schedules had been looked at by then; ``worse`` says that bytes ended up worse than in every subset.
    """

    failure_class: FailureClass
    events: Events
    config: Config
    drawn: int = 0
    worse: bool = False

    def better_than(self, other: Witness) -> bool:
        """Whether this one is worth more: it does real damage, then it is shorter."""
        return (self.worse, -len(self.events)) > (other.worse, -len(other.events))


@dataclass(frozen=True)
class Filed:
    """A kind with its case, the recipe that shows it, and where it is on the disk (``None``: it couldn't be
    written).
    """

    failure_class: FailureClass
    case: Mapping[str, Any]
    recipe: Recipe
    path: Path | None


def witnesses(tally: Tally, config: Config) -> Iterator[Witness]:
    """The kinds that a search has met so far, each with its best schedule."""
    for found in tally.classes:
        yield Witness(found.failure_class, found.events, config, tally.drawn, found.worse)


@dataclass
class Filing:
    """Files the classes of failures of one policy set into ``folder``; ``engine`` is of the whole set.

    ``filed`` holds by kind what is written, the latest last, and what couldn't be; ``broken`` the kinds whose
    schedule the Python interpreter didn't confirm (FKV073).  With ``damage`` a shrunk case keeps bytes that end up
    worse than in every subset, which is what an engine can confirm; without, the shortest schedule wins.  Errors
    of writing that are ``forgiven`` are told, and their case is in ``filed`` all the same; any other is raised.
    """

    engine: BulkEngine
    folder: Path
    seed: int
    listeners: Sequence[Listener] = ()
    forgiven: type[FuzzkvError] = FuzzkvError
    damage: bool = True
    filed: dict[FailureClass, Filed] = field(default_factory=dict)
    broken: list[FailureClass] = field(default_factory=list)
    _early: dict[FailureClass, tuple[Filed, bool]] = field(default_factory=dict)
    _keeping: Filed | None = None

    def __post_init__(self) -> None:
        self._engines = {self.engine.config: self.engine}

    def agrees(self, witness: Witness) -> bool:
        """Whether the Python interpreter comes to the same states event by event, as it did for this kind so far; a hit
        of a search counts only then.
        """
        kind = witness.failure_class
        if kind not in self.broken and not self.engine_for(witness.config).agrees(
            witness.events, self._mask(kind)
        ):
            self._disagree(kind)
        return kind not in self.broken

    def keep(self, witness: Witness) -> None:
        """File a new kind at once, shrunk by our own passes only."""
        events = self._shrunk(witness, thorough=False)
        done = self._made(witness, events) if events is not None else None
        if done is None:
            return
        self._keeping = done
        # If the writing fails now, that is told when the kind is filed for good.
        with suppress(self.forgiven):
            saved = save_case(dict(done.case), self.folder)
            self._early[witness.failure_class] = (replace(done, case=saved.case, path=saved.path), saved.new)
        self._keeping = None

    def settle(self, found: Iterable[Witness], besides: Iterable[FailureClass] = ()) -> None:
        """Shrink every kind thoroughly and file it, from the first of its witnesses that can be, in the order given.

        Consequences of other violations, and kinds that a smaller set has too (one of these, or one of the known
        kinds ``besides``), are none of their own.
        """
        wanted: dict[FailureClass, list[Witness]] = {}
        for witness in found:
            wanted.setdefault(witness.failure_class, []).append(witness)
        known = {*wanted, *besides}
        chosen = [tries for kind, tries in wanted.items() if not part_of_known(kind, known)]
        for number, tries in enumerate(chosen, 1):
            self._settle_one(tries, number, len(chosen))
        self._tidy()

    def interrupted(self) -> None:
        """What was filed at once is what was found, where nothing better is filed yet."""
        if self._keeping is not None:
            # The interrupt may have come between writing the file and taking note of it.
            path = self.folder / f"{self._keeping.case['id']}.json"
            if path.exists():
                self._early[self._keeping.failure_class] = (replace(self._keeping, path=path), False)
        for kind, (early, new) in self._early.items():
            if kind not in self.filed:
                self.filed[kind] = early
                self._tell(CaseFiled(early.case["id"], str(early.path), new, early.case))
        self._tidy()

    def file(self, done: Filed) -> None:
        """Write a case, or write it anew with what was added to it."""
        try:
            saved = save_case(dict(done.case), self.folder)
        except self.forgiven as error:
            self._note(replace(done, path=None))
            text = f"{done.case['id']} is not filed: {error.reason}"
            self._tell(WarningRaised(error.code, text, error.cure))
            return
        self._note(replace(done, case=saved.case, path=saved.path))
        new = saved.new or any(new and early.path == saved.path for early, new in self._early.values())
        self._tell(CaseFiled(saved.case["id"], str(saved.path), new, saved.case))

    def index(self) -> None:
        """Write the folder's index, if anything was filed."""
        if self.filed:
            with suppress(self.forgiven):  # an index is made anew by 'fuzzkv corpus index'
                write_index(self.folder)

    def of(self, kind: FailureClass) -> Filed | None:
        """What was filed for this kind, or for a smaller set that fails in the same way."""
        mask = self._mask(kind)
        for part in (mask, *subsets(mask)):
            found = self.filed.get(kind.of(names_of(self.engine.names, part)))
            if found is not None:
                return found
        return None

    def engine_for(self, config: Config) -> BulkEngine:
        """The same policies on a machine of this configuration."""
        if config not in self._engines:
            self._engines[config] = BulkEngine(self.engine.policies, config)
        return self._engines[config]

    def _settle_one(self, tries: Sequence[Witness], number: int, of: int) -> None:
        for witness in tries:
            events = self._shrunk(witness, thorough=True)
            if witness is tries[0]:
                self._tell(Progress("shrink", number, of, classes=len(self.filed)))
            if events is None:
                continue
            names, before = witness.failure_class.policies, len(witness.events)
            self._tell(ShrinkStep(names, witness.failure_class.invariant, before, len(events), number))
            done = self._made(witness, events)
            if done is not None:
                self.file(done)
                return
            self._disagree(witness.failure_class)

    def _shrunk(self, witness: Witness, *, thorough: bool) -> Events | None:
        engine = self.engine_for(witness.config)
        shrunk = shrink(engine, witness.failure_class, witness.events, thorough=thorough, damage=self.damage)
        if shrunk is None and thorough:
            self._disagree(witness.failure_class)
        return None if shrunk is None or shrunk[1].consequence else shrunk[0]

    def _made(self, witness: Witness, events: Events) -> Filed | None:
        """The case of a shrunk schedule, or ``None`` if the Python interpreter doesn't see the failure in it."""
        kind = witness.failure_class
        chosen, small = narrowed(self.engine.policies, self._mask(kind), events)
        recipe = Recipe(small, chosen, witness.config)
        case = make_case(recipe, kind.invariant, seed=self.seed, schedules=witness.drawn)
        return None if case is None else Filed(kind, case, recipe, None)

    def _mask(self, kind: FailureClass) -> int:
        return mask_of(self.engine.names, kind.policies)

    def _note(self, done: Filed) -> None:
        self.filed.pop(done.failure_class, None)
        self.filed[done.failure_class] = done

    def _disagree(self, kind: FailureClass) -> None:
        self.broken.append(kind)
        text = f"{kind.invariant} of {'+'.join(kind.policies)}: the interpreters disagree on its schedule"
        self._tell(WarningRaised("FKV073", text, "Please report this: it is a fault of fuzzkv."))

    def _tidy(self) -> None:
        """Quick files that a better one replaced go, if they weren't there before."""
        final = {done.case["id"] for done in self.filed.values()}
        for early, new in self._early.values():
            if new and early.path is not None and early.case["id"] not in final:
                early.path.unlink(missing_ok=True)
        self._early.clear()

    def _tell(self, event: Event) -> None:
        emit(self.listeners, event)


def order(kind: FailureClass, policies: Sequence[str]) -> tuple[int, int, int, str, str]:
    """Classes in the order in which they are told: smaller sets first, then by set (its mask over ``policies``) and invariant."""
    number = int(kind.invariant[1:])
    return len(kind.policies), mask_of(policies, kind.policies), number, kind.actor or "", kind.action
