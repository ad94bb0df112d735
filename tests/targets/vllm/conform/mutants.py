"""``python -m tests.targets.vllm.conform.mutants [NAME ...]``: host tiers with a planted fault under a real engine; which are seen.

Its twin without a fault stays silent. Faults that only change bytes can't be seen here: where pages are stays right.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

from fuzzkv.targets.vllm.conform.conformance import LOOKING, run_one
from fuzzkv.targets.vllm.conform.small_configs import configured, draw
from fuzzkv.targets.vllm.policies import resolve
from fuzzkv.targets.vllm.pool.process import EngineProcess
from fuzzkv.targets.vllm.schedule import LiveSchedule

SPECS = ("Twin", "Deaf", "FailedDone", "DoubleFree", "ForgottenPin", "WrongChunk")
SCHEDULES = 400
LOADING = (
    ("arrive", 0, 16, 1),
    ("step", 6, 0, 0),
    ("hold", 1, 0, 0),
    ("arrive", 0, 17, 2),
    ("step", 2, 0, 0),
    ("arrive", 4, 16, 2),
    ("step", 4, 0, 0),
)
"""A load is held while others want all of the host; seldom drawn."""


def main() -> None:
    """A line for each."""
    policies = resolve(["vllm:offload-lru", "vllm:preempt"])
    config = configured(policies)
    assert config.tier is not None
    for spec in sys.argv[1:] or SPECS:
        tier = replace(config.tier, spec=spec, spec_module="tests.targets.vllm.conform.spoilt")
        random = Random("mutants")
        with EngineProcess(replace(config, tier=tier), watchers=(LOOKING,)) as instance:
            for n in range(1, SCHEDULES + 1):
                schedule = draw(random, policies) if n > 1 else LiveSchedule(12, 256, LOADING)
                found = run_one(instance, schedule)[1].unexplained
                if found:
                    print(f"{spec}: schedule {n}: {found[0].kind} ({found[0].what}): {found[0].text}")
                    break
            else:
                print(f"{spec}: nothing unexplained in {SCHEDULES} schedules", flush=True)


if __name__ == "__main__":
    main()
