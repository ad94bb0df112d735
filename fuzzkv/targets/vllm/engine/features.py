"""A catalogue of the engine's features to try, each with what shows that it was exercised. Standard library only.

A feature that is a live policy has the policy's name without its ``vllm:``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fuzzkv.targets.vllm.replay.engine import BLOCK

OUTPUT: Final = 12
REQUESTS: Final = 24
PAGES: Final = 96


def prompts(count: int = REQUESTS) -> list[tuple[int, ...]]:
    """Fixed prompts: families of four share three full blocks; own tails of 5 to 90 tokens."""
    found = []
    for i in range(count):
        family, state = i % 6, 97 * i + 13
        shared = [3 + (family * 61 + j * 7 + j * j) % 500 for j in range(3 * BLOCK)]
        tail = []
        for _ in range(5 + (i * 37) % 86):
            state = (state * 1103515245 + 12345) % 2**31
            tail.append(3 + (state >> 8) % 500)
        found.append((*shared, *tail))
    return found


@dataclass(frozen=True)
class Attempt:
    """One thing to try: engine arguments beside the plain ones, and what shows that it was exercised.

    ``model``: the tiny model; ``against``: the attempt whose tokens must come out (the plain engine of that
    model); ``lossy``: other tokens are allowed as long as they stay near; ``proof``: a counter that must be
    above zero; ``twice``: run the requests again, with the device's prefix cache reset between.
    """

    name: str
    tried: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    model: str = "tiny"
    against: str = "plain"
    lossy: bool = False
    proof: str = ""
    twice: bool = False


def _tier(**extra: Any) -> dict[str, Any]:
    return {
        "enable_prefix_caching": True,
        "kv_transfer_config": {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "cpu_bytes_to_use": 64 << 20,
                "spec_name": "HostSpec",
                "spec_module_path": "fuzzkv.targets.vllm.engine.host_tier",
                "fuzzkv_frames": 256,
                **extra,
            },
        },
    }


_LORA: Final[dict[str, Any]] = {
    "enable_lora": True,
    "max_loras": 2,
    "max_lora_rank": 8,
    "max_num_seqs": 8,
}


def _dtype(name: str) -> Attempt:
    return Attempt(
        f"kv-{name.replace('_', '-')}",
        f"kv_cache_dtype={name}: first tokens and their log probabilities against the plain engine",
        {"kv_cache_dtype": name},
        lossy=True,
    )


ATTEMPTS: Final[tuple[Attempt, ...]] = (
    Attempt("plain", "one request at a time, no prefix cache, whole prompts"),
    Attempt("batched", "eight requests at a time, no cache policy", {"max_num_seqs": 8}),
    Attempt(
        "prefix-cache",
        "prompts that share three blocks",
        {"enable_prefix_caching": True, "max_num_seqs": 8},
        proof="hit_tokens",
    ),
    Attempt(
        "chunked-prefill",
        "a step of 48 tokens",
        {"max_num_batched_tokens": 48, "enable_chunked_prefill": True, "max_num_seqs": 8},
        proof="partial_steps",
    ),
    Attempt(
        "preempt",
        "eight requests in a pool of 14 blocks",
        {"num_gpu_blocks_override": 15, "max_num_seqs": 8, "max_model_len": 320},
        proof="preemptions",
    ),
    Attempt(
        "priority",
        "scheduling_policy=priority, later requests first",
        {"scheduling_policy": "priority", "max_num_seqs": 2},
        proof="overtaken",
    ),
    Attempt(
        "async-scheduling",
        "async_scheduling=True, and whether the engine's scheduler is the asynchronous one",
        {"async_scheduling": True, "max_num_seqs": 8},
        proof="asynchronous",
    ),
    Attempt(
        "offload-native",
        "OffloadingConnector with vLLM's own CPUOffloadingSpec",
        _tier(spec_name="CPUOffloadingSpec"),
        proof="loads",
        twice=True,
    ),
    Attempt("offload-lru", "host tier under LRU", _tier(eviction_policy="lru"), proof="loads", twice=True),
    Attempt("offload-arc", "host tier under ARC", _tier(eviction_policy="arc"), proof="loads", twice=True),
    Attempt("offload-chunk2", "chunks of two blocks", _tier(blocks_per_chunk=2), proof="loads", twice=True),
    Attempt(
        "store-threshold",
        "store_threshold=2: stored when offered twice",
        _tier(store_threshold=2),
        proof="loads",
        twice=True,
    ),
    Attempt(
        "offload-outputs",
        "offload_prompt_only=False",
        _tier(offload_prompt_only=False),
        proof="loads",
        twice=True,
    ),
    Attempt(
        "plain-window", "the windowed model alone, one at a time", model="window", against="plain-window"
    ),
    Attempt(
        "window-only",
        "a sliding window of two blocks in every layer, with prefix cache",
        {"enable_prefix_caching": True, "max_num_seqs": 8},
        model="window",
        against="plain-window",
        proof="hit_tokens",
    ),
    Attempt("plain-hybrid", "the hybrid model alone, one at a time", model="hybrid", against="plain-hybrid"),
    Attempt(
        "sliding-window",
        "full and windowed layers in turn: several KV cache groups, with prefix cache",
        {"enable_prefix_caching": True, "max_num_seqs": 8, "disable_hybrid_kv_cache_manager": False},
        model="hybrid",
        against="plain-hybrid",
        proof="second_group",
    ),
    Attempt(
        "sliding-window-offload",
        "the hybrid model over the host tier",
        {**_tier(), "disable_hybrid_kv_cache_manager": False},
        model="hybrid",
        against="plain-hybrid",
        proof="loads",
        twice=True,
    ),
    Attempt("lora", "two random adapters in one batch, against each alone", _LORA, proof="adapted"),
    Attempt("lora-base", "requests of the base model beside adapters, against the plain engine", _LORA),
    Attempt(
        "lora-prefix-cache",
        "one prompt under two adapters, prefix cache on, against each alone",
        {**_LORA, "enable_prefix_caching": True},
        proof="adapted",
    ),
    Attempt(
        "ngram",
        "n-gram drafts of three tokens",
        {
            "speculative_config": {
                "method": "ngram",
                "num_speculative_tokens": 3,
                "prompt_lookup_max": 2,
                "prompt_lookup_min": 1,
            },
            "max_num_seqs": 8,
        },
        proof="drafted",
    ),
    *(
        _dtype(name)
        for name in (
            "fp8",
            "fp8_e4m3",
            "fp8_e5m2",
            "int8_per_token_head",
            "fp8_per_token_head",
            "int4_per_token_head",
            "nvfp4",
            "turboquant_4bit_nc",
            "bfloat16",
        )
    ),
)
