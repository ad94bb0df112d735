"""What Hypothesis remembers between runs: failing schedules, in its example database, as choices of the plain strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Generic

from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase

from fuzzkv.strategies.space import S, ScheduleSpace
from fuzzkv.strategies.ways import as_choices, plain, shown

FORMAT: Final = "fuzzkv 1"
"""Changes when the choices of a strategy mean something else: what was saved before isn't found any more."""


_OTHERS: Final = (b".secondary", b".pareto")
"""Endings of keys under which Hypothesis keeps what doesn't fail or isn't the simplest."""


class StartFrom(ExampleDatabase):
    """A database that offers ``choices`` (an example as bytes), whatever test asks, and keeps nothing."""

    def __init__(self, choices: bytes) -> None:
        super().__init__()
        self.choices = choices

    def fetch(self, key: bytes) -> Iterable[bytes]:
        """The start."""
        return (self.choices,)

    def save(self, key: bytes, value: bytes) -> None:
        """Nothing is kept."""

    def delete(self, key: bytes, value: bytes) -> None:
        """Nothing is kept."""


class Failures(ExampleDatabase, Generic[S]):
    """The failing schedules of one property, kept in ``database`` under the key ``name``.

    Whatever drew a failing schedule, it is written as the choices (``as_choices``) with which ``strategy`` draws it, so that
    it can be made again whatever hunts draw by then.  Hypothesis is offered one of them at a time (:attr:`offered`), and
    what it finds to fail no more is deleted.
    """

    def __init__(
        self,
        database: ExampleDatabase,
        name: str,
        strategy: st.SearchStrategy[S],
        as_choices: Callable[[S], bytes],
    ) -> None:
        super().__init__()
        self.database, self.key = database, f"{FORMAT} {name}".encode()
        self.strategy, self.as_choices = strategy, as_choices
        self.offered: bytes | None = None
        self.failing: S | None = None

    def saved(self) -> list[bytes]:
        """All of them, the shortest first."""
        return sorted(self.database.fetch(self.key), key=lambda choices: (len(choices), choices))

    def keep(self, schedule: S) -> None:
        """Save a failing schedule; one that the plain strategy can't draw is let go."""
        try:
            self.database.save(self.key, self.as_choices(schedule))
        except ValueError:
            return

    def fetch(self, key: bytes) -> Iterable[bytes]:
        """What is offered."""
        return () if self.offered is None or key.endswith(_OTHERS) else (self.offered,)

    def save(self, key: bytes, value: bytes) -> None:
        """Save the schedule that fails, whatever choices drew it."""
        if self.failing is not None and not key.endswith(_OTHERS):
            self.keep(self.failing)

    def delete(self, key: bytes, value: bytes) -> None:
        """Forget an example that was offered and doesn't fail any more."""
        if value == self.offered:
            self.database.delete(self.key, value)


def failed_before(
    database: ExampleDatabase | None, space: ScheduleSpace[S], policies: Sequence[str]
) -> Failures[S] | None:
    """What ``database`` remembers of a set of policies (names); nothing without one."""
    if database is None:
        return None
    name = f"{space.target} {' '.join(sorted(policies))}"
    return Failures(database, name, shown(plain(space)), lambda schedule: as_choices(space, schedule))


def open_database(folder: Path | None) -> ExampleDatabase | None:
    """Hypothesis' database in this folder; none if there is none."""
    return None if folder is None else DirectoryBasedExampleDatabase(folder)
