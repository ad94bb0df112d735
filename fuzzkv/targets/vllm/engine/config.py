"""The configuration of one engine instance, as frozen data with JSON and a digest. Standard library only."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from fuzzkv.errors import UsageError

MODELS: Final = ("tiny", "hybrid", "window")
POLICIES: Final = ("lru", "arc")
FAILURES: Final = ("retry", "report", "recover")
COPIES: Final = ("late", "eager")
ORDERS: Final = ("stores-first", "submitted")


@dataclass(frozen=True, kw_only=True)
class TierConfig:
    """The host tier: vLLM's native offloading connector over a host-memory worker of ours.

    ``policy``: ``lru``, ``arc``, or a class name with ``module`` (vLLM's ``cache_policy_module_path``). ``frames``: chunks the
    host holds. ``blocks_per_chunk``: device blocks that move as one. ``store_threshold``: offers of a chunk before it is
    stored (below 2: always). ``prompt_only``: blocks made by decoding are not stored.

    ``copies``: ``late`` moves the bytes when a transfer ends, ``eager`` when it is submitted (its end is told late either way).
    ``order``: of transfers that end together, ``stores-first`` stores before loads (as vLLM's own worker waits for them and tells of
    them; its two directions don't wait for each other), ``submitted`` as they were submitted.
    ``failure``: what a failed transfer comes to. ``retry``: the worker tries again and says nothing, as this build demands;
    ``report``: ``success=False``, which this build answers with an assertion; ``recover``: told through the connector's own
    protocol of failed loads.
    ``spec``, ``spec_module``: another OffloadingSpec (a user's), empty for ours.
    """

    policy: str = "lru"
    frames: int = 16
    blocks_per_chunk: int = 1
    store_threshold: int = 0
    prompt_only: bool = True
    module: str = ""
    copies: Literal["late", "eager"] = "late"
    order: Literal["stores-first", "submitted"] = "stores-first"
    failure: Literal["retry", "report", "recover"] = "retry"
    spec: str = ""
    spec_module: str = ""

    def __post_init__(self) -> None:
        _within("frames", self.frames, 1, 4096)
        _within("blocks_per_chunk", self.blocks_per_chunk, 1, 16)
        _within("store_threshold", self.store_threshold, 0, 1000)
        _among("copies", self.copies, COPIES)
        _among("order", self.order, ORDERS)
        _among("failure", self.failure, FAILURES)
        if not self.module and not self.spec:
            _among("policy", self.policy, POLICIES)
        if bool(self.spec) != bool(self.spec_module):
            raise UsageError(
                code="FKV030",
                value=self.spec or self.spec_module,
                reason="a spec of your own is a class name and a module",
                cure="give both spec and spec_module",
            )


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The configuration of one engine instance. ``pages``: device blocks of 32 tokens that can be used;
    ``requests``: at most at once; ``step_tokens``: token budget of a step (a schedule may lower it);
    ``context``: longest request in tokens; ``draft``: n-gram tokens proposed a step (0: none); ``adapters``:
    LoRA adapters that requests may name.

    Raises FKV030 (out of range) and FKV031 (not among those offered).
    """

    model: str = "tiny"
    pages: int = 48
    requests: int = 8
    step_tokens: int = 256
    context: int = 512
    kv_dtype: str = "auto"
    prefix_cache: bool = False
    chunked: bool = False
    async_scheduling: bool = False
    tier: TierConfig | None = None
    adapters: int = 0
    draft: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        _within("pages", self.pages, 2, 65536)
        _within("requests", self.requests, 1, 256)
        _within("context", self.context, 64, 2048)
        _within("step_tokens", self.step_tokens, 8, 65536)
        _within("adapters", self.adapters, 0, 8)
        _within("draft", self.draft, 0, 16)
        _among("device", self.device, ("cpu", "cuda"))

    def as_json(self) -> dict[str, Any]:
        """Plain data; :meth:`from_json` reads it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EngineConfig:
        """Read :meth:`as_json`. Raises FKV030 for a field that isn't known."""
        tier = data.get("tier")
        fields = {
            **data,
            "tier": None if tier is None else _made(TierConfig, cast("Mapping[str, Any]", tier)),
        }
        return cast("EngineConfig", _made(cls, fields))

    def digest(self) -> str:
        """12 hex digits over everything in it."""
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _made(cls: type, fields: Mapping[str, Any]) -> Any:
    known = {f.name for f in dataclasses.fields(cls)}
    if unknown := sorted(set(fields) - known):
        raise UsageError(
            code="FKV030",
            value=", ".join(unknown),
            reason=f"not a field of {cls.__name__}",
            cure=f"use {', '.join(sorted(known))}",
        )
    return cls(**fields)


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(
            code="FKV030", value=f"{name}={value}", reason="out of range", cure=f"use {low} to {high}"
        )


def _among(name: str, value: str, offered: tuple[str, ...]) -> None:
    if value not in offered:
        raise UsageError(
            code="FKV031",
            value=f"{name}={value}",
            reason="no such choice",
            cure=f"use one of {', '.join(offered)}",
        )
