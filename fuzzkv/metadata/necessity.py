"""Pairs of traces that prove that a policy can't do right without some field of shared metadata.

**Private view.**  What a policy in slot ``k`` can observe without a field ``M``: at each moment at which it is called upon, and
before each act of its own since then, all that is private of the state (``metadata.fields``: its memory, words, copies and
ledger, physical facts) and all other fields; and which of its acts ran.  The view *at an act* is the sequence of all that
since the run began, so a rule may remember whatever it likes.

**Pair.**  Two traces, each ending in an act of the same policy, with the same primitive and arguments, such that

1. in the *refused* trace the act breaks the invariant of a known kind, though after it no policy is called upon any more and
   whether or not its own policy goes on with what it does in that event: with the act the set fails while every proper subset
   passes under the same schedule; without it (that one call is refused) nothing breaks, to the end of the schedule and in
   whatever may be asked afterwards;
2. in the *allowed* trace nothing is broken, the act runs, and nothing breaks afterwards;
3. the two views differ in nothing but a set ``D`` of fields.

Why such a pair is a proof: let every policy have any rule that sees no field of ``D``, and let these rules allow all
harmless traces.  The refused trace without its last act is harmless, so all acts before that one are allowed, whoever takes
them.  The allowed trace is harmless, so its act is allowed; the view is the same, so it is allowed in the refused trace
too, and nobody is asked again before the conflict happens.  So at least one field of ``D`` has to be shared; if ``D`` is one
field, that field is needed.

*Whatever may be asked afterwards* is one step at once for each page of each open session, and all of them once the link
has come to rest, without further acts: those would be refused or allowed on their own.

**Neighbours.**  A policy knows itself and its view, never another policy, so harmless are also traces beside neighbours that
nobody has met: ``metadata.neighbours`` has a few that take a known policy's acts and say otherwise.  A pair whose allowed trace
needs one says *any neighbour*: a rule made for the known neighbours alone might do without the field.  And a known rule that
reads a field is none that can't see it: where that matters it is looked at blindfolded, and its acts are those of a rule that
allows all harmless traces, not of the known one.

**What isn't proved.**  That no pair is found says so for the schedules that were looked at (``metadata.pairs.Bound``), no more.
A fact that tells all refused acts from all allowed ones that were met is what a private rule could go by; it is no proof
either.  Nor does a pair say that the field suffices: the contract's clauses are there for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from fuzzkv.metadata.fields import FIELD_NAMES
from fuzzkv.metadata.neighbours import Way, altered
from fuzzkv.metadata.survey import Broke, broke
from fuzzkv.metadata.trials import Call, Run, Setting, Trace, broken, clean_after, differing
from fuzzkv.metadata.variants import Events
from fuzzkv.semantics.schedule import ACT


@dataclass(frozen=True)
class SlotKind:
    """A known failure class: the invariant, who breaks it (a slot, -1 for nobody), and with what."""

    invariant: str
    actor: int
    primitive: str

    def among(self, found: tuple[Broke, ...]) -> Broke | None:
        """Where a run broke it, if it did."""
        return next(
            (
                b
                for b in found
                if (b.invariant, b.actor, b.primitive) == (self.invariant, self.actor, self.primitive)
            ),
            None,
        )


@dataclass(frozen=True)
class Pair:
    """The two traces, the fields in which their views differ, and the act (primitive and arguments).

    The refused trace goes on to the ``end``, the schedule that breaks the invariant.  ``refused_as`` and ``allowed_as`` say
    which policies of each trace aren't the known ones.
    """

    kind: SlotKind
    refused: Trace
    allowed: Trace
    end: Events
    fields: frozenset[str]
    primitive: str
    arguments: tuple[int, ...]
    refused_as: tuple[Way, ...] = ()
    allowed_as: tuple[Way, ...] = ()


@dataclass(frozen=True)
class DistinguishingFact:
    """A fact that tells refused from allowed acts; ``carrier`` is what carries it, empty if it is private."""

    carrier: str
    text: str


@dataclass
class NecessityOutcome:
    """The result of the search for pairs of one failure class.

    ``pairs`` has one pair for each set of fields, ``with_neighbours`` those beside other neighbours than the
    known ones; ``looked`` schedules were run;
    ``refused`` are the acts that have to be refused, each with the schedule that it breaks.  ``facts`` tell all of them from
    the ``allowed`` acts that were compared with them, a fact for each policy and primitive (empty: no simple one does).
    """

    kind: SlotKind
    pairs: dict[frozenset[str], Pair] = field(default_factory=dict)
    with_neighbours: dict[frozenset[str], Pair] = field(default_factory=dict)
    looked: int = 0
    refused: list[tuple[Trace, Events]] = field(default_factory=list)
    allowed: int = 0
    facts: tuple[DistinguishingFact, ...] = ()


def smallest(pairs: Mapping[frozenset[str], Pair]) -> list[frozenset[str]]:
    """The sets of fields of which one has to be shared, none that has another in it."""
    sets = sorted(pairs, key=lambda d: (len(d), sorted(map(FIELD_NAMES.index, d))))
    return [d for d in sets if not any(other < d for other in sets)]


def listened(setting: Setting, trace: Trace) -> Run:
    """A run of a trace in which its policy is listened to."""
    return Run(setting, listen=(trace.slot,)).go(trace.events, setting.full)


def until_act(run: Run, trace: Trace) -> tuple[Call, ...] | None:
    """All that the policy of a trace did and saw up to and including the act at its end; ``None`` if it isn't there."""
    last, number = len(trace.events) - 1, -1
    for i, call in enumerate(run.calls):
        number += call.event == last and call.primitive != ""
        if call.event == last and number == trace.ordinal:
            return tuple(run.calls[: i + 1]) if call.ran else None
    return None


def ordinal_of(setting: Setting, events: Events, slot: int, primitive: str, page: int) -> int | None:
    """Which call of the last event is the one that ran with this primitive on this page."""
    run = Run(setting, listen=(slot,)).go(events, setting.full)
    calls = [call for call in run.calls if call.event == len(events) - 1 and call.primitive]
    found = [i for i, c in enumerate(calls) if c.primitive == primitive and c.ran and c.about(page)]
    return found[0] if found else None


def quiet(events: Events, length: int) -> Events:
    """A schedule in which no policy is called upon after its first ``length`` events."""
    return (*events[:length], *(event for event in events[length:] if event[0] != ACT))


def must_be_refused(setting: Setting, kind: SlotKind, trace: Trace, end: Events) -> bool:
    """Whether the act of a trace breaks a kind in the set alone, and without it nothing breaks (1 above)."""
    without = Run(setting, refuse=trace).go(end, setting.full)
    if broken(without.state) or any(event[0] == ACT for event in end[len(trace.events) :]):
        return False
    for run in (Run(setting), Run(setting, last=trace)):
        if kind.among(broke(run.go(end, setting.full).state)) is None:
            return False
    if any(broken(Run(setting).go(end, mask).state) for mask in range(setting.full)):
        return False
    return clean_after(setting, without.state)


def may_be_allowed(setting: Setting, trace: Trace, rest: Events = ()) -> bool:
    """Whether the act of a trace runs and nothing breaks (2 above), nor if the workload of ``rest`` follows."""
    run = Run(setting).go(trace.events, setting.full)
    if not clean_after(setting, run.state):
        return False
    quiet = tuple(event for event in rest if event[0] != ACT)
    if quiet and not clean_after(setting, run.go(quiet, 0, start=len(trace.events)).state):
        return False
    return until_act(listened(setting, trace), trace) is not None


def verified(setting: Setting, pair: Pair) -> frozenset[str] | None:
    """The fields in which the views of a pair's traces differ, if they do make a pair: everything above is run anew.

    ``setting`` has the known policies; the ``fields`` that the pair names aren't looked at.
    """
    here, beside = altered(setting, pair.refused_as), altered(setting, pair.allowed_as)
    refused, allowed = pair.refused, pair.allowed
    if refused.slot != allowed.slot or not may_be_allowed(beside, allowed, pair.end[len(refused.events) :]):
        return None
    one, other = until_act(listened(here, refused), refused), until_act(listened(beside, allowed), allowed)
    fields = differing(one, other) if one is not None and other is not None else None
    if (
        not fields
        or one is None
        or (one[-1].primitive, one[-1].arguments) != (pair.primitive, pair.arguments)
    ):
        return None
    return fields if must_be_refused(here, pair.kind, refused, pair.end) else None


def shortened(setting: Setting, pair: Pair) -> Pair:
    """The same pair without what can be left out of one trace or of both."""
    i = 0
    while i < max(len(pair.refused.events), len(pair.allowed.events)) - 1:
        for smaller in _without(pair, i):
            if verified(setting, smaller) == pair.fields:
                pair, i = smaller, -1
                break
        i += 1
    return pair


def _without(pair: Pair, i: int) -> Iterator[Pair]:
    """The pairs that are left without the ``i``-th event of the refused trace and one like it of the other, or of one alone."""
    one, other = pair.refused.events[:-1], pair.allowed.events[:-1]
    if i < len(one):
        twins: list[int | None] = [j for j, event in enumerate(other) if event == one[i]]
        for j in [*twins, None]:
            yield replace(
                pair,
                refused=replace(pair.refused, events=_left(pair.refused.events, i)),
                end=_left(pair.end, i),
                allowed=replace(pair.allowed, events=_left(pair.allowed.events, j)),
            )
    if i < len(other):
        yield replace(pair, allowed=replace(pair.allowed, events=_left(pair.allowed.events, i)))


def _left(events: Events, i: int | None) -> Events:
    return events if i is None else events[:i] + events[i + 1 :]
