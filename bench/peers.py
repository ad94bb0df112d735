"""The peers of the discovery benchmark that run the interpreted model: Hypothesis' rule-based state machine, a plain
random loop, and Atheris (``bench.uniform`` is the random loop on the compiled one).

``python -m bench.peers PEER TARGET SEED CAP`` runs one and prints one line of JSON; a run that hasn't found
the conflict after ``CAP`` seconds says so.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from contextlib import suppress
from typing import Any

from bench.targets import Event, Model, Target, targets
from fuzzkv.semantics.schedule import ACT, BOUNDS

PEERS = ("state machine", "random loop", "atheris")
LONGEST = 64
"""Events of a run, as in fuzzkv's own search."""


class _Stop(KeyboardInterrupt):
    """Found, or out of time: passes through Hypothesis."""


class Watch:
    """The time and the first detection of one run."""

    def __init__(self, target: Target, cap: float) -> None:
        born = time.perf_counter()
        self.model, self.cap = Model(target), cap
        self.found = False
        self.start(born)

    def start(self, born: float) -> None:
        """Begin to count: all is prepared that this tool needs, since ``born``."""
        self.began = time.perf_counter()
        self.ready = self.began - born

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.began

    @property
    def over(self) -> bool:
        """Whether the cap is reached."""
        return self.seconds > self.cap

    def look(self, events: list[Event]) -> bool:
        """The set has failed on these events: is it the conflict?"""
        self.found = self.model.conflict(events)
        return self.found

    def result(self) -> dict[str, Any]:
        """What came of it."""
        return {
            "found": self.found,
            "seconds": round(self.seconds, 6),
            "schedules": self.model.schedules,
            "runs": self.model.runs,
            "primitives": self.model.primitives,
            "ready_s": round(self.ready, 3),
        }


def limits(target: Target, op: int) -> tuple[int, int, int, int]:
    """Least and largest ``a`` and ``b`` of an event for this set."""
    low_a, high_a, low_b, high_b = BOUNDS[op]
    return (0, len(target.policies) - 1, 0, 0) if op == ACT else (low_a, high_a, low_b, high_b)


def random_loop(target: Target, seed: int, cap: float) -> dict[str, Any]:
    """Uniform events from the same alphabet, run after run."""
    rng = random.Random(seed)
    watch = Watch(target, cap)
    while not watch.found and not watch.over:
        state, events = watch.model.start(), []
        for e in range(LONGEST):
            op = rng.choice(target.ops)
            low_a, high_a, low_b, high_b = limits(target, op)
            events.append((op, rng.randint(low_a, high_a), rng.randint(low_b, high_b)))
            if watch.model.step(state, e, events[-1]):
                watch.look(events)
                break
    return watch.result()


def state_machine(target: Target, seed: int, cap: float) -> dict[str, Any]:
    """Hypothesis' rule-based state machine: a rule an event kind, the check after each."""
    import hypothesis
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

    watch = Watch(target, cap)

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.state: list[int] = watch.model.start()
            self.events: list[Event] = []
            self.failed = False

        def happen(self, op: int, a: int, b: int) -> None:
            if watch.over:
                raise _Stop
            if not self.failed:
                self.events.append((op, a, b))
                self.failed = watch.model.step(self.state, len(self.events) - 1, self.events[-1])
                if self.failed and watch.look(self.events):
                    raise _Stop

    for op in target.ops:
        low_a, high_a, low_b, high_b = limits(target, op)

        def step(self: Machine, a: int, b: int, op: int = op) -> None:
            self.happen(op, a, b)

        step.__name__ = f"event_{op}"
        made = rule(a=st.integers(low_a, high_a), b=st.integers(low_b, high_b))(step)
        setattr(Machine, step.__name__, made)
    options = settings(
        max_examples=10_000_000,
        stateful_step_count=LONGEST,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    with suppress(_Stop):
        run_state_machine_as_test(hypothesis.seed(seed)(Machine), settings=options)
    return watch.result()


def atheris_run(target: Target, seed: int, cap: float) -> dict[str, Any]:
    """Atheris: libFuzzer's coverage guidance over the instrumented Python text.  Doesn't return."""
    import atheris

    born = time.perf_counter()
    watch = Watch(target, cap)
    for function in {
        id(f): f for f in watch.model.apply.__globals__.values() if hasattr(f, "__code__")
    }.values():
        atheris.instrument_func(function)

    def stop() -> None:
        print(json.dumps(watch.result()), flush=True)
        os._exit(0)

    def one(data: bytes) -> None:
        if watch.over:
            stop()
        source = atheris.FuzzedDataProvider(data)
        state, events = watch.model.start(), []
        for e in range(LONGEST):
            if source.remaining_bytes() == 0:
                break
            op = target.ops[source.ConsumeIntInRange(0, len(target.ops) - 1)]
            low_a, high_a, low_b, high_b = limits(target, op)
            a, b = source.ConsumeIntInRange(low_a, high_a), source.ConsumeIntInRange(low_b, high_b)
            events.append((op, a, b))
            if watch.model.step(state, e, events[-1]):
                if watch.look(events):
                    stop()
                break

    watch.start(born)
    arguments = ["bench", f"-seed={seed + 1}", f"-max_len={3 * LONGEST}", "-verbosity=0", "-len_control=0"]
    atheris.Setup(arguments, one)
    atheris.Fuzz()
    raise SystemExit(1)


def main() -> None:
    """Run one peer and print what came of it."""
    peer, name, seed, cap = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    target = next(t for t in targets() if t.name == name)
    run = {"state machine": state_machine, "random loop": random_loop, "atheris": atheris_run}[peer]
    print(json.dumps(run(target, seed, cap)), flush=True)


if __name__ == "__main__":
    main()
