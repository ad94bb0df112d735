"""How fast a live engine is: steps/s with the tiny model, device pool and host tier both live, on one core; what the instrumentation
costs (page-event log, and the wrapper of attention metadata for page actions with no action taken), and what the oracles cost.

One process, one engine. Every schedule runs with the instrumentation off and on in direct succession, in alternating order, round by
round; a run that took another number of steps than the others would end the benchmark. Times are processor time of the one thread
that works (a shared machine disturbs it less than a clock; the clock's are told too). For every engine step the median over its runs
is taken; a ratio is that of the sums of these medians. What the same ratio is in each third of the rounds shows how far noise
moves it. Prints a table and writes ``bench/results/engine.json`` (or ``--json FILE``). ``--rounds N``: 24 unless told.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.engine.config import EngineConfig, TierConfig
from fuzzkv.targets.vllm.engine.driver import Driver
from fuzzkv.targets.vllm.engine.internals import LiveEngine, environment
from fuzzkv.targets.vllm.schedule import BOUNDS, OPS, LiveSchedule
from fuzzkv.targets.vllm.strategy import CHUNKS, POOLS, WEIGHTS

LIFE: Final = EngineConfig(prefix_cache=True, chunked=True, tier=TierConfig(frames=24))
SCHEDULES: Final = 6
ROUNDS: Final = 24
WANTED_RATE, WANTED_RATIO = 300, 1.02
PAIR: Final = ("plain", "instrumented")
ORACLES: Final = ("logged", "checked", "watched")
"""``logged`` is ``instrumented`` again, in the company that the oracles' cost is measured in."""
MODES: Final = (*PAIR, *ORACLES)

Steps = list[tuple[float, float]]
"""(processor, clock) seconds of every step of a run."""
Times = dict[str, list[list[Steps]]]
"""Mode -> schedule -> the runs of it in that mode."""


class Stopwatch:
    """A watcher that times engine steps, and what comes before and after within a step of the driver."""

    def __init__(self) -> None:
        self.steps: Steps = []
        self._began = (0.0, 0.0)

    def begin(self, engine: LiveEngine, schedule: LiveSchedule) -> None:
        """Nothing to do."""

    def before_step(self, engine: LiveEngine) -> None:
        """Start."""
        self._began = now()

    def after_step(self, engine: LiveEngine) -> Iterable[Failure]:
        """Stop."""
        cpu, clock = now()
        self.steps.append((cpu - self._began[0], clock - self._began[1]))
        return ()

    def end(self, engine: LiveEngine) -> Iterable[Failure]:
        """Nothing to do."""
        return ()


def now() -> tuple[float, float]:
    """Processor time of this thread, and the clock."""
    return time.thread_time(), time.perf_counter()


def workload(driver: Driver) -> list[LiveSchedule]:
    """The first drawn schedules (of one seed) in which the host tier serves something and nothing breaks."""
    rng = random.Random(5)
    found: list[LiveSchedule] = []
    while len(found) < SCHEDULES:
        schedule = _decoded(rng.randbytes(2 + 4 * 48))
        history = driver.run(schedule)
        if history.counters.get("loads", 0) > 1 and not history.failed:
            found.append(schedule)
    return found


def _decoded(data: bytes) -> LiveSchedule:
    """A schedule of fixed-width events: pool, chunk, then four bytes each."""
    wheel = [op for op in OPS for _ in range(WEIGHTS[op])]
    events = []
    for at in range(2, len(data), 4):
        op = wheel[data[at] % len(wheel)]
        a, b, c = (
            low + byte % (high - low + 1)
            for byte, (low, high) in zip(data[at + 1 : at + 4], BOUNDS[op], strict=True)
        )
        events.append((op, a, b, c))
    return LiveSchedule(POOLS[data[0] % len(POOLS)], CHUNKS[data[1] % len(CHUNKS)], tuple(events))


def exercised(driver: Driver, schedules: list[LiveSchedule]) -> dict[str, int]:
    """Counters of one pass."""
    found: Counter[str] = Counter()
    for schedule in schedules:
        found.update(driver.run(schedule).counters)
    return dict(sorted(found.items()))


def measure(engine: LiveEngine, schedules: list[LiveSchedule], rounds: int) -> Times:
    """Times of every step in every mode. The two modes of :data:`PAIR` take turns alone, so that nothing else comes between them."""
    from fuzzkv.targets.vllm.content.oracles import watch_content

    content = watch_content(engine)
    times: Times = {mode: [[] for _ in schedules] for mode in MODES}
    gc.disable()  # its pauses would fall on one mode or the other
    for modes, count in ((PAIR, rounds), (ORACLES, max(3, rounds // 3))):
        for turn in range(count):
            for number, schedule in enumerate(schedules):
                for mode in modes if (turn + number) % 2 else modes[::-1]:
                    watch = Stopwatch()
                    watchers = [_Around(watch, content)] if mode == "watched" else [watch]
                    instrument(engine, mode != "plain")
                    Driver(engine, watchers, checks=mode == "checked").run(schedule)
                    times[mode][number].append(watch.steps)
            gc.collect()
    gc.enable()
    instrument(engine, True)
    engine.absent.take_off()
    return times


class _Around(Stopwatch):
    """A stopwatch around an oracle."""

    def __init__(self, watch: Stopwatch, inner: Any) -> None:
        super().__init__()
        self.steps, self._inner = watch.steps, inner

    def begin(self, engine: LiveEngine, schedule: LiveSchedule) -> None:
        self._inner.begin(engine, schedule)

    def before_step(self, engine: LiveEngine) -> None:
        super().before_step(engine)
        self._inner.before_step(engine)

    def after_step(self, engine: LiveEngine) -> Iterable[Failure]:
        list(self._inner.after_step(engine))
        return super().after_step(engine)


def instrument(engine: LiveEngine, on: bool) -> None:
    """The page-event log and the page actions' wrapper, both on or both off."""
    if on:
        engine.taps.put_on()
        engine.absent.put_on()
    else:
        engine.taps.take_off()
        engine.absent.take_off()


def medians(times: Times, kind: int) -> dict[str, float]:
    """Seconds of one pass in each mode: the sum over all steps of the median over the runs."""
    return {
        mode: sum(
            statistics.median(step[kind] for step in steps)
            for runs in rows
            for steps in zip(*runs, strict=True)
        )
        for mode, rows in times.items()
    }


def thirds(times: Times, rounds: int) -> list[float]:
    """The overhead's ratio in each third of the rounds."""
    found = []
    for part in range(3):
        chosen = slice(part * rounds // 3, (part + 1) * rounds // 3)
        cpu = medians({mode: [runs[chosen] for runs in times[mode]] for mode in PAIR}, 0)
        found.append(round(cpu["instrumented"] / cpu["plain"], 4))
    return found


def main() -> int:
    """Measure, print, write; 1 if a wanted figure is missed."""
    began = time.perf_counter()
    engine = LiveEngine(LIFE)
    driver = Driver(engine)
    schedules = workload(driver)
    ready = time.perf_counter() - began
    rounds = int(_option("--rounds") or ROUNDS)
    counters = exercised(driver, schedules)
    times = measure(engine, schedules, rounds)
    steps = sum(len(runs[0]) for runs in times["plain"])
    cpu, clock = medians(times, 0), medians(times, 1)
    ratio = cpu["instrumented"] / cpu["plain"]
    result = {
        "engine": engine.version,
        "config": LIFE.digest(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "schedules": SCHEDULES,
        "rounds": rounds,
        "steps_per_pass": steps,
        "start_s": round(ready, 1),
        "steps_per_s": {m: round(steps / cpu[m], 1) for m in MODES},
        "steps_per_s_by_the_clock": {m: round(steps / clock[m], 1) for m in MODES},
        "ms_per_step": {m: round(1e3 * cpu[m] / steps, 4) for m in MODES},
        "overhead_ratio": round(ratio, 4),
        "overhead_ratio_in_thirds": thirds(times, rounds),
        "overhead_ratio_by_the_clock": round(clock["instrumented"] / clock["plain"], 4),
        "oracle_ms_per_step": {
            "pool": round(1e3 * (cpu["checked"] - cpu["logged"]) / steps, 4),
            "content": round(1e3 * (cpu["watched"] - cpu["logged"]) / steps, 4),
        },
        "exercised": counters,
        "wanted": {"steps_per_s": WANTED_RATE, "overhead_ratio": WANTED_RATIO},
    }
    _print(result)
    path = Path(_option("--json") or Path(__file__).parent / "results" / "engine.json")
    path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(steps / cpu["watched"] < WANTED_RATE or ratio > WANTED_RATIO)


def _print(r: dict[str, Any]) -> None:
    print(f"{r['engine']}, {r['steps_per_pass']} steps a pass, {r['rounds']} rounds, {r['threads']} thread")
    print(f"{'':28}{'ms a step':>12}{'steps/s':>10}{'by the clock':>14}")
    names = dict(
        zip(
            MODES,
            ("as vLLM is", "log and page actions on", "the same again", "+ pool checks", "+ content oracle"),
            strict=True,
        )
    )
    for mode in MODES:
        rate, clock = r["steps_per_s"][mode], r["steps_per_s_by_the_clock"][mode]
        print(f"{names[mode]:28}{r['ms_per_step'][mode]:12.3f}{rate:10.0f}{clock:14.0f}")
    part = ", ".join(f"{100 * (x - 1):.2f}" for x in r["overhead_ratio_in_thirds"])
    print(
        f"overhead of the instrumentation, no action taken: {100 * (r['overhead_ratio'] - 1):.2f} % (wanted: at most 2)"
    )
    print(f"the same in each third of the rounds: {part} %")
    e = r["exercised"]
    print(
        f"exercised: {e.get('hits', 0)} hits, {e.get('stores', 0)} stores, {e.get('loads', 0)} loads, "
        f"{e.get('preemptions', 0)} preemptions, {e.get('tier_evictions', 0)} evictions of the tier"
    )


def _option(name: str) -> str | None:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv[:-1] else None


if __name__ == "__main__":
    if any(os.environ.get(k) != v for k, v in environment().items()):
        os.execve(
            sys.executable,
            [sys.executable, "-m", "bench.engine", *sys.argv[1:]],
            {**os.environ, **environment()},
        )
    raise SystemExit(main())
