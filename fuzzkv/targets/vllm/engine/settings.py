"""vLLM's own configuration of an engine instance. Imports vllm inside its functions."""

from __future__ import annotations

import json
from typing import Any, Final

from fuzzkv.targets.vllm.engine import models
from fuzzkv.targets.vllm.engine.config import EngineConfig, TierConfig
from fuzzkv.targets.vllm.schedule import BLOCK

PAGE_BYTES_AT_MOST: Final = 1 << 20
"""So that a spec that counts bytes finds room for at least as many chunks as were asked for."""


def engine_settings(config: EngineConfig) -> Any:
    """vLLM's own configuration of an engine."""
    from vllm.engine.arg_utils import EngineArgs

    more: dict[str, Any] = {}
    if config.tier is not None:
        more["kv_transfer_config"] = _transfer_settings(config.tier)
    if config.draft:
        more["speculative_config"] = {
            "method": "ngram",
            "num_speculative_tokens": config.draft,
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        }
    if config.adapters:
        more.update(enable_lora=True, max_loras=config.adapters, max_lora_rank=8)
    tokens = config.step_tokens if config.chunked else max(config.step_tokens, config.context)
    return EngineArgs(
        model=str(models.build(config.model).path),
        skip_tokenizer_init=True,
        dtype="float32",
        kv_cache_dtype=config.kv_dtype,
        max_model_len=config.context,
        block_size=BLOCK,
        enable_prefix_caching=config.prefix_cache,
        enable_chunked_prefill=config.chunked,
        enforce_eager=True,
        max_num_seqs=config.requests,
        max_num_batched_tokens=max(tokens, config.requests),
        num_gpu_blocks_override=config.pages + 1,
        scheduling_policy="priority",
        async_scheduling=config.async_scheduling,
        disable_log_stats=True,
        gpu_memory_utilization=0.5,
        seed=0,
        **more,
    ).create_engine_config()


def _transfer_settings(tier: TierConfig) -> Any:
    from vllm.config import KVTransferConfig

    extra: dict[str, Any] = {
        "spec_name": tier.spec or "HostSpec",
        "spec_module_path": tier.spec_module or "fuzzkv.targets.vllm.engine.host_tier",
        "cpu_bytes_to_use": tier.frames * tier.blocks_per_chunk * PAGE_BYTES_AT_MOST,
        "blocks_per_chunk": tier.blocks_per_chunk,
        "eviction_policy": tier.policy,
        "store_threshold": tier.store_threshold,
        "offload_prompt_only": tier.prompt_only,
        "fuzzkv_frames": tier.frames,
        "fuzzkv_copies": tier.copies,
        "fuzzkv_order": tier.order,
        "fuzzkv_failure": tier.failure,
    }
    if tier.module:
        extra["cache_policy_module_path"] = tier.module
    recover = tier.failure == "recover"
    return KVTransferConfig(
        kv_connector="RecoveringConnector" if recover else "OffloadingConnector",
        kv_connector_module_path="fuzzkv.targets.vllm.engine.host_tier" if recover else None,
        kv_role="kv_both",
        engine_id="fuzzkv",
        kv_load_failure_policy="recompute" if recover else "fail",
        kv_connector_extra_config=json.loads(json.dumps(extra)),
    )
