"""Tiny models beside the exactness model of :mod:`fuzzkv.targets.vllm.replay.models`, for engine features that it lacks.

``hybrid``
    The tiny Llama with four layers, every other one with a sliding window of 64 tokens: two KV cache groups.
``window``
    The same with a window in every layer: one KV cache group that forgets.
``adapter-N``
    A random LoRA adapter of rank 4 for the tiny Llama (and the hybrid: names are the same), saved in PEFT's
    form.

All are random, from fixed seeds, in float32, and sharp enough that foreign bytes change greedy tokens. Builds
are atomic and live beside the others in the user's cache folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from fuzzkv.core.cache import cache_root
from fuzzkv.errors import UsageError
from fuzzkv.targets.vllm.replay import models as base
from fuzzkv.targets.vllm.replay.models import BuiltModel

RECIPE: Final = "1"
"""Raise it whenever a builder below changes what it writes."""

WINDOW: Final = 64
"""Tokens that a windowed layer sees: two pages."""
LAYERS: Final = 4
RANK: Final = 4

_PROJECTIONS: Final = {"q_proj": (64, 64), "v_proj": (64, 32)}
"""Adapted modules of a layer, with their input and output sizes in the tiny Llama."""


def _config(pattern: tuple[str, ...]) -> dict[str, Any]:
    return {
        **base.TINY_CONFIG,
        "num_hidden_layers": LAYERS,
        "layer_types": [pattern[i % len(pattern)] for i in range(LAYERS)],
        "sliding_window": WINDOW,
    }


CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "hybrid": _config(("sliding_attention", "full_attention")),
    "window": _config(("sliding_attention",)),
}


def build(name: str, root: Path | None = None) -> BuiltModel:
    """The model of this name (``tiny``, ``smollm2``, ``hybrid`` or ``window``), built first where the cache
    lacks it (a second or so).

    Raises FKV031 (no such model), FKV054 (a broken build in the cache).
    """
    if name in CONFIGS:
        return _built(name, CONFIGS[name], root, lambda out: _write_model(out, CONFIGS[name]))
    if name in ("tiny", "smollm2"):
        return base.build(name, root)
    raise UsageError(
        code="FKV031",
        value=name,
        reason="no such live model",
        cure="use 'tiny', 'smollm2', 'hybrid' or 'window'",
    )


def model_digest(name: str) -> str:
    """The digest of a model, which needn't be built. Raises as :func:`build` does."""
    return base.digest_of([RECIPE, CONFIGS[name]]) if name in CONFIGS else base.model_digest(name)


def adapter(number: int, root: Path | None = None) -> BuiltModel:
    """A random adapter (0, 1, 2 ...): every number is another one, always the same for the number."""
    config = _adapter_config(number)
    return _built(f"adapter{number}", config, root, lambda out: _write_adapter(out, number, config))


def adapter_digest(number: int) -> str:
    """The digest of an adapter, which needn't be built."""
    return base.digest_of([RECIPE, _adapter_config(number)])


def _adapter_config(number: int) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "target_modules": sorted(_PROJECTIONS),
        "bias": "none",
        "seed": number,
    }


def _built(name: str, config: dict[str, Any], root: Path | None, write: Any) -> BuiltModel:
    digest = base.digest_of([RECIPE, config])
    return BuiltModel(name, base.built_once(name, digest, root or cache_root(), write), digest, {})


def _write_model(out: Path, config: dict[str, Any]) -> None:
    import torch

    generator = torch.Generator().manual_seed(20261130)
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]

    def weight(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator) * config["initializer_range"]

    tensors = {
        "model.embed_tokens.weight": weight(config["vocab_size"], hidden),
        "model.norm.weight": torch.ones(hidden),
        "lm_head.weight": weight(config["vocab_size"], hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors |= {
            f"{at}self_attn.q_proj.weight": weight(heads * head, hidden),
            f"{at}self_attn.k_proj.weight": weight(kv * head, hidden),
            f"{at}self_attn.v_proj.weight": weight(kv * head, hidden),
            f"{at}self_attn.o_proj.weight": weight(hidden, heads * head),
            f"{at}mlp.gate_proj.weight": weight(inner, hidden),
            f"{at}mlp.up_proj.weight": weight(inner, hidden),
            f"{at}mlp.down_proj.weight": weight(hidden, inner),
            f"{at}input_layernorm.weight": torch.ones(hidden),
            f"{at}post_attention_layernorm.weight": torch.ones(hidden),
        }
    base.save(out, config, tensors)


def _write_adapter(out: Path, number: int, config: dict[str, Any]) -> None:
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(7000 + number)
    tensors = {}
    for layer in range(base.TINY_CONFIG["num_hidden_layers"]):
        for module, (inputs, outputs) in _PROJECTIONS.items():
            at = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            tensors[f"{at}.lora_A.weight"] = torch.randn(RANK, inputs, generator=generator) * 0.5
            tensors[f"{at}.lora_B.weight"] = torch.randn(outputs, RANK, generator=generator) * 0.5
    save_file(tensors, str(out / "adapter_model.safetensors"), metadata={"format": "pt"})
    (out / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True), encoding="utf-8")
