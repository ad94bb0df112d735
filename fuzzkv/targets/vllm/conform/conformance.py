"""A whole conformance run: random small schedules on an engine instance a policy set, every log made again on the model.

What no known gap explains is shrunk on the engine and told with its schedule.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any, Final, Protocol

from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT, UsageError, did_you_mean
from fuzzkv.targets.vllm.conform.differences import CLASSES, STATE, Difference
from fuzzkv.targets.vllm.conform.known import BY_NAME, GAPS
from fuzzkv.targets.vllm.conform.small_configs import configured, draw
from fuzzkv.targets.vllm.conform.translate import Translated, translate
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.policies import LivePolicy, compatible, resolve
from fuzzkv.targets.vllm.pool.engine_pool import EngineDied
from fuzzkv.targets.vllm.schedule import BOUNDS, LiveSchedule

LOOKING: Final = "fuzzkv.targets.vllm.conform.observing:watch_pages"
"""The watcher that an engine has to have."""
TRANSLATED: Final = (
    "vllm:offload-arc",
    "vllm:offload-lru",
    "vllm:offload-outputs",
    "vllm:preempt",
    "vllm:prefix-cache",
    "vllm:store-threshold",
)
"""Policies whose page events have a translation."""
USUAL: Final = ("vllm:offload-lru", "vllm:prefix-cache", "vllm:preempt")
SHRINK_RUNS: Final = 80
SHOWN: Final = 3
"""Unexplained differences of a set after which it is left: the rest would say the same."""

Set = tuple[LivePolicy, ...]


class WatchedEngine(Protocol):
    """An engine that is watched by :data:`LOOKING`."""

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        """Run one schedule."""
        ...


Start = Callable[[EngineConfig], AbstractContextManager[WatchedEngine]]


@dataclass
class Row:
    """The result of one policy set."""

    policies: Set
    schedules: int = 0
    events: int = 0
    looks: int = 0
    cut: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    unexplained: list[dict[str, Any]] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """The names of its policies, without what they share."""
        return " + ".join(p.name.removeprefix("vllm:") for p in self.policies) or "plain engine"

    def of_class(self, kind: str) -> int:
        """Differences of a class that known gaps explain."""
        return sum(n for gap, n in self.explained.items() if BY_NAME[gap].kind == kind)

    def as_json(self) -> dict[str, Any]:
        """Plain data for a report."""
        return {
            "policies": [p.name for p in self.policies],
            "schedules": self.schedules,
            "page_events": self.events,
            "looks": self.looks,
            "cut": dict(sorted(self.cut.items())),
            "explained": dict(sorted(self.explained.items())),
            "explained_by_class": {kind: self.of_class(kind) for kind in CLASSES},
            "unexplained": self.unexplained,
            "counters": dict(sorted(self.counters.items())),
        }


def chosen(names: Sequence[str]) -> tuple[LivePolicy, ...]:
    """The policies of these names. Raises FKV001 for one that isn't, or has no translation."""
    for name in names:
        if name not in TRANSLATED:
            raise UsageError(
                code="FKV001",
                value=repr(name),
                reason="there is no live policy of this name whose page events have a translation",
                cure=did_you_mean(name, TRANSLATED),
            )
    return resolve(names)


def sets_of(policies: Sequence[LivePolicy]) -> list[Set]:
    """The plain engine, each policy and every two and three of them that go together; sets of one engine side by side."""
    found = [s for n in range(4) for s in combinations(policies, n) if compatible(s)]
    order = {engine: i for i, engine in enumerate(dict.fromkeys(map(configured, found)))}
    return sorted(found, key=lambda s: order[configured(s)])


def conformance(
    policies: Sequence[LivePolicy],
    start: Start,
    *,
    seed: int,
    seconds: float,
    tell: Callable[[str], None] = lambda text: None,
    most: int = 10**9,
) -> list[Row]:
    """Run random schedules over all sets for so long together (starts of engines apart; at most ``most`` a set); a row a set."""
    rows = [Row(s) for s in sets_of(policies)]
    for engine in dict.fromkeys(configured(row.policies) for row in rows):
        tell(f"starting an engine ({engine.digest()})")
        with start(engine) as instance:
            for row in rows:
                if configured(row.policies) == engine:
                    # An engine's start is not taken off anybody's time.
                    _one_set(row, instance, seed, time.monotonic() + seconds / len(rows), most)
                    tell(f"{row.name}: {row.schedules} schedules, {len(row.unexplained)} unexplained")
    return rows


def _one_set(row: Row, instance: WatchedEngine, seed: int, until: float, most: int) -> None:
    for schedule in _schedules(row.policies, seed):
        if row.schedules >= most or time.monotonic() > until or len(row.unexplained) >= SHOWN:
            return
        history, result = run_one(instance, schedule)
        row.schedules += 1
        row.events += result.events
        row.looks += result.looks
        if history is not None:
            row.counters.update({k: v for k, v in history.counters.items() if k in COUNTED})
        row.explained.update(d.gap for d in result.differences if d.gap)
        if result.cut:
            row.cut[result.cut] += 1
        for difference in result.unexplained:
            small = shrunk(schedule, instance, difference)
            row.unexplained.append({**difference.as_json(), "schedule": small.as_json()})


COUNTED: Final = (
    "steps",
    "tokens",
    "hits",
    "evictions",
    "preemptions",
    "stores",
    "loads",
    "aborts",
    "forks",
    "resets",
)
"""What says that the policies of a set did something."""


def run_one(instance: WatchedEngine, schedule: LiveSchedule) -> tuple[LiveHistory | None, Translated]:
    """One schedule on an engine, held against the model; no history if the engine died."""
    try:
        history = instance.run(schedule)
    except EngineDied as death:
        return None, Translated((Difference(STATE, death.what, death.text),), 0, 0)
    return history, translate(history, schedule.pool)


def _schedules(policies: Set, seed: int) -> Iterator[LiveSchedule]:
    random = Random(f"{seed} {' '.join(p.name for p in policies)}")
    while True:
        yield draw(random, policies)


def shrunk(schedule: LiveSchedule, instance: WatchedEngine, difference: Difference) -> LiveSchedule:
    """The schedule with events left out and numbers lowered while the engine still shows a difference of this class and word."""
    runs = 0

    def shows(candidate: LiveSchedule) -> bool:
        nonlocal runs
        runs += 1
        found = run_one(instance, candidate)[1].unexplained if runs <= SHRINK_RUNS else ()
        return any((d.kind, d.what) == (difference.kind, difference.what) for d in found)

    again = True
    while again and runs < SHRINK_RUNS:
        again = False
        for i in reversed(range(len(schedule.events))):
            fewer = schedule.with_events((*schedule.events[:i], *schedule.events[i + 1 :]))
            if i < len(schedule.events) and shows(fewer):
                schedule, again = fewer, True
    for i, (op, *numbers) in enumerate(schedule.events):
        for place, (low, _) in enumerate(BOUNDS[op]):
            if numbers[place] > low:
                a, b, c = (low if j == place else n for j, n in enumerate(schedule.events[i][1:]))
                lower = schedule.with_events((*schedule.events[:i], (op, a, b, c), *schedule.events[i + 1 :]))
                if shows(lower):
                    schedule = lower
    return schedule


def report(rows: Sequence[Row], *, engine: str, seed: int) -> dict[str, Any]:
    """The whole run as plain data."""
    return {
        "schema": "fuzzkv conformance 1",
        "engine": engine,
        "seed": seed,
        "sets": [row.as_json() for row in rows],
        "gaps": [
            {
                "name": gap.name,
                "class": gap.kind,
                "reason": gap.reason,
                "met": sum(row.explained[gap.name] for row in rows),
            }
            for gap in GAPS
        ],
        "schedules": sum(row.schedules for row in rows),
        "page_events": sum(row.events for row in rows),
        "looks": sum(row.looks for row in rows),
        "cut": sum(sum(row.cut.values()) for row in rows),
        "explained": sum(sum(row.explained.values()) for row in rows),
        "unexplained": sum(len(row.unexplained) for row in rows),
        "exit_code": exit_code(rows),
    }


def exit_code(rows: Sequence[Row]) -> int:
    """0: everything is explained; 1: something isn't; 3: a set was never looked at."""
    if any(row.unexplained for row in rows):
        return EXIT_CONFLICT
    return EXIT_CLEAN if rows and all(row.schedules for row in rows) else EXIT_ENVIRONMENT
