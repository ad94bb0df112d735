"""A plain float32 Llama that makes only keys and values, as the reference for what a block ought to hold.

It is written from the model's definition, in numpy, and shares nothing with the engine but the weights. Keys are
given with their rotary position, as an engine caches them. In layer 0 keys and values depend on a token and its
position alone; deeper down on everything before, so a :class:`Chain` remembers the blocks that it made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
CHAINS_AT_MOST: Final = 20_000
"""Blocks that are remembered (16 KB each with the tiny model) before all are forgotten."""


def _exactly(x: Floats) -> Floats:
    return x


@dataclass(frozen=True)
class _Layer:
    q: Floats
    k: Floats
    v: Floats
    o: Floats
    gate: Floats
    up: Floats
    down: Floats
    before: Floats
    after: Floats
    window: int


class Reference:
    """The model at ``path``, with the adapter at ``adapter`` (a PEFT folder) merged in, if one is given.

    ``stored`` rounds keys and values as the cache's number format does (the identity for float32).
    """

    def __init__(
        self, path: Path, *, adapter: Path | None = None, stored: Callable[[Floats], Floats] = _exactly
    ) -> None:
        from safetensors.numpy import load_file

        config: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
        weights = {
            k: np.asarray(v, np.float32) for k, v in load_file(str(path / "model.safetensors")).items()
        }
        if adapter is not None:
            _merge(weights, adapter)
        self.heads, self.kv = int(config["num_attention_heads"]), int(config["num_key_value_heads"])
        self.head = int(config["head_dim"])
        self.vocabulary, self.epsilon = int(config["vocab_size"]), float(config["rms_norm_eps"])
        self.stored = stored
        self.embed = weights["model.embed_tokens.weight"]
        types = config.get("layer_types") or ["full_attention"] * int(config["num_hidden_layers"])
        self.layers = [
            _layer(weights, i, int(config["sliding_window"]) if kind == "sliding_attention" else 0)
            for i, kind in enumerate(types)
        ]
        half = self.head // 2
        theta = float(config.get("rope_theta", 10000.0))
        self.frequencies = (1.0 / theta ** (np.arange(half, dtype=np.float32) / half)).astype(np.float32)

    def first_layer(self, tokens: Sequence[int], start: int) -> tuple[Floats, Floats]:
        """Keys and values of layer 0 for tokens from position ``start`` on: two arrays (n, kv heads, head size)."""
        layer = self.layers[0]
        x = _norm(self.embed[np.asarray(tokens)], layer.before, self.epsilon)
        n = len(tokens)
        k = self.rotate((x @ layer.k.T).reshape(n, self.kv, self.head), np.arange(start, start + n))
        return self.stored(k), self.stored((x @ layer.v.T).reshape(n, self.kv, self.head))

    def rotate(self, x: Floats, positions: Any) -> Floats:
        """Rotary positions, halves of a head as pairs: x is (n, heads, head size)."""
        angles = np.asarray(positions, np.float32)[:, None] * self.frequencies
        cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
        a, b = np.split(x, 2, axis=-1)
        return np.asarray(np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1), np.float32)

    def extend(
        self, past: Sequence[tuple[Floats, Floats]], tokens: Sequence[int], start: int
    ) -> list[tuple[Floats, Floats]]:
        """Keys and values of every layer for ``tokens``, which follow ``start`` tokens whose own are ``past``."""
        positions, n = np.arange(start, start + len(tokens)), len(tokens)
        x, made = self.embed[np.asarray(tokens)], []
        for number, layer in enumerate(self.layers):
            y = _norm(x, layer.before, self.epsilon)
            k = self.stored(self.rotate((y @ layer.k.T).reshape(n, self.kv, self.head), positions))
            v = self.stored((y @ layer.v.T).reshape(n, self.kv, self.head))
            made.append((k, v))
            if number == len(self.layers) - 1:
                break
            keys = np.concatenate((past[number][0], k)) if past else k
            values = np.concatenate((past[number][1], v)) if past else v
            q = self.rotate((y @ layer.q.T).reshape(n, self.heads, self.head), positions)
            x = x + self._attend(q, keys, values, positions, layer.window) @ layer.o.T
            y = _norm(x, layer.after, self.epsilon)
            gate = y @ layer.gate.T
            x = x + (gate / (1.0 + np.exp(-gate)) * (y @ layer.up.T)) @ layer.down.T
        return made

    def _attend(self, q: Floats, k: Floats, v: Floats, positions: Any, window: int) -> Floats:
        group = self.heads // self.kv
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k, optimize=True) / np.float32(np.sqrt(self.head))
        there = np.arange(k.shape[0])[None, :]
        hidden = there > positions[:, None]
        if window:
            hidden |= there <= positions[:, None] - window
        scores[:, hidden] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        found = np.einsum("hqk,khd->qhd", weights, v, optimize=True)
        return np.asarray(found.reshape(q.shape[0], -1), np.float32)


class Chain:
    """Blocks of prefixes, each made once. A block's number stands for its whole prefix."""

    def __init__(self, model: Reference) -> None:
        self.model = model
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._made: list[tuple[int, int, list[tuple[Floats, Floats]]]] = []

    def block(self, parent: int, tokens: tuple[int, ...]) -> int:
        """The number of the block of these tokens after ``parent`` (-1: the first)."""
        key = (parent, tokens)
        found = self._numbers.get(key)
        if found is None:
            past, start = self._past(parent)
            self._made.append((parent, start + len(tokens), self.model.extend(past, tokens, start)))
            found = self._numbers[key] = len(self._made) - 1
        return found

    def layers(self, number: int) -> list[tuple[Floats, Floats]]:
        """Keys and values of a block, layer by layer."""
        return self._made[number][2]

    @property
    def full(self) -> bool:
        """Whether so much is remembered that a new chain should be begun."""
        return len(self._made) >= CHAINS_AT_MOST

    def _past(self, number: int) -> tuple[list[tuple[Floats, Floats]], int]:
        rows: list[list[tuple[Floats, Floats]]] = []
        length = self._made[number][1] if number >= 0 else 0
        while number >= 0:
            number, _, layers = self._made[number][0], 0, self._made[number][2]
            rows.append(layers)
        rows.reverse()
        if not rows:
            return [], 0
        return [
            (np.concatenate([r[i][0] for r in rows]), np.concatenate([r[i][1] for r in rows]))
            for i in range(len(self.model.layers))
        ], length


def _layer(weights: dict[str, Floats], number: int, window: int) -> _Layer:
    names = {
        **{name: f"self_attn.{name}_proj" for name in "qkvo"},
        **{name: f"mlp.{name}_proj" for name in ("gate", "up", "down")},
        "before": "input_layernorm",
        "after": "post_attention_layernorm",
    }
    parts: dict[str, Any] = {k: weights[f"model.layers.{number}.{v}.weight"] for k, v in names.items()}
    return _Layer(**parts, window=window)


def _merge(weights: dict[str, Floats], adapter: Path) -> None:
    from safetensors.numpy import load_file

    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    scale = np.float32(config["lora_alpha"] / config["r"])
    parts = load_file(str(adapter / "adapter_model.safetensors"))
    for name, low in parts.items():
        if name.endswith(".lora_A.weight"):
            stem = name.removesuffix(".lora_A.weight")
            weight = stem.removeprefix("base_model.model.") + ".weight"
            weights[weight] = weights[weight] + scale * (parts[f"{stem}.lora_B.weight"] @ low)


def _norm(x: Floats, weight: Floats, epsilon: float) -> Floats:
    scale = 1.0 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(epsilon))
    return np.asarray(x * scale * weight, np.float32)
