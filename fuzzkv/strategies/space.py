"""The space of schedules as data: the operations of a target, their bounds and weights, and the sizes of its machine.

Everything that draws schedules reads this one description: Hypothesis' strategies (:mod:`fuzzkv.strategies.ways`), the
portfolio of the live target, and the table of the compiled generator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

S = TypeVar("S")
"""A schedule of some target."""
Row = tuple[str, tuple[int, ...]]
"""A drawn operation: its name and its numbers."""

Way = Callable[..., list[Row]]
"""``way(space, numbers)`` makes the operations of a schedule (:mod:`fuzzkv.strategies.ways`)."""

ENVIRONMENT: Final = 0
REQUEST: Final = 1
POLICY: Final = 2


@dataclass(frozen=True)
class Operation:
    """One operation: name, least and largest of each of its numbers, and how often it is drawn beside the others.

    ``opens``: it opens a request.  ``extra``: it is drawn only for policies that ask for it.  ``owner``: whose turn it
    is, :data:`ENVIRONMENT`, :data:`REQUEST` or :data:`POLICY`.
    """

    name: str
    bounds: tuple[tuple[int, int], ...]
    weight: int = 1
    opens: bool = False
    extra: bool = False
    owner: int = ENVIRONMENT


@dataclass(frozen=True)
class ScheduleSpace(Generic[S]):
    """The schedules of a target.

    ``operations`` stand with the simplest first; ``machine`` names the sizes of the machine that a schedule sets, each
    with the values that are drawn, the simplest first.  A drawn schedule has at most ``longest`` operations, and
    between the two numbers of ``usual`` where its length is chosen first.  ``moods`` are favourite operations of a
    stretch.  ``make`` builds a schedule of sizes and rows, ``take`` is the way back.  ``ways`` are those of the target alone.
    """

    target: str
    operations: tuple[Operation, ...]
    machine: Mapping[str, tuple[int, ...]]
    longest: int
    usual: tuple[int, int]
    moods: tuple[tuple[str, ...], ...]
    make: Callable[[Sequence[int], Sequence[Row]], S]
    take: Callable[[S], tuple[Sequence[int], Sequence[Row]]]
    ways: tuple[Way, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the operations."""
        return tuple(operation.name for operation in self.operations)

    def operation(self, name: str) -> Operation:
        """The operation of this name.  Raises ``KeyError`` for one that the space doesn't have."""
        for operation in self.operations:
            if operation.name == name:
                return operation
        raise KeyError(name)

    def only(self, names: Collection[str], **bounds: tuple[tuple[int, int], ...]) -> ScheduleSpace[S]:
        """The space of these operations alone, some with other ``bounds``."""
        kept = tuple(
            replace(operation, bounds=bounds.get(operation.name, operation.bounds))
            for operation in self.operations
            if operation.name in names
        )
        moods = (tuple(name for name in mood if name in names) for mood in self.moods)
        return replace(self, operations=kept, moods=tuple(mood for mood in moods if mood))
