"""``python -m fuzzkv.targets.vllm.engine.attempts '["NAME", "OUT.json"]'``: try one feature of this build, for real.

Every attempt starts its own engine on a tiny model, runs one fixed set of requests and says what happened:
greedy tokens, how they compare with a plain engine's, and the counters that show whether the feature did
anything. A build that refuses says so in its own words.
"""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fuzzkv.core.files import atomic_write
from fuzzkv.targets.vllm.engine.features import ATTEMPTS, OUTPUT, PAGES, Attempt, prompts
from fuzzkv.targets.vllm.engine.models import adapter, build
from fuzzkv.targets.vllm.replay.engine import BLOCK, ENVIRONMENT, LIVE_VERSIONS, require


class AttemptEngine:
    """One engine for one attempt, with the counters that show what it did."""

    def __init__(self, attempt: Attempt) -> None:
        os.environ.update(ENVIRONMENT)
        self.version = require("cpu", LIVE_VERSIONS)
        from vllm import LLM, SamplingParams

        self.params = SamplingParams
        self.counts: Counter[str] = Counter()
        self.priorities = attempt.arguments.get("scheduling_policy") == "priority"
        self.serial = 0
        self._preempted: dict[str, int] = {}
        if "kv_transfer_config" in attempt.arguments:
            self.count_transfers()
        self.llm = LLM(
            **{
                "model": str(build(attempt.model).path),
                "skip_tokenizer_init": True,
                "dtype": "float32",
                "max_model_len": 512,
                "block_size": BLOCK,
                "enable_prefix_caching": False,
                "enforce_eager": True,
                "max_num_seqs": 1,
                "disable_log_stats": True,
                "max_num_batched_tokens": 1024,
                "num_gpu_blocks_override": PAGES + 1,
                "seed": 0,
                "async_scheduling": False,
                **attempt.arguments,
            }
        )
        self.core = self.llm.llm_engine.engine_core.engine_core
        self.scheduler = self.core.scheduler

    def run(self, asked: Sequence[tuple[int, ...]], adapters: Sequence[int] = ()) -> list[dict[str, Any]]:
        """Tokens, gaps and best log probabilities of each request, in order; all are there from the start."""
        params = self.params(
            max_tokens=OUTPUT, temperature=0.0, logprobs=2, detokenize=False, ignore_eos=True
        )
        engine, order, finished = self.llm.llm_engine, {}, []
        for i, prompt in enumerate(asked):
            extra: dict[str, Any] = {"priority": -i} if self.priorities else {}
            if adapters and adapters[i]:
                from vllm.lora.request import LoRARequest

                path = str(adapter(adapters[i]).path)
                extra["lora_request"] = LoRARequest(f"adapter{adapters[i]}", adapters[i], path)
            self.serial += 1
            order[f"r{self.serial}"] = i
            engine.add_request(f"r{self.serial}", {"prompt_token_ids": list(prompt)}, params, **extra)
        outs: list[dict[str, Any]] = [{} for _ in asked]
        while engine.has_unfinished_requests():
            self._watch()
            for out in engine.step():
                if out.finished:
                    rows, number = out.outputs[0], order[out.request_id]
                    finished.append(number)
                    outs[number] = {
                        "tokens": [int(t) for t in rows.token_ids],
                        "gaps": [_gap(row) for row in rows.logprobs],
                        "best": [_best(row) for row in rows.logprobs],
                    }
                    self.counts["hit_tokens"] += out.num_cached_tokens or 0
        self.counts["overtaken"] += sum(a > b for a, b in pairwise(finished))
        return outs

    def _watch(self) -> None:
        for rid, request in self.scheduler.requests.items():
            self.counts["partial_steps"] += int(
                0 < request.num_computed_tokens < request.num_prompt_tokens and not request.num_preemptions
            )
            self.counts["preemptions"] += request.num_preemptions - self._preempted.get(rid, 0)
            self._preempted[rid] = request.num_preemptions
            self.counts["drafted"] += len(request.spec_token_ids)

    def finish(self) -> dict[str, int]:
        """All counters, those of the configuration included."""
        groups = self.scheduler.kv_cache_manager.kv_cache_config.kv_cache_groups
        self.counts["asynchronous"] = int("Async" in type(self.scheduler).__name__)
        self.counts["second_group"] = len(groups) - 1
        return dict(self.counts)

    def cache_dtype(self) -> Any:
        """The number format of the cache's tensors."""
        return self.llm.collective_rpc(_kv_caches)[0]

    def count_transfers(self) -> None:
        """Count the pages that the host tier of this process moves."""
        from fuzzkv.targets.vllm.engine.host_tier import HostWorker

        submit = HostWorker._submit

        def counted(worker: Any, job: int, store: bool, device: Any, host: Any) -> bool:
            self.counts["stores" if store else "loads"] += len(device.block_ids)
            return submit(worker, job, store, device, host)

        HostWorker._submit = counted  # type: ignore[method-assign,assignment]


def _kv_caches(worker: Any) -> Any:
    return str(worker.model_runner.kv_caches[0].dtype)


def _gap(row: Any) -> float:
    top = sorted((x.logprob for x in row.values()), reverse=True)
    return round(float(top[0] - top[1]), 6) if len(top) > 1 else -1.0


def _best(row: Any) -> float:
    value = float(max(x.logprob for x in row.values()))
    return round(value, 6) if math.isfinite(value) else -99.0


def attempt_now(attempt: Attempt, started: Callable[[], None]) -> dict[str, Any]:
    """Run one attempt in this process; ``started`` is called when the engine stands."""
    engine = AttemptEngine(attempt)
    started()
    asked = prompts()
    found: dict[str, Any] = {}
    if "enable_lora" in attempt.arguments:
        _with_adapters(attempt, engine, asked, found)
    else:
        found["outs"] = engine.run(asked)
    if attempt.twice:
        for _ in range(2):
            engine.run([(9, 8, 7)])  # transfers are told in the next step
            engine.llm.reset_prefix_cache()
            found["again"] = engine.run(asked)
    found["counters"] = engine.finish()
    found["dtype"] = engine.cache_dtype()
    return found


def _with_adapters(
    attempt: Attempt, engine: AttemptEngine, asked: list[tuple[int, ...]], found: dict[str, Any]
) -> None:
    """``outs`` of a mixed batch, and ``expected`` where the plain engine doesn't say it."""
    if attempt.name == "lora-base":
        found["outs"] = engine.run(asked, [(0, 1, 2)[i % 3] for i in range(len(asked))])[::3]
        found["asked"] = list(range(0, len(asked), 3))
        return
    pairs = [asked[i - i % 2] for i in range(len(asked))]
    numbers = [1 + i % 2 for i in range(len(asked))]
    found["outs"] = engine.run(pairs, numbers)
    engine.llm.reset_prefix_cache()
    found["expected"] = []
    for prompt, number in zip(pairs, numbers, strict=True):
        found["expected"] += engine.run([prompt], [number])
        engine.llm.reset_prefix_cache()
    engine.counts["adapted"] = sum(
        a["tokens"] != b["tokens"] for a, b in zip(found["outs"][::2], found["outs"][1::2], strict=True)
    )


def main(argv: list[str]) -> int:
    """Run the attempt that is named; always leaves a JSON object in the output file."""
    name, file = json.loads(argv[0])
    attempt = next(a for a in ATTEMPTS if a.name == name)
    out, begun = Path(file), False

    def started() -> None:
        nonlocal begun
        begun = True

    try:
        found = attempt_now(attempt, started)
    except BaseException as e:  # whatever the engine says is the result
        traceback.print_exc()
        found = {"error": _innermost(e), "started": begun}
    atomic_write(out, json.dumps(found).encode())
    return 0


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
