"""A logits processor that keeps the raw logits of the requests that ask for it, and forces their tokens.

A request with ``extra_args["fuzzkv_rows"] = name`` leaves one row a token in ``ROWS[name]``; with
``extra_args["fuzzkv_force"]`` its i-th token is the i-th of that list. The engine runs in process, so both
sides see this module's ``ROWS``. Runs in the worker process only.
"""

from __future__ import annotations

from typing import Any, Final

from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

ROWS: Final[dict[str, list[Any]]] = {}


class Capture(AdapterLogitsProcessor):  # type: ignore[misc, unused-ignore]
    """Keeps and forces; leaves every other request alone."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> Any:
        extra = params.extra_args or {}
        name, force = extra.get("fuzzkv_rows"), extra.get("fuzzkv_force")
        if name is None:
            return None

        def process(output: list[int], logits: Any) -> Any:
            rows = ROWS.setdefault(name, [])
            del rows[
                len(output) :
            ]  # a prompt read in parts is sampled after each part, and only the last counts
            rows.append(logits.float().cpu().numpy().copy())
            if force is not None:
                logits.fill_(float("-inf"))
                logits[force[len(output)]] = 0.0
            return logits

        return process
