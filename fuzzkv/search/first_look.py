"""The first look of a hunt: its first schedules as ordinary Python, while a process beside it compiles the machine.

A fresh install compiles for half a minute, and the first conflict is often among the first twenty schedules.  So these
are looked at before anything else, whether anything has to be compiled or not: what a hunt finds doesn't depend on it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fuzzkv.cases.filing import Witness, witnesses
from fuzzkv.core.childproc import Child
from fuzzkv.core.options import HuntOptions
from fuzzkv.core.results import FailureClass
from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.core import core_is_kept
from fuzzkv.simulator.bulk.engine import BulkEngine

LOOK = 100
"""Schedules of the first look, and of a look at each policy alone before it."""


def first_look(policies: Sequence[Policy], config: Config, options: HuntOptions) -> Iterator[Witness]:
    """The classes of conflicts among the first schedules of a hunt, each as soon as it is seen; ``drawn`` schedules
    had been looked at by then.

    None with a policy that fails alone on as many, or that is called back in Python.
    """
    if len(policies) < 2 or any(policy.free for policy in policies):
        return
    count = min(LOOK, options.max_examples or LOOK)
    engine = BulkEngine(
        policies,
        config,
        enforce=options.contract == "enforce",
        seed=options.seed,
        strength=options.strength,
        compiled=core_is_kept(),
    )
    for slot in range(len(policies)):
        alone = engine.again(seed=options.seed, only=1 << slot)
        alone.search(count)
        if alone.classes:
            return
    told = set()
    while engine.drawn < count:
        engine.search(1)
        for witness in witnesses(engine.tally(), config):
            if witness.failure_class not in told and len(witness.failure_class.policies) > 1:
                told.add(witness.failure_class)
                yield witness


@contextmanager
def compiling_beside(names: Sequence[str]) -> Iterator[None]:
    """Compile the core and the rules of these policies in a process beside, if that was never done, and wait for it at
    the end.

    It only fills the cache: what it doesn't come to is compiled where it is needed.
    """
    if core_is_kept():
        yield
        return
    # As much of the path as this process has: policies may be modules of the user's.
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(part or os.getcwd() for part in sys.path)}
    with Child([sys.executable, "-m", __name__, *names], environment=path) as child:
        yield
        child.wait()


def compile_all(policies: Sequence[Policy]) -> None:
    """Call everything of the core that a hunt calls, and with it the policies' rules."""
    engine = BulkEngine(policies, Config())
    engine.search(1)
    events = engine.schedule(0).events
    engine.outcome(events, 1)
    engine.agrees(events, 1)
    engine.shows(events, FailureClass((policies[0].name,), "I1", "read"), False, ())


if __name__ == "__main__":
    compile_all(resolve(sys.argv[1:]))
