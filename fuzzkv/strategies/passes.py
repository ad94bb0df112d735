"""Shrinking passes over any schedule: small named ways to make it simpler, told for each candidate whether it was taken.

A pass is a generator: it yields candidates, is sent whether the last one was taken, and goes on from that one.  Whoever runs
it (:func:`improve`) may instead begin it anew with every candidate that is taken, which costs more runs and misses less:
cheap where a run takes microseconds, as on the compiled model, and dear on an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from fuzzkv.strategies.space import S, ScheduleSpace

E = TypeVar("E")
"""An event of a schedule."""
Candidates = Generator[S, bool, None]
Takes = Callable[[S], bool]
"""Whether a candidate is simpler and still shows what is to be shown."""
PAIRS: Final = 14
"""Most events of which two are left out at once where a run is dear."""


@dataclass(frozen=True)
class Pass(Generic[S]):
    """One way to make a schedule simpler; ``candidates`` come in the order in which they are worth trying."""

    name: str
    candidates: Callable[[S], Candidates[S]]


def improve(pass_: Pass[S], best: S, takes: Takes[S], *, anew: bool = False) -> S:
    """The schedule that a pass comes to; ``anew``: it begins again with every candidate that is taken."""
    trying = pass_.candidates(best)
    try:
        candidate = next(trying)
        while True:
            taken = takes(candidate)
            if taken:
                best = candidate
            if taken and anew:
                trying = pass_.candidates(best)
                candidate = next(trying)
            else:
                candidate = trying.send(taken)
    except StopIteration:
        return best


def runs_of_events(events: tuple[E, ...], *, everywhere: bool = False) -> Candidates[tuple[E, ...]]:
    """Cut runs of events, long ones first, from the end; ``everywhere``: also runs that overlap."""
    size = len(events)
    while size >= 1:
        start = len(events) - size
        while start >= 0:
            cut = events[:start] + events[start + size :]
            if (yield cut):
                events = cut
            start = min(start, len(events)) - (1 if everywhere else size)
        size //= 2


def two_events(events: tuple[E, ...], most: int) -> Candidates[tuple[E, ...]]:
    """Leave out two events at once, as far as the first ``most``: one that opens what the other closes, say."""
    i = 0
    while i < min(len(events), most):
        j = i + 1
        while j < min(len(events), most):
            cut = events[:i] + events[i + 1 : j] + events[j + 1 :]
            if (yield cut):
                events, j = cut, i + 1  # another event stands at i now
            else:
                j += 1
        i += 1


def halving(low: int, value: int) -> Candidates[int]:
    """Values below ``value``: the least, then what lies between those that were taken and those that weren't."""
    tried = low
    while low <= tried < value:
        if (yield tried):
            value = tried
        else:
            low = tried + 1
        tried = (low + value) // 2


def smaller_numbers(schedule: S, space: ScheduleSpace[S]) -> Candidates[S]:
    """Each number of each operation as small as can be."""
    machine, rows = space.take(schedule)
    rows = list(rows)
    for at, (name, numbers) in enumerate(rows):
        for place, value in enumerate(numbers):
            trying = halving(space.operation(name).bounds[place][0], value)
            taken: Any = None
            while True:
                try:
                    lower = next(trying) if taken is None else trying.send(taken)
                except StopIteration:
                    break
                fewer = (*rows[at][1][:place], lower, *rows[at][1][place + 1 :])
                candidate = [*rows[:at], (name, fewer), *rows[at + 1 :]]
                taken = yield space.make(machine, candidate)
                if taken:
                    rows = candidate


def simpler_machine(schedule: S, space: ScheduleSpace[S]) -> Candidates[S]:
    """Each size of the machine as the space has it first, or as near to that as can be."""
    machine, rows = space.take(schedule)
    for place, values in enumerate(space.machine.values()):
        for value in values:
            if value == machine[place]:
                break
            changed = (*machine[:place], value, *machine[place + 1 :])
            if (yield space.make(changed, rows)):
                machine = changed
                break


def over_rows(
    space: ScheduleSpace[S], pass_: Callable[[tuple[Any, ...]], Candidates[tuple[Any, ...]]]
) -> Callable[[S], Candidates[S]]:
    """A pass over the operations of a schedule as one over the schedule."""

    def candidates(schedule: S) -> Candidates[S]:
        machine, rows = space.take(schedule)
        trying = pass_(tuple(rows))
        taken: Any = None
        while True:
            try:
                fewer = next(trying) if taken is None else trying.send(taken)
            except StopIteration:
                return
            taken = yield space.make(machine, fewer)

    return candidates


def usual_passes(space: ScheduleSpace[S]) -> Sequence[Pass[S]]:
    """The passes that serve any space, in order."""
    return (
        Pass("runs of events", over_rows(space, runs_of_events)),
        Pass("simpler machine", lambda schedule: simpler_machine(schedule, space)),
        Pass("smaller numbers", lambda schedule: smaller_numbers(schedule, space)),
        Pass("two events", over_rows(space, lambda events: two_events(events, PAIRS))),
    )
