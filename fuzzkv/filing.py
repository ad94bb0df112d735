"""From witnesses to filed cases: each kind of failure is shrunk, checked by the Python reader and written, once.

A kind is filed quickly as soon as it is seen (:meth:`Filing.keep`), so that a kill loses nothing, and
thoroughly in the end (:meth:`Filing.settle`), which replaces the quick file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzzkv.casebook import Recipe, make_case, narrowed
from fuzzkv.contract.schedule import Config, Event
from fuzzkv.corpus import save_case, write_index
from fuzzkv.errors import FuzzkvError
from fuzzkv.events import CaseFiled, Listener, Progress, WarningRaised, emit
from fuzzkv.machine.engine import BulkEngine
from fuzzkv.oracles.verdict import Kind, part_of_known, subsets
from fuzzkv.shrink import shrink


@dataclass(frozen=True)
class Witness:
    """A schedule that shows a kind of failure on a machine of this configuration.

    ``drawn`` schedules had been looked at by then; ``worse`` says that bytes ended up worse than in every subset, ``own``
    that it isn't the consequence of another violation.
    """

    kind: Kind
    events: tuple[Event, ...]
    config: Config
    drawn: int = 0
    worse: bool = False
    own: bool = True

    def better_than(self, other: Witness) -> bool:
        """Whether this one is worth more: it has no other cause, then it does real damage, then it is shorter."""
        return (self.own, self.worse, -len(self.events)) > (other.own, other.worse, -len(other.events))


@dataclass(frozen=True)
class Filed:
    """A kind with its case, the recipe that shows it, and where it is on the disk (``None``: it couldn't be
    written).
    """

    kind: Kind
    case: Mapping[str, Any]
    recipe: Recipe
    path: Path | None


def witnesses(engine: BulkEngine) -> Iterator[Witness]:
    """The kinds that a search has met so far, each with its best schedule."""
    for found in engine.classes:
        kind = Kind(found.mask, found.invariant, found.actor, found.primitive)
        yield Witness(kind, found.events, engine.config, engine.drawn, found.worse, found.own)


@dataclass
class Filing:
    """Files the kinds of failures of one policy set into ``folder``; ``engine`` is of the whole set.

    ``filed`` holds what is written by kind, ``broken`` the kinds whose schedule the Python reader didn't
    confirm (FKV073).
    """

    engine: BulkEngine
    folder: Path
    seed: int
    listeners: Sequence[Listener] = ()
    filed: dict[Kind, Filed] = field(default_factory=dict)
    broken: list[Kind] = field(default_factory=list)
    _early: dict[Kind, tuple[Filed, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._engines = {self.engine.config: self.engine}

    def keep(self, witness: Witness) -> None:
        """File a new kind at once, shrunk by our own passes only."""
        done = self._shrunk(witness, thorough=False)
        # A disk that fails now is told when the kind is filed for good.
        with suppress(FuzzkvError):
            if done is not None:
                saved = save_case(dict(done.case), self.folder)
                filed = Filed(done.kind, saved.case, done.recipe, saved.path)
                self._early[witness.kind] = (filed, saved.new)

    def settle(self, found: Iterable[Witness], besides: Iterable[Kind] = ()) -> None:
        """Shrink every kind thoroughly and file it, from the first of its witnesses that can be.

        Consequences of other violations, and kinds that a smaller set has too (one of these, or one of the known
        kinds ``besides``), are none of their own.
        """
        wanted: dict[Kind, list[Witness]] = {}
        for witness in found:
            wanted.setdefault(witness.kind, []).append(witness)
        known = {*wanted, *besides}
        chosen = [wanted[kind] for kind in sorted(wanted, key=order) if not part_of_known(kind, known)]
        for number, tries in enumerate(chosen, 1):
            done = next(filter(None, (self._shrunk(witness, thorough=True) for witness in tries)), None)
            if done is not None:
                self._file(done)
            emit(self.listeners, Progress("shrink", number, len(chosen), classes=len(self.filed)))
        self._tidy()
        self._index()

    def interrupted(self) -> None:
        """What was filed at once is what was found, where nothing better is filed yet."""
        for kind, (early, new) in self._early.items():
            if kind not in self.filed:
                self.filed[kind] = early
                emit(self.listeners, CaseFiled(early.case["id"], str(early.path), new, early.case))
        self._tidy()
        self._index()

    def of(self, kind: Kind) -> Filed | None:
        """What was filed for this kind, or for a smaller set that fails in the same way."""
        for mask in (kind.mask, *subsets(kind.mask)):
            found = self.filed.get(Kind(mask, kind.invariant, kind.actor, kind.primitive))
            if found is not None:
                return found
        return None

    def engine_for(self, config: Config) -> BulkEngine:
        """The same policies on a machine of this configuration."""
        if config not in self._engines:
            self._engines[config] = BulkEngine(self.engine.policies, config)
        return self._engines[config]

    def _shrunk(self, witness: Witness, *, thorough: bool) -> Filed | None:
        kind = witness.kind
        # Nothing is confirmed on an engine here, so the shortest schedule is worth more than one that does damage.
        engine = self.engine_for(witness.config)
        shrunk = shrink(engine, kind, witness.events, thorough=thorough, damage=False)
        if shrunk is None and thorough:
            self._disagree(kind)
        if shrunk is None or shrunk[1].consequence:
            return None
        chosen, small = narrowed(self.engine.policies, kind.mask, shrunk[0])
        recipe = Recipe(small, chosen, witness.config)
        case = make_case(recipe, kind.invariant, seed=self.seed, schedules=witness.drawn)
        if case is None:
            if thorough:
                self._disagree(kind)
            return None
        return Filed(kind, case, recipe, None)

    def _file(self, done: Filed) -> None:
        try:
            saved = save_case(dict(done.case), self.folder)
        except FuzzkvError as error:
            self.filed[done.kind] = done
            text = f"{done.case['id']} is not filed: {error.reason}"
            emit(self.listeners, WarningRaised(error.code, text, error.cure))
            return
        self.filed[done.kind] = Filed(done.kind, saved.case, done.recipe, saved.path)
        new = saved.new or any(new and early.path == saved.path for early, new in self._early.values())
        emit(self.listeners, CaseFiled(saved.case["id"], str(saved.path), new, saved.case))

    def _disagree(self, kind: Kind) -> None:
        self.broken.append(kind)
        names = "+".join(name for k, name in enumerate(self.engine.names) if kind.mask >> k & 1)
        text = f"{kind.invariant} of {names}: the readers disagree on its schedule"
        emit(self.listeners, WarningRaised("FKV073", text, "Please report this: it is a fault of fuzzkv."))

    def _index(self) -> None:
        if any(done.path is not None for done in self.filed.values()):
            with suppress(FuzzkvError):  # an index is made anew by 'fuzzkv corpus index'
                write_index(self.folder)

    def _tidy(self) -> None:
        """Quick files that a better one replaced go, if they weren't there before."""
        final = {done.path for done in self.filed.values()}
        for early, new in self._early.values():
            if new and early.path is not None and early.path not in final:
                early.path.unlink(missing_ok=True)
        self._early.clear()


def order(kind: Kind) -> tuple[int, int, int, str, str]:
    """Kinds in the order in which they are told: smaller sets first, then by set and invariant."""
    number = int(kind.invariant[1:])
    return kind.mask.bit_count(), kind.mask, number, kind.actor or "", kind.primitive
