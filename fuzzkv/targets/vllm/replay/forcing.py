"""A logits processor that forces a request's answer: the i-th token is the i-th of
``extra_args["fuzzkv_force"]``.

vLLM takes its logprobs and ranks from the raw logits before processors run, so a forced run reads how
probable the gold answer was, one request a question. Runs in the worker process only.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.sample.logits_processor import AdapterLogitsProcessor


class Forcing(AdapterLogitsProcessor):  # type: ignore[misc, unused-ignore]
    """Forces tokens for the requests that ask for it, and leaves every other request alone."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> Any:
        gold = (params.extra_args or {}).get("fuzzkv_force")
        if gold is None:
            return None

        def force(output: list[int], logits: Any) -> Any:
            logits.fill_(float("-inf"))
            logits[gold[len(output)]] = 0.0
            return logits

        return force
