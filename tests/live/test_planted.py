"""The detector on real engines: each planted fault of a host tier is found alone, named and shrunk; its twin is silent.

``python -m tests.live.test_planted [NAME ...]`` prints what each comes to, with its numbers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from fuzzkv.contract.evidence import COPY_IN, COPY_OUT
from fuzzkv.live.accepting import Entrant, accept
from fuzzkv.live.arms import Arms
from fuzzkv.live.hunt import BASE
from fuzzkv.live.lives import Lives
from fuzzkv.live.policies import LivePolicy, manifest_of
from fuzzkv.live.real import Engines

FAULTS = {
    "LateCopy": {"I2", "I4", "I8"},
    "FailedDone": {"I16"},
    "ScaleLost": {"I5", "I6"},
    "WrongChunk": {"I2", "I4", "I5", "I8", "I12"},
    "DoubleFree": {"I2", "I4", "I8", "I11", "I12", "I13"},
    "ForgottenPin": {"I1", "I2", "I4", "I8", "I12", "I13"},
}
"""Name of each spec of ``tests.live.planted``, and the invariants that its fault may come to."""
SCHEDULES = 150
MODULE = "tests.live.planted"


def planted(name: str) -> LivePolicy:
    """A host tier of six chunks with this fault."""
    manifest = manifest_of("offload", "near-reuse", "planted", COPY_OUT, COPY_IN, source=MODULE)
    tier = {"spec": name, "spec_module": MODULE, "frames": 6}
    return LivePolicy(name=f"user:{name}", manifest=manifest, tier=tier, exercised=("stores", "loads"))


def tried(engines: Engines, name: str, schedules: int = SCHEDULES) -> Entrant:
    """The fault alone over so many schedules."""
    lives = Lives(engines.start, BASE)
    try:
        return accept(
            Arms(lives, engines.judge),
            (planted(name),),
            seed=0,
            schedules=schedules,
            until=float("inf"),
            sound=lambda policies: "",
            tries=400,
        )
    finally:
        lives.close()


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as made:
        yield made


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_shrunk(engines: Engines, name: str) -> None:
    entrant = tried(engines, name)
    assert entrant.standing == "fails" and entrant.verdict is not None and entrant.witness is not None
    assert entrant.verdict.word == "single-policy"
    assert entrant.verdict.whole.violations[0].invariant in FAULTS[name]
    assert entrant.witness.requests <= 3


@pytest.mark.engine
@pytest.mark.slow
def test_the_repaired_twin_is_silent(engines: Engines) -> None:
    entrant = tried(engines, "Twin", 40)
    assert (entrant.standing, entrant.words) == ("passes", {"clean": 40})


if __name__ == "__main__":
    with Engines() as ours:
        for one in sys.argv[1:] or [*FAULTS, "Twin"]:
            began = time.monotonic()
            done = tried(ours, one)
            print(one, done.standing, done.schedules, done.reason, f"{time.monotonic() - began:.0f} s")
            if done.witness is not None:
                print("   ", done.witness.requests, "requests:", done.witness.as_json(), flush=True)
