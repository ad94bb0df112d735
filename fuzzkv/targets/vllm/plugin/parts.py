"""The small values that are passed between vLLM and plugged-in code, of vLLM's own kinds or of ours.

Code that plugs into vLLM gets vLLM's; an object that asks for nothing of the engine can be tried with plain ones, and
the engine stays unimported.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PlainChunk:
    """Our ``ChunkStatus``: a place and how many transfers read it; -1 as long as it isn't filled."""

    chunk_id: int
    ref_cnt: int = -1

    @property
    def is_ready(self) -> bool:
        """Whether it is filled."""
        return self.ref_cnt >= 0


@dataclass
class PlainContext:
    """Our ``ReqContext``: the name of a request and a scratch space keyed by type."""

    req_id: str
    kv_transfer_params: dict[str, Any] | None = None
    state: dict[type, Any] = field(default_factory=dict)
    positions: dict[bytes, int] = field(default_factory=dict)

    def set_state(self, value: Any) -> None:
        """Keep a value under its type."""
        self.state[type(value)] = value

    def get_state(self, kind: type) -> Any:
        """The value kept under this type."""
        return self.state.get(kind)

    def set_offload_key_position(self, key: bytes, end_token: int) -> None:
        """Keep where a key ends."""
        self.positions[key] = end_token

    def get_offload_key_position(self, key: bytes) -> int | None:
        """Where a key ends."""
        return self.positions.get(key)


@dataclass
class PlainStepEnd:
    """Our ``ScheduleEndContext``."""

    new_req_ids: tuple[str, ...] = ()
    preempted_req_ids: tuple[str, ...] = ()


@dataclass
class PlainBlocks:
    """Our ``GPULoadStoreSpec``: device blocks, how many of each KV group, and the logical index of its first."""

    block_ids: list[int]
    group_sizes: list[int]
    block_indices: list[int]


@dataclass(frozen=True)
class Parts:
    """How to make a chunk from its place, a request's context from its name, a step's end from new requests, and the
    device's side of a transfer.
    """

    chunk: Callable[[int], Any]
    context: Callable[[str], Any]
    step_end: Callable[[tuple[str, ...]], Any]
    blocks: Callable[[list[int], list[int], list[int]], Any]


PLAIN = Parts(PlainChunk, PlainContext, PlainStepEnd, PlainBlocks)
"""Values of our own kinds."""


def engine_parts() -> Parts:
    """Values of vLLM's kinds.  Imports vLLM (seconds)."""
    ready_to_import()
    base = importlib.import_module("vllm.v1.kv_offload.base")
    policies = importlib.import_module("vllm.v1.kv_offload.cpu.policies.base")
    return Parts(
        policies.ChunkStatus,
        base.ReqContext,
        lambda new: base.ScheduleEndContext(list(new), ()),
        base.GPULoadStoreSpec,
    )


def ready_to_import() -> None:
    """Set the environment that vLLM has to be imported under."""
    from fuzzkv.targets.vllm.replay.engine import ENVIRONMENT

    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def key(number: int) -> bytes:
    """The key of block ``number`` in KV group 0, as ``make_offload_key`` packs it."""
    return number.to_bytes(4, "big") + bytes(4)
