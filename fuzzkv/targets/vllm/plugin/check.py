"""Checks whether a user's class keeps the rules when it is called alone, without an engine."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Final, Literal

from fuzzkv.targets.vllm.plugin.exercise import Broken, Exercised
from fuzzkv.targets.vllm.plugin.loading import EngineCode
from fuzzkv.targets.vllm.plugin.manager_calls import exercise_manager
from fuzzkv.targets.vllm.plugin.parts import engine_parts
from fuzzkv.targets.vllm.plugin.policy_calls import exercise_policy
from fuzzkv.targets.vllm.plugin.rules import Keeper, Rule, rules_of
from fuzzkv.targets.vllm.plugin.worker_calls import BLOCKS, WorkerSetup, exercise_pair

PAGE: Final = 4096
"""Bytes of a device block; host chunks are aligned to as much."""

KEEPS: Final[dict[str, tuple[Keeper, ...]]] = {
    "CachePolicy": ("CachePolicy", "OffloadingManager"),
    "OffloadingSpec": ("OffloadingManager", "OffloadingWorker"),
    "KVConnector": ("KVConnector",),
}
"""Whose rules a class of this kind can break: a policy can make vLLM's own manager break its rules too."""


@dataclass(frozen=True)
class RuleVerdict:
    """The verdict on one rule: ``kept`` (put to the test ``times`` times), ``broken`` or ``not exercised``."""

    rule: Rule
    verdict: Literal["kept", "broken", "not exercised"]
    times: int
    broken: Broken | None = None


@dataclass(frozen=True)
class Checked:
    """The verdicts on the rules of one class.  ``unsteady``: equal calls got different answers, so rules that compare two
    objects of the class could not be tested.
    """

    judged: tuple[RuleVerdict, ...]
    unsteady: bool

    def count(self, verdict: str) -> int:
        """Rules with this verdict."""
        return sum(one.verdict == verdict for one in self.judged)


def check_code(code: EngineCode, *, seed: int, examples: int) -> Checked:
    """Exercise a class that the user named, and say what came of each rule that it has to keep.

    A KV connector needs a live engine: alone, none of its rules is exercised.
    """
    found = Exercised()
    parts = None if code.kind == "KVConnector" else engine_parts()
    if code.kind == "CachePolicy" and parts is not None:
        found.add(exercise_policy(code.cls, seed, examples, parts=parts))
        found.add(exercise_manager(lambda frames: _around(code, frames), seed, examples, parts=parts))
    elif parts is not None:
        found.add(exercise_pair(lambda frames: _pair(code.cls, frames), seed, examples, parts=parts))
        # Without its worker the manager is also told of failed stores, and compared with a new one.
        found.add(exercise_manager(lambda frames: _manager(code.cls, frames), seed, examples, parts=parts))
    return Checked(judge(found, *KEEPS[code.kind]), found.unsteady)


def judge(found: Exercised, *keepers: Keeper) -> tuple[RuleVerdict, ...]:
    """The verdict on each rule of these keepers.  That a call returns is kept where no call failed."""
    judged = []
    for rule in rules_of(*keepers):
        times = found.checked[rule.id] or (found.examples if rule.id.endswith("-returns") else 0)
        broken = found.broken.get(rule.id)
        verdict: Literal["kept", "broken", "not exercised"] = "kept" if times else "not exercised"
        judged.append(RuleVerdict(rule, "broken" if broken else verdict, times, broken))
    return tuple(judged)


def _around(code: EngineCode, frames: int) -> Any:
    """vLLM's own manager with this policy."""
    manager = importlib.import_module("vllm.v1.kv_offload.cpu.manager")
    return manager.CPUOffloadingManager(frames, code.name, code.module, enable_events=True)


def _manager(cls: type[Any], frames: int) -> Any:
    return cls(_config(frames)).get_manager()


def _pair(cls: type[Any], frames: int) -> WorkerSetup:
    """The manager and the worker of a spec, over a small device of one layer on the CPU."""
    torch = importlib.import_module("torch")
    base = importlib.import_module("vllm.v1.kv_offload.base")
    spec = cls(_config(frames))
    memory = torch.zeros((BLOCKS, PAGE), dtype=torch.int8)
    caches = base.CanonicalKVCaches(
        [base.CanonicalKVCacheTensor(memory, PAGE)], [[base.CanonicalKVCacheRef(0, PAGE)]]
    )
    return WorkerSetup(spec.get_manager(), spec.get_worker(caches), caches, memory.numpy())


def _config(frames: int) -> Any:
    config = importlib.import_module("vllm.v1.kv_offload.config")
    parallel = config.OffloadingParallelConfig(
        rank=0,
        world_size=1,
        tp_size=1,
        pp_size=1,
        pcp_size=1,
        dcp_size=1,
        data_parallel_index=0,
        data_parallel_size=1,
        data_parallel_rank_local=None,
        is_parallelism_agnostic=True,
    )
    return config.OffloadingConfig(
        groups=(config.OffloadingGroupConfig(16, ("layers.0",), 0),),
        worker_kv_bytes_per_block=PAGE,
        enable_kv_cache_events=True,
        extra_config={"cpu_bytes_to_use": frames * PAGE, "fuzzkv_frames": frames},
        engine_id="fuzzkv",
        model=config.OffloadingModelConfig("tiny", "float32"),
        cache=config.OffloadingCacheConfig(16, 1),
        parallel=parallel,
    )
