"""The search for pairs of traces: schedules near a known conflict, and acts before which a policy has seen the same by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from fuzzkv.metadata.fields import FIELD_NAMES
from fuzzkv.metadata.necessity import (
    DistinguishingFact,
    NecessityOutcome,
    Pair,
    SlotKind,
    listened,
    must_be_refused,
    ordinal_of,
    quiet,
    until_act,
    verified,
)
from fuzzkv.metadata.neighbours import Way, altered, other_neighbours
from fuzzkv.metadata.simple_facts import FACTS
from fuzzkv.metadata.survey import Seen, Survey, Surveyor
from fuzzkv.metadata.trials import Run, Setting, Trace, clean_after
from fuzzkv.metadata.variants import Events, changed, silent

Tell = Callable[[int, int], None]
"""Told how many of how many steps of the search are done."""

# Schedules that are varied further; tries for one set of fields; allowed acts kept for one view; those that facts are sought in.
_BASES, _TRIES, _KEPT, _COMPARED = 60, 40, 4, 200
# Until so many acts to refuse are met, so many times as many schedules are drawn.
_ENOUGH, _LONGER = 20, 6
_STEP = 50


@dataclass(frozen=True)
class Bound:
    """Bounds of a search for pairs.

    ``schedules`` are drawn near the case from ``seed`` (more where few acts to refuse are met).  Around each of the first
    ``exact`` acts that have to be refused, up to ``around`` schedules are looked at in which only others act otherwise; and
    the first ``strange`` of each kind once more beside other neighbours.
    """

    schedules: int = 600
    exact: int = 45
    around: int = 50
    strange: int = 12
    seed: int = 0


_Key = tuple[int, str, int, int]
_Marks = tuple[int, ...]
_T = TypeVar("_T")


class PairSearch:
    """Looks for pairs of one kind near a schedule that breaks it.

    ``ways`` says which policies of ``known`` aren't themselves in the refused traces.
    """

    def __init__(
        self, known: Setting, kind: SlotKind, events: Events, bound: Bound, ways: tuple[Way, ...] = ()
    ) -> None:
        self.known, self.ways, self.kind, self.bound = known, ways, kind, bound
        self.setting = setting = altered(known, ways)
        self.outcome = NecessityOutcome(kind)
        self._rng = Random(bound.seed)
        self._slots = range(len(setting.policies))
        self._bases = [events]
        self._survey = Surveyor(setting, self._slots)
        self._bad: dict[_Key, dict[_Marks, tuple[Trace, Events]]] = {}
        self._good: dict[_Key, dict[_Marks, tuple[Events, Seen]]] = {}
        self._tried: dict[tuple[str, frozenset[str]], int] = {}
        self._done: set[Events] = set()

    def run(self, tell: Tell | None = None) -> NecessityOutcome:
        """Search within the bound."""
        whole = self.bound.schedules + self.bound.exact
        self.look(self._bases[0])
        for n in range(_LONGER * self.bound.schedules):
            if n >= self.bound.schedules and len(self.outcome.refused) >= _ENOUGH:
                break
            self.look(changed(self._rng.choice(self._bases), self._rng, self._slots))
            if tell is not None and n % _STEP == 0:
                tell(min(n, self.bound.schedules), whole)
        for n in range(self.bound.exact):
            # Looking around finds more of them.
            if n < len(self.outcome.refused):
                self._look_around(*self.outcome.refused[n])
            if tell is not None and n % 5 == 0:
                tell(self.bound.schedules + n, whole)
        self._look_at_neighbours()
        self._compare()
        return self.outcome

    def look(self, events: Events) -> None:
        """Look at one schedule of the known policies."""
        if events in self._done:
            return
        self._done.add(events)
        self.outcome.looked += 1
        found = self._survey(events, self.setting.full)
        first = found.broke[0].event if found.broke else len(events)
        for seen in found.seen:
            if seen.event < first:
                self._keep_good(events, seen)
        where = self.kind.among(found.later)
        if where is None:
            return
        if len(self._bases) < _BASES:
            self._bases.append(events)
        whole = events[: where.event + 1]
        for seen in self._suspects(found, first):
            key = _key(seen)
            if seen.fields in self._bad.get(key, {}):
                return
            trace, end = self._trace(self.setting, events, seen), quiet(whole, seen.event + 1)
            if trace is not None and must_be_refused(self.setting, self.kind, trace, end):
                self.outcome.refused.append((trace, end))
                self._bad.setdefault(key, {})[seen.fields] = (trace, end)
                for marks, (other, then) in self._good.get(key, {}).items():
                    self._match(key, marks, other, then)
                return

    def _suspects(self, found: Survey, first: int) -> Iterator[Seen]:
        """The acts that may be to blame, the likeliest first: the one that broke something, or the last ones before."""
        broke = found.broke[0]
        blamed = [
            seen
            for seen in found.seen
            if (seen.event, seen.slot, seen.primitive) == (first, broke.actor, broke.primitive)
        ]
        # What nobody's act broke, or an act that came to its end only now, was brought about before.
        yield from blamed or reversed([seen for seen in found.seen if seen.event < first][-4:])

    def _trace(self, setting: Setting, events: Events, seen: Seen) -> Trace | None:
        start = events[: seen.event + 1]
        ordinal = ordinal_of(setting, start, seen.slot, seen.primitive, seen.page)
        return None if ordinal is None else Trace(start, seen.slot, ordinal)

    def _keep_good(self, events: Events, seen: Seen) -> None:
        key = _key(seen)
        kept = self._good.setdefault(key, {})
        if seen.fields in kept or len(kept) >= _KEPT:
            return
        kept[seen.fields] = (events, seen)
        self._match(key, seen.fields, events, seen)

    def _match(
        self,
        key: _Key,
        marks: _Marks,
        events: Events,
        seen: Seen,
        neighbour: tuple[Way, Setting] | None = None,
    ) -> None:
        """Acts that are alike in what is private: a pair for each set of fields, as small as they come."""
        pairs = self.outcome.with_neighbours if neighbour else self.outcome.pairs
        beside = neighbour[1] if neighbour else self.setting
        allowed_as = (*self.ways, neighbour[0]) if neighbour else self.ways
        for other, (refused, end) in tuple(self._bad.get(key, {}).items()):
            differ = frozenset(n for n, a, b in zip(FIELD_NAMES, marks, other, strict=True) if a != b)
            known = any(sharp <= differ for sharp in (*self.outcome.pairs, *pairs))
            tries = (str(allowed_as), differ)
            if not differ or known or self._tried.get(tries, 0) >= _TRIES:
                continue
            self._tried[tries] = self._tried.get(tries, 0) + 1
            allowed = self._trace(beside, events, seen)
            act = until_act(listened(beside, allowed), allowed) if allowed else None
            if allowed is None or act is None:
                return
            last = act[-1]
            pair = Pair(
                self.kind,
                refused,
                allowed,
                end,
                differ,
                last.primitive,
                last.arguments,
                self.ways,
                allowed_as,
            )
            fields = verified(self.known, pair)
            if fields:
                pairs.setdefault(fields, replace(pair, fields=fields))

    def _look_around(self, trace: Trace, end: Events) -> None:
        near = list(dict.fromkeys(silent(end, trace.slot, self._slots)))
        for variant in _some(near, self.bound.around, self._rng):
            self.look(variant)

    def _look_at_neighbours(self) -> None:
        """The acts that have to be refused once more beside neighbours that say otherwise."""
        of_slot: dict[int, list[tuple[tuple[Way, Setting], Surveyor]]] = {}
        per_act: dict[tuple[int, str], int] = {}
        for trace, end in tuple(self.outcome.refused):
            act = (trace.slot, str(end[-1]))
            per_act[act] = per_act.get(act, 0) + 1
            if per_act[act] > self.bound.strange:
                continue
            if trace.slot not in of_slot:
                of_slot[trace.slot] = []
                for way in other_neighbours(self.known, trace.slot):
                    beside = altered(self.known, (*self.ways, way))
                    of_slot[trace.slot].append(((way, beside), Surveyor(beside, (trace.slot,))))
            near = [trace.events, *_some(list(silent(trace.events, trace.slot, self._slots)), 8, self._rng)]
            for neighbour, survey in of_slot[trace.slot]:
                for events in near:
                    self.outcome.looked += 1
                    met = survey(events, self.setting.full)
                    first = met.broke[0].event if met.broke else len(events)
                    for seen in met.seen:
                        if seen.event < first:
                            self._match(_key(seen), seen.fields, events, seen, neighbour)

    def _compare(self) -> None:
        """Find one fact that tells all refused acts from the allowed ones of the same policy and primitive."""
        refused: dict[tuple[int, str], list[tuple[int, ...]]] = {}
        for (slot, primitive, page, _), kept in self._bad.items():
            for trace, _end in kept.values():
                refused.setdefault((slot, primitive), []).append(self._facts(trace.events, slot, page))
        told = []
        for act, rows in refused.items():
            allowed = list(self._allowed_rows(act))
            self.outcome.allowed += len(allowed)
            told.append(_separates(rows, allowed))
        if told and all(told):
            self.outcome.facts = tuple(dict.fromkeys(fact for fact in told if fact))

    def _facts(self, events: Events, slot: int, page: int) -> tuple[int, ...]:
        s = Run(self.setting).go(events[:-1], self.setting.full).state
        return tuple(read(s, slot, max(page, 0)) for _, _, read in FACTS)

    def _allowed_rows(self, act: tuple[int, str]) -> Iterator[tuple[int, ...]]:
        kept = [
            (events[: seen.event + 1], seen.page)
            for key, found in self._good.items()
            if key[:2] == act
            for events, seen in found.values()
        ]
        for events, page in _some(list(dict.fromkeys(kept)), _COMPARED, self._rng):
            if clean_after(self.setting, Run(self.setting).go(events, self.setting.full).state):
                yield self._facts(events, act[0], page)


def _some(things: list[_T], most: int, rng: Random) -> list[_T]:
    return things if len(things) <= most else rng.sample(things, most)


def _key(seen: Seen) -> _Key:
    return seen.slot, seen.primitive, seen.page, seen.private


def _separates(refused: list[tuple[int, ...]], allowed: list[tuple[int, ...]]) -> DistinguishingFact | None:
    """The first fact by which all refused acts are on one side and all allowed ones on the other."""
    if not allowed:
        return DistinguishingFact("", "no such act was harmless")
    for i, (carrier, name, _) in enumerate(FACTS):
        here, there = [row[i] for row in refused], [row[i] for row in allowed]
        if min(here) > max(there):
            return DistinguishingFact(
                carrier, f"{name}: refused from {min(here)}, allowed up to {max(there)}"
            )
        if max(here) < min(there):
            return DistinguishingFact(
                carrier, f"{name}: refused up to {max(here)}, allowed from {min(there)}"
            )
    return None
