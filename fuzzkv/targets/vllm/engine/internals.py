"""A live vLLM engine, stepped in process. Every touch of vLLM's internals by the live target is in here and in what it hands its
objects to (:mod:`fuzzkv.targets.vllm.engine.taps`, :mod:`fuzzkv.targets.vllm.engine.host_tier`, :mod:`fuzzkv.targets.vllm.engine.settings`,
:mod:`fuzzkv.targets.vllm.engine.reset`).

The engine core is driven directly: no tokenizer, no front end, request ids that are the same in every run. The environment of
:func:`environment` must be set before the process starts (hashes of keys decide orders inside vLLM).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.vllm.engine import models
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.engine.page_log import Journal
from fuzzkv.targets.vllm.engine.settings import engine_settings
from fuzzkv.targets.vllm.engine.taps import Taps
from fuzzkv.targets.vllm.engine.transfer_channel import Link
from fuzzkv.targets.vllm.replay import engine as replaying
from fuzzkv.targets.vllm.replay.absent import Absent
from fuzzkv.targets.vllm.replay.engine import LIVE_VERSIONS, require
from fuzzkv.targets.vllm.schedule import BLOCK


def environment() -> dict[str, str]:
    """The environment variables of an engine process."""
    return {**replaying.environment(), "PYTHONHASHSEED": "0", "NUMBA_NUM_THREADS": "1"}


@dataclass
class LiveRequest:
    """A request as it is seen from outside. ``state``: ``live``, ``finished``, ``aborted``. ``margins``: logprob of the best token less
    that of the second, a token each."""

    prompt: tuple[int, ...]
    limit: int
    adapter: int = 0
    tokens: list[int] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    state: str = "live"


class LiveEngine:
    """One engine; at most one a process. Raises FKV050, FKV051, FKV056 at start."""

    def __init__(self, config: EngineConfig) -> None:
        self.version = require(config.device, LIVE_VERSIONS)
        for name, value in environment().items():
            os.environ.setdefault(name, value)  # what a process of its own has had from its start
        import torch
        from vllm import SamplingParams
        from vllm.platforms import current_platform
        from vllm.v1.engine import EngineCoreRequest
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor import Executor

        if (config.device == "cuda") != current_platform.is_cuda():
            raise EnvironmentFailure(
                code="FKV056",
                value=config.device,
                reason=f"this build of vLLM runs on {current_platform.device_type}",
                cure="choose that device, or install the other build",
            )
        self.config = config
        self._torch, self._params, self._message = torch, SamplingParams, EngineCoreRequest
        settings = engine_settings(config)
        self._core: Any = EngineCore(settings, Executor.get_class(settings), log_stats=False)
        self._scheduler: Any = self._core.scheduler
        self._cache: Any = self._scheduler.kv_cache_manager
        self._pool: Any = self._cache.block_pool
        self._runner: Any = self._core.collective_rpc(_model_runner)[0]
        self.pages = int(self._pool.num_gpu_blocks) - 1
        self.groups = len(self._cache.coordinator.single_type_managers)
        self.vocabulary = int(settings.model_config.get_vocab_size())
        self.layers: list[Any] = list(self._runner.kv_caches)
        """The cache tensor of every layer."""
        self._connector: Any = self._scheduler.connector
        self.journal = Journal()
        self.requests: list[LiveRequest] = []
        self._numbers: dict[str, int] = {}
        self._offload: Any = getattr(getattr(self._connector, "connector_scheduler", None), "manager", None)
        self.worker: Any = _offload_worker() if self._offload is not None else None
        """The offloading worker, if there is a host tier."""
        self.link: Link = getattr(self.worker, "link", None) or Link()
        number = self._numbers.get
        self.taps = Taps(self.journal, lambda rid: number(rid, -1), self._scheduler, self._offload, self.link)
        self.taps.put_on()
        self.absent = Absent(self._runner, self.pages, BLOCK, self.layers[0].device)
        """Page actions' wrapper of attention metadata; off until it is put on."""
        self.steps = 0
        self._lora = [None, *(_adapter(n) for n in range(config.adapters))]
        self.scrub()

    # -- requests ----------------------------------------------------------------------------------------

    def add(self, tokens: Sequence[int], limit: int, priority: int = 0, adapter: int = 0) -> int:
        """A new request of ``limit`` greedy tokens; its number. Lower priorities go first."""
        number = len(self.requests)
        rid = f"r{number}"
        self.requests.append(LiveRequest(tuple(tokens), limit, adapter))
        self._numbers[rid] = number
        self.journal.add("arrive", number)
        message = self._message(
            request_id=rid,
            prompt_token_ids=list(tokens),
            mm_features=None,
            sampling_params=self._params(
                max_tokens=limit, temperature=0.0, ignore_eos=True, detokenize=False, logprobs=2
            ),
            pooling_params=None,
            arrival_time=float(number),
            lora_request=self._lora[adapter],
            cache_salt=None,
            data_parallel_rank=None,
            priority=priority,
        )
        request, wave = self._core.preprocess_add_request(message)
        self._core.add_request(request, wave)
        return number

    def abort(self, number: int) -> bool:
        """Abort a request; False if it has ended already."""
        request = self.requests[number]
        if request.state != "live":
            return False
        self._core.abort_requests([f"r{number}"])
        request.state = "aborted"
        self.journal.add("abort", number)
        self.journal.count("aborts")
        return True

    def busy(self) -> bool:
        """Whether another step would do something: requests, ended requests to clean up, transfers in flight."""
        return bool(self._scheduler.has_requests()) or bool(self._core.batch_queue)

    def unfinished(self) -> list[int]:
        """Requests that neither finished nor were aborted."""
        return [i for i, r in enumerate(self.requests) if r.state == "live"]

    def step(self) -> int:
        """One engine step; how many tokens came out. What vLLM raises goes through."""
        self.journal.entries.append(("step", self.steps))
        self.steps += 1
        if self._core.batch_queue:
            self.journal.counters["run_ahead"] += 1
        outputs, executed = self._core.step_fn()
        self._core.post_step(executed)
        made = 0
        for out in outputs[0].outputs if outputs and 0 in outputs else ():
            number = self._numbers[out.request_id]
            request = self.requests[number]
            if request.state != "live":
                continue
            made += len(out.new_token_ids)
            if request.adapter:
                self.journal.counters["adapted"] += len(out.new_token_ids)
            request.tokens += [int(t) for t in out.new_token_ids]
            if out.new_logprobs is not None:
                for token, row, best in zip(
                    out.new_token_ids,
                    out.new_logprobs.logprobs,
                    out.new_logprobs.logprob_token_ids,
                    strict=False,
                ):
                    request.margins.append(_margin(int(token), row.tolist(), best.tolist()))
            if out.finish_reason is not None:
                request.state = "finished"
                self.journal.entries.append(("finish", number))
        return made

    def reset_cache(self, connector: bool) -> bool:
        """``reset_prefix_cache``; whether vLLM says that it worked."""
        worked = bool(self._scheduler.reset_prefix_cache(reset_connector=connector))
        self.journal.add("reset", int(connector), int(worked))
        self.journal.count("resets" if worked else "resets_refused")
        return worked

    # -- what can be turned between runs -----------------------------------------------------------------

    def limit_pool(self, pages: int) -> None:
        """Let only the first ``pages`` blocks be used. Only when nothing is in use."""
        pages = max(1, min(pages, self.pages))
        self._pool.num_gpu_blocks = pages + 1
        self._pool.free_block_queue = type(self._pool.free_block_queue)(
            _unlinked(self._pool.blocks[1 : pages + 1])
        )

    def limit_step(self, tokens: int) -> None:
        """The token budget of a step, within what the engine was started with; without chunked prefill a whole prompt must fit."""
        most = int(self._scheduler.scheduler_config.max_num_batched_tokens)
        least = self.config.draft + 1 if self.config.chunked else self.config.context
        self._scheduler.max_num_scheduled_tokens = max(min(tokens, most), least)

    def step_budget(self) -> int:
        """Tokens that a step may process at the moment."""
        return int(self._scheduler.max_num_scheduled_tokens)

    # -- the view of the pool ----------------------------------------------------------------------------

    def total(self) -> int:
        """Blocks that may be used at the moment."""
        return int(self._pool.num_gpu_blocks) - 1

    def free_list(self) -> list[int]:
        """The free queue, the next block to be taken first (walked, so not trusting its own count)."""
        found: list[int] = []
        block = self._pool.free_block_queue.fake_free_list_head.next_free_block
        while block is not None and block.block_id >= 0 and len(found) <= len(self._pool.blocks):
            found.append(block.block_id)
            block = block.next_free_block
        return found

    def free_count(self) -> int:
        """The number of blocks that the pool says are free."""
        return int(self._pool.get_num_free_blocks())

    def references(self) -> list[int]:
        """Reference count of every block, block 0 (never used) included."""
        return [b.ref_cnt for b in self._pool.blocks]

    def hashes(self) -> dict[int, tuple[bytes, ...]]:
        """The keys under which each block says it can be found."""
        more = self._pool.cached_block_hashes_by_block
        return {
            b.block_id: (b.block_hash, *more.get(b.block_id, ()))
            for b in self._pool.blocks
            if b.block_hash is not None
        }

    def index(self) -> dict[bytes, tuple[int, ...]]:
        """The prefix cache's index: key to blocks."""
        table = self._pool.cached_block_hash_to_block._cache
        return {k: tuple(sorted(v)) if isinstance(v, dict) else (v.block_id,) for k, v in table.items()}

    def tables(self) -> dict[str, list[int]]:
        """Blocks of everyone who holds some: a request's id and group, and ``deferred`` for those to be freed later."""
        found = {
            f"{rid}/{g}": [b.block_id for b in blocks if not b.is_null]
            for g, manager in enumerate(self._cache.coordinator.single_type_managers)
            for rid, blocks in manager.req_to_blocks.items()
        }
        if self._scheduler.deferred_frees:
            found["deferred"] = [
                b.block_id for _, bs in self._scheduler.deferred_frees for b in bs if not b.is_null
            ]
        return found

    def blocks_of(self, number: int, group: int = 0) -> list[int]:
        """The blocks of a request, in order; empty when it has none."""
        manager = self._cache.coordinator.single_type_managers[group]
        return [b.block_id for b in manager.req_to_blocks.get(f"r{number}", ())]

    def computed(self, number: int) -> int:
        """Tokens of a request whose KV is computed (or loaded), as the scheduler counts; 0 when it has ended."""
        request = self._scheduler.requests.get(f"r{number}")
        return 0 if request is None else int(request.num_computed_tokens)

    def status(self, number: int) -> str:
        """The scheduler's word for a request (``RUNNING``, ``WAITING_FOR_REMOTE_KVS`` ...); empty when it is gone."""
        request = self._scheduler.requests.get(f"r{number}")
        return "" if request is None else str(request.status.name)

    # -- bytes -------------------------------------------------------------------------------------------

    def layer_page(self, layer: int, block: int) -> Any:
        """A view of one block of one layer's cache."""
        t = self.layers[layer]
        return t.select(_block_axis(t, self.pages + 1), block)

    def layer_bytes(self) -> list[Any]:
        """Every layer's cache as (blocks, page bytes) unsigned bytes on the host: views where the cache is there already."""
        views = []
        for t in self.layers:
            rows = t.movedim(_block_axis(t, self.pages + 1), 0)
            rows = rows.reshape(rows.shape[0], -1).view(self._torch.uint8)
            views.append(rows.cpu().numpy())
        return views

    def host_bytes(self) -> list[Any]:
        """The pages of our host tier, layer by layer, (host pages, page bytes) unsigned; empty where there is no tier of ours or more
        than one KV group (whose layers share tensors)."""
        host = getattr(self.worker, "host", ())
        return [t.view(self._torch.uint8).numpy() for t in host] if self.groups == 1 else []

    def write_slots(self, layer: int, keys: Any, values: Any) -> Any:
        """Zero block 0, which nobody reads, have the backend write (block tokens, heads, head size) keys and values into its
        slots, and give its bytes (host, unsigned)."""
        torch, page = self._torch, self.layer_page(layer, 0)
        page.zero_()
        context = self._core.vllm_config.compilation_config.static_forward_context
        attention = next(
            a for a in context.values() if a.kv_cache.data_ptr() == self.layers[layer].data_ptr()
        )
        device = self.layers[layer].device
        attention.impl.do_kv_cache_update(
            attention,
            torch.from_numpy(keys).to(device),
            torch.from_numpy(values).to(device),
            attention.kv_cache,
            torch.arange(len(keys), device=device),
        )
        written = self.layer_bytes()[layer][0].copy()
        page.zero_()
        return written

    def group_layers(self) -> list[list[int]]:
        """The layers of every KV group, as their numbers in :attr:`layers`."""
        return [
            sorted(int(re.findall(r"\d+", name)[0]) for name in group.layer_names)
            for group in self._cache.kv_cache_config.kv_cache_groups
        ]

    def cache_shape(self) -> tuple[int, int, int]:
        """Block tokens, KV heads and head size of the first KV group."""
        spec = self._cache.kv_cache_config.kv_cache_groups[0].kv_cache_spec
        return int(spec.block_size), int(spec.num_kv_heads), int(spec.head_size)

    def scrub(self) -> None:
        """Zero all KV bytes, on the device and on the host."""
        for t in self.layers:
            t.zero_()
        if hasattr(self.worker, "scrub"):
            self.worker.scrub()

    # -- the host tier -----------------------------------------------------------------------------------

    @property
    def manager(self) -> Any:
        """The offloading manager (its ``_policy`` is the CachePolicy), or None."""
        return self._offload

    def wrap_policy(self, wrap: Callable[[Any], Any]) -> None:
        """Put a wrapper around the host tier's cache policy."""
        self._offload._policy = wrap(self._offload._policy)

    def wrap_manager(self, wrap: Callable[[Any], Any]) -> None:
        """Put a wrapper around the offloading manager, as the connector's scheduler sees it."""
        side = self._connector.connector_scheduler
        side.manager = wrap(side.manager)

    def wrap_worker(self, wrap: Callable[[Any], Any]) -> None:
        """Put a wrapper around the offloading worker, as the connector's worker sees it."""
        side = _worker_side()
        side.worker = wrap(side.worker)


def _unlinked(blocks: list[Any]) -> list[Any]:
    for b in blocks:
        b.prev_free_block = b.next_free_block = None
    return blocks


def _margin(token: int, logprobs: list[float], ids: list[int]) -> float:
    """Logprob of ``token`` less that of the best other one. ``ids`` begins with the token itself, then the best ones."""
    others = [p for p, i in zip(logprobs, ids, strict=True) if i != token]
    return logprobs[0] - max(others) if others else 0.0


def _block_axis(tensor: Any, blocks: int) -> int:
    return next(i for i, n in enumerate(tensor.shape) if n == blocks)


def _model_runner(worker: Any) -> Any:
    return worker.model_runner


def _worker_side() -> Any:
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    return get_kv_transfer_group().connector_worker


def _offload_worker() -> Any:
    return _worker_side().worker


def _adapter(number: int) -> Any:
    from vllm.lora.request import LoRARequest

    return LoRARequest(f"adapter-{number}", number + 1, str(models.adapter(number).path))
