"""A second toy target, of another kind than an engine of blocks: a ring of slots behind a write-behind log.

Three policies: ``log`` acknowledges a write before it is stored, ``ring`` gives the slots of the oldest write away, ``ghost`` only
counts.  Log and ring together lose an acknowledged write when its slot is taken before the flush; each alone is sound.  With
``fault`` off the ring flushes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzzkv.core.results import Failure, Outcome, class_of
from fuzzkv.strategies.space import Operation, Row, ScheduleSpace
from fuzzkv.targets.base import Arm, Language, SessionRecipe


@dataclass(frozen=True)
class ToyPolicy:
    name: str
    version: str = "1"


LOG, RING, GHOST = (ToyPolicy(name) for name in ("log", "ring", "ghost"))
ALL = {policy.name: policy for policy in (LOG, RING, GHOST)}


@dataclass(frozen=True)
class Writes:
    """``slots`` of the ring, and operations: write a key, read it, flush."""

    slots: int
    rows: tuple[Row, ...]


SPACE = ScheduleSpace(
    target="ring",
    operations=(
        Operation("read", ((0, 5),), weight=3),
        Operation("write", ((0, 5),), weight=4, opens=True),
        Operation("flush", ()),
    ),
    machine={"slots": (4, 3, 2)},
    longest=20,
    usual=(4, 16),
    moods=(("write",), ("write", "read"), ("flush", "read")),
    make=lambda machine, rows: Writes(machine[0], tuple(rows)),
    take=lambda schedule: ((schedule.slots,), schedule.rows),
)


@dataclass
class RingSession:
    fault: bool
    started: int = 1
    runs: int = 0
    steps: int = 0
    events: int = 0

    def run(self, policies: Sequence[ToyPolicy], schedule: Writes, *, fresh: bool = False) -> Arm[ToyPolicy]:
        on = {policy.name for policy in policies}
        slots: list[int] = []
        unflushed: set[int] = set()
        lost: dict[int, int] = {}
        counts = {"log": 0, "ring": 0, "ghost": len(schedule.rows)}
        failures: list[Failure] = []
        for event, (name, numbers) in enumerate(schedule.rows):
            if name == "flush":
                unflushed.clear()
            elif name == "write":
                key = numbers[0]
                lost.pop(key, None)
                if "ring" in on and len(slots) >= schedule.slots:
                    old = slots.pop(0)
                    counts["ring"] += 1
                    if old in unflushed and self.fault:
                        lost[old] = event
                    unflushed.discard(old)
                slots.append(key)
                if "log" in on:
                    unflushed.add(key)
                    counts["log"] += 1
            elif numbers[0] in lost:
                text = f"key {numbers[0]} was acknowledged, and its slot is another's"
                failures.append(Failure("I1", "lost", "ring", event, event, page=numbers[0], text=text))
        self.runs += 1
        self.steps += len(schedule.rows)
        self.events += len(schedule.rows)
        acted = sum(1 << k for k, policy in enumerate(policies) if counts[policy.name])
        exercised = {policy.name: {"acts": counts[policy.name]} for policy in policies}
        return Arm(tuple(policies), Outcome(tuple(failures), acted, counts=counts), exercised)

    def open(self, policies: Sequence[ToyPolicy]) -> None: ...
    def ahead(self, policies: Sequence[ToyPolicy]) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class RingTarget:
    fault: bool = True
    name: str = "ring"
    engine: str = "ring 1"
    device: str = "cpu"
    model: str = ""
    can: frozenset[str] = frozenset({"hunt", "replay", "shrink"})
    language: Language[Writes] = field(default_factory=lambda: Language(SPACE))

    def session(self, *, keep: int) -> RingSession:
        return RingSession(self.fault)

    def unsound(self, policies: Sequence[ToyPolicy]) -> str:
        return ""

    def remarks(self, arms: Sequence[Arm[ToyPolicy]]) -> Failure | None:
        return None

    def as_json(self) -> Mapping[str, Any]:
        return {}

    def config_of(self, schedule: Writes) -> Mapping[str, Any]:
        return {"slots": schedule.slots}

    def kept_history(self, arms: Sequence[Arm[ToyPolicy]]) -> Mapping[str, Any] | None:
        return None

    def configured_as(self, case: Mapping[str, Any]) -> RingTarget:
        return self

    def read(
        self, case: Mapping[str, Any], allowed: Mapping[str, ToyPolicy] | None = None
    ) -> SessionRecipe[Writes, ToyPolicy]:
        rows = tuple((name, tuple(numbers)) for name, *numbers in case["schedule"])
        policies = tuple(ALL[name] for name in case["class"]["policies"])
        return SessionRecipe(Writes(case["config"]["slots"], rows), policies, class_of(case))
