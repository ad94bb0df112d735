"""Logs of a real engine, kept so that the translation can be tested without one (``python -m tests.targets.vllm.conform.recorded`` makes
them again), and faults planted in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from fuzzkv.targets.vllm.conform.observing import LOOK
from fuzzkv.targets.vllm.history import LiveHistory, Row, history_from_json
from fuzzkv.targets.vllm.schedule import LiveSchedule, schedule_from_json

FILE = Path(__file__).with_name("recorded.json")
SCHEDULES = {
    "shared": (12, (("arrive", 0, 8, 3), ("step", 4, 0, 0), ("arrive", 1, 13, 3), ("step", 6, 0, 0), ("arrive", 0, 8, 3))),
    "held": (12, (("hold", 1, 0, 0), ("arrive", 0, 9, 3), ("step", 3, 0, 0), ("arrive", 1, 13, 20), ("complete", 0, 0, 0),
                  ("step", 6, 0, 0), ("abort", 0, 0, 0), ("step", 2, 0, 0))),
    "tight": (6, (("arrive", 0, 4, 34), ("step", 1, 0, 0), ("arrive", 4, 12, 34), ("step", 8, 0, 0))),
    "reused": (4, (("hold", 1, 0, 0), ("arrive", 0, 8, 2), ("step", 8, 0, 0), ("arrive", 4, 8, 2), ("step", 8, 0, 0))),
    "full": (12, (("arrive", 0, 16, 1), ("step", 4, 0, 0), ("arrive", 4, 16, 1), ("step", 4, 0, 0), ("arrive", 4, 12, 1))),
    "sharing": (5, (("arrive", 0, 11, 4), ("hold", 1, 0, 0), ("fork", 0, 5, 3), ("step", 3, 0, 0))),
    "waiting": (7, (("arrive", 3, 13, 1), ("fork", 0, 4, 4), ("arrive", 3, 8, 20))),
    "afterwards": (12, (("arrive", 0, 14, 1), ("arrive", 2, 16, 2))),
    "brief": (12, (("arrive", 0, 12, 3), ("fork", 0, 4, 1))),
}  # fmt: skip
ONLY = {
    "sharing": "vllm:offload-lru+vllm:prefix-cache",
    "waiting": "vllm:offload-lru",
    "afterwards": "vllm:offload-lru",
    "brief": "vllm:offload-lru",
}
"""Schedules that are kept for one set alone: each met a gap that was not known before."""
SETS = ((), ("vllm:prefix-cache",), ("vllm:offload-lru",), ("vllm:offload-lru", "vllm:prefix-cache"))


@cache
def recorded() -> dict[str, tuple[LiveSchedule, LiveHistory]]:
    """All of them, by set and schedule."""
    data = json.loads(FILE.read_text())
    return {
        name: (schedule_from_json(one["schedule"]), history_from_json(one["history"]))
        for name, one in data.items()
    }


def with_log(history: LiveHistory, rows: list[Row]) -> LiveHistory:
    """The same run with another log."""
    return replace(history, log=tuple(rows))


def places(history: LiveHistory, what: str) -> list[int]:
    """Where the log has rows of this name."""
    return [i for i, row in enumerate(history.log) if row[0] == what]


def late_stores(history: LiveHistory) -> Iterator[LiveHistory]:
    """Every store that ends before its block is somebody else's, made to end after that; the looks say so as well."""
    for begin in places(history, "store+"):
        job, blocks = history.log[begin][1], set(history.log[begin][2::2])
        end = next(i for i in places(history, "store-") if history.log[i][1] == job)
        taken = [i for i in places(history, "alloc") if i > begin and blocks & set(history.log[i][2:])]
        if not taken:
            continue
        keys = next((r[1:] for r in history.log[end:] if r[0] == "ready"), ())
        rows: list[Row] = []
        tail: list[Row] = []
        until = next((i for i in places(history, LOOK + "end") if i > taken[0]), len(history.log))
        for i, row in enumerate(history.log):
            late = end <= i <= until
            if late and (
                row == ("store-", job) or row == ("store=", job) or (row[0] == "ready" and row[1:] == keys)
            ):
                tail.append(row)
                continue
            if late and row[0] == LOOK + "flight":
                row = (LOOK + "flight", *sorted({*row[1:], job}))  # type: ignore[type-var]
            if late and row[0] == LOOK + "host":
                pairs = zip(row[1::2], row[2::2], strict=True)
                row = (LOOK + "host", *(n for k, ready in pairs for n in (k, 0 if k in keys else ready)))
            rows.append(row)
            if i == until:
                rows += tail
        yield with_log(history, rows)


def main() -> None:
    """Run the schedules on engines and keep what came of them, but for runs that leave the model's size."""
    from fuzzkv.targets.vllm.conform.conformance import LOOKING
    from fuzzkv.targets.vllm.conform.small_configs import configured
    from fuzzkv.targets.vllm.conform.translate import translate
    from fuzzkv.targets.vllm.policies import resolve
    from fuzzkv.targets.vllm.pool.process import EngineProcess

    kept = {}
    for names in SETS:
        with EngineProcess(configured(resolve(names) if names else ()), watchers=(LOOKING,)) as instance:
            for name, (pool, events) in SCHEDULES.items():
                if ONLY.get(name, "+".join(names)) != "+".join(names):
                    continue
                schedule = LiveSchedule(pool, 256, events)
                run = instance.run(schedule)
                if translate(run, pool).cut:
                    continue
                history = {**run.as_json(), "margins": []}
                kept[f"{name} on {'+'.join(names) or 'plain'}"] = {
                    "schedule": schedule.as_json(),
                    "history": history,
                }
    FILE.write_text(json.dumps(kept, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
