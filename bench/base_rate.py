"""How often a busy engine differs from itself with no cache policy on: the noise under which no difference counts.

Schedules of arrivals, forks and aborts run on a plain engine in busy batches, in chunks and with preemption; then every request is
asked again of the isolated control. Prints and writes ``bench/results/base_rate.json`` (or ``--json FILE``): requests, tokens, how many
differ, and by how much the gap of the two best logits moved at most. ``--schedules N``: 40 unless told. Two engines, one after the
other; two minutes a number format.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

from fuzzkv.targets.vllm.content.control import Control
from fuzzkv.targets.vllm.content.oracles import token_violations
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.pool.process import EngineProcess
from fuzzkv.targets.vllm.portfolio import EnginePortfolio, Form

FORMATS: Final = ("auto", "fp8", "fp8_e5m2")
RESULT: Final = Path(__file__).parent / "results" / "base_rate.json"


def main() -> int:
    """Measure all number formats; 1 if any request differs beyond a tie."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--schedules", type=int, default=40)
    parser.add_argument("--json", type=Path, default=RESULT)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for kv_dtype in FORMATS:
        found[kv_dtype] = measure(kv_dtype, given.schedules)
        print(kv_dtype, json.dumps(found[kv_dtype]))
    given.json.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(any(one["differ"] for one in found.values()))


def measure(kv_dtype: str, schedules: int) -> dict[str, Any]:
    """One number format."""
    config = EngineConfig(kv_dtype=kv_dtype, chunked=True)
    portfolio = EnginePortfolio(Form(tier=False), f"base rate {kv_dtype}")
    with EngineProcess(config, watchers=["fuzzkv.targets.vllm.content.oracles:watch_content"]) as instance:
        histories = [instance.run(portfolio.draw()) for _ in range(schedules)]
        engine = instance.engine
    with Control(kv_dtype=kv_dtype) as control:
        return {"engine": engine, **compare(histories, control)}


def compare(histories: list[LiveHistory], control: Control) -> dict[str, Any]:
    """Counts over all requests of some runs."""
    moved, smallest = 0.0, float("inf")
    count = dict.fromkeys(("requests", "tokens", "differ", "ties", "pages_checked", "preemptions"), 0)
    for history in histories:
        answers = control.for_history(history)
        compared = token_violations(history, answers)
        count["requests"] += sum(answer is not None for answer in answers)
        count["tokens"] += compared.tokens
        count["differ"] += len(compared.failures)
        count["ties"] += compared.ties
        for name in ("pages_checked", "preemptions"):
            count[name] += history.counters.get(name, 0)
        for made, margins, answer in zip(history.tokens, history.margins, answers, strict=True):
            rows = zip(made, margins, *(answer.tokens, answer.gaps) if answer else ((), ()), strict=False)
            for token, margin, alone, gap in rows:
                if token != alone:
                    break
                moved, smallest = max(moved, abs(margin - gap)), min(smallest, gap)
    wrong = [f"{v.invariant} {v.action}: {v.text}" for h in histories for v in h.failures]
    return {
        **count,
        "most_that_a_gap_moved": round(moved, 9),
        "smallest_gap": round(smallest, 6),
        "violations_seen": wrong[:5],
    }


if __name__ == "__main__":
    raise SystemExit(main())
