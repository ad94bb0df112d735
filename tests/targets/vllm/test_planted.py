"""The detector on real engines: each planted fault of a host tier is found alone, named and shrunk; its twin is silent.

``python -m tests.targets.vllm.test_planted [NAME | SEED ...]`` prints what each comes to, with its numbers: seconds from nothing (no
engine started, nothing imported by one) until it was found, and until it was shrunk.

The tier keeps what requests generate, too.  Where it keeps prompts only, a request stores once, before anybody can load what it
stored; so a load in flight meets a store only where three requests are: one that stored, one that loads, one that stores.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import pytest

from fuzzkv.events import ConflictFound, Event, PhaseStarted, ShrinkStep
from fuzzkv.search.live.hunt import LiveHunt, LiveOptions
from fuzzkv.semantics.contract.evidence import COPY_IN, COPY_OUT
from fuzzkv.targets.environments import here
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.policies import LivePolicy, manifest_of, resolve
from fuzzkv.targets.vllm.pool.process import EngineProcess
from fuzzkv.targets.vllm.schedule import LiveSchedule
from fuzzkv.targets.vllm.target import BASE, Engines

FAULTS = {
    "LateCopy": {"I2", "I4", "I8"},
    "FailedDone": {"I16"},
    "ScaleLost": {"I5", "I6"},
    "WrongChunk": {"I2", "I4", "I5", "I8", "I12"},
    "DoubleFree": {"I2", "I4", "I8", "I11", "I12", "I13"},
    "ForgottenPin": {"I1", "I2", "I4", "I8", "I12", "I13"},
}
"""Name of each spec of ``tests.targets.vllm.planted``, and the invariants that its fault may come to."""
SCHEDULES = 120
MODULE = "tests.targets.vllm.planted"


@dataclass(frozen=True)
class Found:
    """What a fault came to: invariants that it broke, its smallest set, the requests and events of the shrunk schedule."""

    invariants: set[str]
    policies: tuple[str, ...] = ()
    requests: int = 0
    events: tuple[object, ...] = ()
    schedules: int = 0


@dataclass
class Clock:
    """Listens to a hunt: seconds until a failure was found, and until it was shrunk."""

    began: float = field(default_factory=time.monotonic)
    found: float = -1.0
    shrunk: float = -1.0

    def __call__(self, event: Event) -> None:
        now = time.monotonic() - self.began
        if self.found < 0 and (
            isinstance(event, ConflictFound) or (isinstance(event, PhaseStarted) and event.phase == "shrink")
        ):
            self.found = now
        if self.shrunk < 0 and isinstance(event, ShrinkStep):
            self.shrunk = now


class Calm:
    """An engine whose host tier is never reset: two resets in a row end this engine in an assertion of its own."""

    def __init__(self, instance: EngineProcess) -> None:
        self.instance = instance
        self.close = instance.close

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        return self.instance.run(
            schedule.with_events([(op, 0 if op == "reset" else a, b, c) for op, a, b, c in schedule.events])
        )


def planted(name: str) -> LivePolicy:
    """A host tier of three chunks with this fault."""
    manifest = manifest_of("offload", "near-reuse", "planted", COPY_OUT, COPY_IN, source=MODULE)
    tier = {"spec": name, "spec_module": MODULE, "frames": 3, "prompt_only": False}
    return LivePolicy(name=f"user:{name}", manifest=manifest, tier=tier, exercised=("stores", "loads"))


def hunted(
    engines: Engines,
    name: str,
    folder: Path,
    *,
    schedules: int = SCHEDULES,
    seed: int = 0,
    clock: Clock | None = None,
) -> Found:
    """The fault alone, and where that shows nothing, under pool pressure too: over so many schedules each."""
    alone = hunted_with(engines, (planted(name),), folder, schedules, seed, clock)
    if alone.invariants:
        return alone
    both = (planted(name), *resolve(["vllm:preempt"]))
    found = hunted_with(engines, both, folder, schedules, seed, clock)
    return replace(found, schedules=found.schedules + alone.schedules)


def hunted_with(
    engines: Engines,
    policies: tuple[LivePolicy, ...],
    folder: Path,
    schedules: int,
    seed: int,
    clock: Clock | None,
) -> Found:
    """One hunt of these policies."""
    options = LiveOptions(
        policies=policies,
        seed=seed,
        max_examples=schedules,
        max_time=None,
        alone=schedules // 2,
        corpus=folder,
    )
    listeners = (clock,) if clock is not None else ()
    target = replace(engines.target(BASE), start=lambda config: Calm(engines.start(config)))
    hunt = LiveHunt(options, target, listeners)
    result = hunt.run()
    ran = sum(entrant.schedules for entrant in hunt.entrants) + hunt.search.schedules
    for entrant in hunt.entrants:
        if entrant.witness is not None and entrant.verdict is not None:
            broken = {entrant.verdict.whole.outcome.failures[0].invariant}
            return Found(broken, (entrant.name,), entrant.witness.requests, entrant.witness.events, ran)
    for case in result.cases:
        requests = sum(event[0] in ("arrive", "fork") for event in case["schedule"])
        names = tuple(case["class"]["policies"])
        return Found({case["class"]["invariant"]}, names, requests, tuple(case["schedule"]), ran)
    return Found(set(), schedules=ran)


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines("cpu", here()) as made:
        yield made


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_shrunk(engines: Engines, name: str, tmp_path: Path) -> None:
    found = hunted(engines, name, tmp_path)
    assert found.invariants and found.invariants <= FAULTS[name]
    assert f"user:{name}" in found.policies and found.requests <= 2


@pytest.mark.engine
@pytest.mark.slow
def test_the_repaired_twin_is_silent(engines: Engines, tmp_path: Path) -> None:
    assert hunted(engines, "Twin", tmp_path, schedules=40) == Found(set(), schedules=32 + 92)


@pytest.mark.engine
@pytest.mark.slow
def test_requests_under_adapters_are_read_by_their_own(engines: Engines) -> None:
    session = engines.target(BASE).session(keep=2)
    one, two = ("arrive", 0, 8, 4), ("next", 0, 2, 0)
    arm = session.run(resolve(["vllm:lora"]), LiveSchedule(events=(one, two, one)))
    session.close()
    assert arm.outcome.failures == () and arm.history.adapters == (1, 2)
    assert arm.history.tokens[0] != arm.history.tokens[1] and arm.history.counters["adapted"] > 0


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if not word.isdigit()] or [*FAULTS, "Twin"]
    seeds = [int(word) for word in sys.argv[1:] if word.isdigit()] or [0]
    for one, number in product(names, seeds):
        watch = Clock()
        with Engines("cpu", here()) as ours, tempfile.TemporaryDirectory() as folder:
            told = hunted(ours, one, Path(folder), seed=number, clock=watch)
        whole = time.monotonic() - watch.began
        print(
            f"{one} seed {number}: found {watch.found:.0f} s, shrunk {watch.shrunk:.0f} s, all {whole:.0f} s: {told}"
        )
        sys.stdout.flush()
