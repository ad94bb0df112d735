"""A portfolio of schedules: drawn in the usual ways from a seed, and small changes of those that reached something new."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final, Generic

from fuzzkv.strategies.numbers import Numbers
from fuzzkv.strategies.space import Row, S, ScheduleSpace
from fuzzkv.strategies.ways import WAYS

KEPT: Final = 200
"""Most schedules that are kept for changes."""
_BYTES: Final = 512
"""Bytes that one schedule is drawn from."""


@dataclass
class Portfolio(Generic[S]):
    """Draws schedules of a space.  ``seed`` is any text; the same one draws the same schedules."""

    space: ScheduleSpace[S]
    seed: str
    kept: list[S] = field(default_factory=list)
    _drawn: dict[int, S] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def draw(self) -> S:
        """The next schedule."""
        if self.kept and self.random.random() < 0.4:
            return self.changed()
        way = self.random.choice((*WAYS, *self.space.ways))
        machine = [self.random.choice(values) for values in self.space.machine.values()]
        rows = way(self.space, Numbers(self.random.randbytes(_BYTES)))
        return self.space.make(machine, rows[: self.space.longest])

    def numbered(self, number: int) -> S:
        """The schedule of this number: what :meth:`draw` would come to from here with a seed of its own, then always
        the same.  So Hypothesis may draw the number.
        """
        if number not in self._drawn:
            self.random = random.Random(f"{self.seed} {number}")
            self._drawn[number] = self.draw()
        return self._drawn[number]

    def keep(self, schedule: S) -> None:
        """Take a schedule that reached something new among those that are changed."""
        self.kept.append(schedule)
        if len(self.kept) > KEPT:
            self.kept.pop(self.random.randrange(KEPT // 2))

    def changed(self) -> S:
        """A small change of a schedule that was kept: operations left out, put in, drawn anew or taken from another one."""
        machine, taken = self.space.take(self.random.choice(self.kept))
        rows = list(taken)
        for _ in range(self.random.randint(1, 4)):
            at, way = self.random.randint(0, len(rows)), self.random.randrange(4)
            if way == 0:
                del rows[at : at + self.random.randint(1, 3)]
            elif way == 1:
                rows[at : at + 1] = [self._row()]
            elif way == 2:
                _, other = self.space.take(self.random.choice(self.kept))
                cut = self.random.randint(0, len(other))
                rows[at:at] = other[cut : cut + self.random.randint(1, 12)]
            else:
                rows.insert(at, self._row())
        return self.space.make(machine, rows[: self.space.longest])

    def _row(self) -> Row:
        operations = self.space.operations
        operation = self.random.choices(operations, [one.weight for one in operations])[0]
        return operation.name, tuple(self.random.randint(low, high) for low, high in operation.bounds)
