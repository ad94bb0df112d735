"""vLLM's content-addressed prefix cache as the audit's ``Server``: one engine in process, by its public calls alone.

Steps are small (:data:`STEP_TOKENS`), so prompts are computed in chunks whose borders depend on what runs
beside them. Imported in a worker process only, whose environment is that of ``fuzzkv.targets.vllm.replay.engine``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from vllm import LLM, SamplingParams

from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.vllm.audit.capture import ROWS
from fuzzkv.targets.vllm.audit.serving import ServedAnswer
from fuzzkv.targets.vllm.replay.engine import BLOCK, require

STEP_TOKENS: Final = 24
PAGES: Final = 64
LONGEST: Final = 512


class PrefixServer:
    """A live engine. Raises FKV050, FKV051 at start."""

    def __init__(self, model_path: str) -> None:
        self.version = require("cpu")
        self.llm = LLM(
            model=model_path,
            skip_tokenizer_init=True,
            dtype="float32",
            max_model_len=LONGEST,
            block_size=BLOCK,
            enable_prefix_caching=True,
            enable_chunked_prefill=True,
            enforce_eager=True,
            max_num_seqs=4,
            max_num_batched_tokens=STEP_TOKENS,
            num_gpu_blocks_override=PAGES,
            disable_log_stats=True,
            seed=0,
            logits_processors=["fuzzkv.targets.vllm.audit.capture:Capture"],
            async_scheduling=False,
        )
        self.vocabulary = int(self.llm.llm_engine.model_config.get_vocab_size())
        self._serial = 0
        self._done: dict[str, Any] = {}

    def ask(self, prompt: Sequence[int], count: int, force: Sequence[int] = ()) -> ServedAnswer:
        request = self._add(prompt, count, force, keep=True)
        while request not in self._done:
            self.advance(1)
        out = self._done[request]
        rows = ROWS.pop(request)
        return ServedAnswer(tuple(map(int, out.outputs[0].token_ids)), rows, int(out.num_cached_tokens or 0))

    def begin(self, prompt: Sequence[int], force: Sequence[int]) -> str:
        return self._add(prompt, len(force), force, keep=False)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            for out in self.llm.llm_engine.step():
                if out.finished:
                    self._done[out.request_id] = out

    def abort(self, request: str) -> None:
        self.llm.llm_engine.abort_request([request])

    def finish(self) -> None:
        while self.llm.llm_engine.has_unfinished_requests():
            self.advance(1)

    def forget(self) -> None:
        self.finish()
        ROWS.clear()
        self._done.clear()
        if not self.llm.reset_prefix_cache():
            raise EnvironmentFailure(
                code="FKV134",
                value="reset_prefix_cache",
                reason="the engine couldn't empty its prefix cache though no request is left",
                cure="This is a fault of fuzzkv or of the engine: please report it.",
            )

    def _add(self, prompt: Sequence[int], count: int, force: Sequence[int], *, keep: bool) -> str:
        self._serial += 1
        request = f"a{self._serial}"
        extra: dict[str, Any] = {"fuzzkv_rows": request} if keep or force else {}
        if force:
            extra["fuzzkv_force"] = list(force)
        params = SamplingParams(
            max_tokens=count, temperature=0.0, ignore_eos=True, detokenize=False, extra_args=extra
        )
        self.llm.llm_engine.add_request(request, {"prompt_token_ids": list(prompt)}, params)
        return request
