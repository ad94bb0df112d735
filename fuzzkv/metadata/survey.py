"""Runs one schedule and notes every act with a hash of all that its policy had observed, and what broke first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fuzzkv.metadata.fields import FIELDS, Observer
from fuzzkv.metadata.trials import Setting
from fuzzkv.metadata.variants import Events
from fuzzkv.semantics.layout import COLUMNS, NINV, PRIMITIVES
from fuzzkv.semantics.schedule import ACT
from fuzzkv.semantics.vocabulary import listening
from fuzzkv.simulator.interpreters import begin, python_apply
from fuzzkv.simulator.start import first_state

_OBSERVERS = tuple(Observer(k) for k in range(4))
_V = COLUMNS["V_COUNT"]


@dataclass(frozen=True, slots=True)
class Seen:
    """An act that ran: where, and marks (hashes) of all that its policy had seen of what is private and of each field."""

    event: int
    slot: int
    primitive: str
    page: int
    private: int
    fields: tuple[int, ...]


@dataclass(frozen=True)
class Broke:
    """A violation: at which event, which invariant, by whom (-1: nobody), with what, on which page."""

    event: int
    invariant: str
    actor: int
    primitive: str
    page: int


@dataclass(frozen=True)
class Survey:
    """All acts of a run until something broke (that event's included), what broke in that event, and what by the end."""

    seen: tuple[Seen, ...]
    broke: tuple[Broke, ...]
    later: tuple[Broke, ...]


class Surveyor:
    """Surveys schedules of one setting; ``slots`` are the policies whose acts are looked at."""

    def __init__(self, setting: Setting, slots: Collection[int]) -> None:
        self.setting, self.slots = setting, frozenset(slots)
        self._notes: list[tuple[int, int, int]] = []
        self._first = first_state(setting.config, setting.policies)

    def _tell(self, primitive: int, actor: int, page: int, detail: int) -> None:
        if actor in self.slots:
            self._notes.append((primitive, actor, page))

    def __call__(self, events: Events, mask: int) -> Survey:
        """Run a schedule."""
        # A rule that isn't written out calls the plain primitives.
        with listening(self._tell):
            return self._run(events, mask)

    def _run(self, events: Events, mask: int) -> Survey:
        s, notes = list(self._first), self._notes
        begin(self.setting.policies, mask)
        private = [0] * len(self.setting.policies)
        fields = [[0] * len(FIELDS) for _ in private]
        seen = []
        event = COLUMNS["EVENT"]
        # The written-out module is shared, and so is whom it tells.
        apply = python_apply(self.setting.policies, self._tell)
        altered = self.setting.altered
        for e, (op, a, b) in enumerate(events):
            if op == ACT and not mask >> a & 1:
                continue
            s[event] = e
            notes.clear()
            if op == ACT and a in self.slots:
                own, told = _OBSERVERS[a].look(s)
                private[a] = hash((private[a], own))
                fields[a] = [hash(pair) for pair in zip(fields[a], told, strict=True)]
                if a in altered:
                    altered[a].rule(s, a)
                else:
                    apply(s, op, a, b, mask)
                for primitive, actor, page in notes:
                    # What a copy of it did when it ended is no act.
                    if actor == a:
                        seen.append(Seen(e, a, PRIMITIVES[primitive], page, private[a], tuple(fields[a])))
                        private[a] = hash((private[a], primitive, page))
            elif op == ACT and a in altered:
                altered[a].rule(s, a)
            else:
                apply(s, op, a, b, mask)
            if any(s[_V : _V + NINV]):
                first = broke(s)
                for i in range(e + 1, len(events)):
                    s[event] = i
                    op, a, b = events[i]
                    if op == ACT and a in altered and mask >> a & 1:
                        altered[a].rule(s, a)
                    elif op != ACT or mask >> a & 1:
                        apply(s, op, a, b, mask)
                return Survey(tuple(seen), first, broke(s))
        return Survey(tuple(seen), (), ())


def broke(s: Sequence[int]) -> tuple[Broke, ...]:
    """The violations recorded in a state, in the order in which they came to be."""
    c = COLUMNS
    found = [
        Broke(
            s[c["V_EVENT"] + i],
            f"I{i}",
            s[c["V_ACTOR"] + i],
            PRIMITIVES[s[c["V_PRIM"] + i]],
            s[c["V_PAGE"] + i],
        )
        for i in range(1, NINV)
        if s[_V + i]
    ]
    return tuple(sorted(found, key=lambda b: s[c["V_STAMP"] + int(b.invariant[1:])]))
