"""``python -m fuzzkv.targets.vllm.audit.worker JOB.json OUT.ndjson``: one engine and one model of a rollback audit.

``JOB.json`` holds ``{"engine": "transformers"|"vllm", "model": "tiny"|"smollm2", "seed": n}``. Every line of
``OUT.ndjson`` is one JSON object: ``ready``, ``scenario``, ``cell``, ``example``, ``done`` or ``error``. The
engine and the model are imported here and nowhere above.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from fuzzkv.errors import FuzzkvError
from fuzzkv.targets.vllm.audit.cells import Cell, sentences, served_cells, session_cells
from fuzzkv.targets.vllm.audit.scenarios import Scenario, random_scenarios
from fuzzkv.targets.vllm.audit.texts import text_scenarios
from fuzzkv.targets.vllm.audit.ways import WAYS, Sessions
from fuzzkv.targets.vllm.replay.models import build

DRAWS: Final = {"tiny": 8, "smollm2": 2}
"""Scenarios of each kind."""
_WINDOW_MODEL: Final = "tiny-window"
CACHES: Final = {
    "tiny": (("tiny", "dynamic"), ("tiny", "static"), (_WINDOW_MODEL, "window")),
    "smollm2": (("smollm2", "dynamic"),),
}
"""Classes of cache, each with the model it is tried on; the larger model has the default one alone."""


def main(argv: list[str]) -> int:
    """Run the worker; 0 when done, 1 after an error (which the last line of the output tells)."""
    job = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    parent = os.getppid()
    with Path(argv[1]).open("a", encoding="utf-8") as out:

        def say(kind: str, **data: Any) -> None:
            if os.getppid() != parent:
                raise SystemExit("the parent is gone")
            out.write(json.dumps({"type": kind, **data}, separators=(",", ":")) + "\n")
            out.flush()

        try:
            for kind, data in (_served if job["engine"] == "vllm" else _sessions)(job["model"], job["seed"]):
                say(kind, **data)
        except FuzzkvError as error:
            say("error", **error.as_dict())
            return 1
        except BaseException as error:
            traceback.print_exc()
            reason = str(error)[:500]
            say("error", code="FKV052", value=type(error).__name__, reason=reason, cure="Read the log.")
            return 1
        say("done")
    return 0


Told = Iterator[tuple[str, dict[str, Any]]]


def _sessions(name: str, seed: int) -> Told:
    from fuzzkv.targets.vllm.audit import torch_cache

    model = build(name)
    sessions: dict[str, Any] = {name: torch_cache.load(model)}
    reader: Any = None
    if name == "smollm2":
        reader = torch_cache.tokenizer()
        scenarios = text_scenarios(_encoder(reader), seed, DRAWS[name])
    else:
        scenarios = random_scenarios(sessions[name].vocabulary, seed, DRAWS[name])
        sessions[_WINDOW_MODEL] = torch_cache.windowed()
    yield "ready", {"engine": torch_cache.version(), "model": name, "digest": model.digest}
    for i, sc in enumerate(scenarios):
        cells: list[Cell] = []
        for owner, kind in CACHES[name]:
            cells += [{"model": owner, **cell} for cell in session_cells(sessions[owner], kind, sc)]
        if reader is not None and sc.draw == 0:
            yield "example", {"example": _example(sessions[name], reader, sc)}
        yield from _scenario(i, len(scenarios), sc, cells)


def _served(name: str, seed: int) -> Told:
    from fuzzkv.targets.vllm.audit.prefix_server import PrefixServer

    model = build(name)
    server = PrefixServer(str(model.path))
    if name == "smollm2":
        from fuzzkv.targets.vllm.audit.torch_cache import tokenizer

        scenarios = text_scenarios(_encoder(tokenizer()), seed, DRAWS[name])
    else:
        scenarios = random_scenarios(server.vocabulary, seed, DRAWS[name])
    yield "ready", {"engine": server.version, "model": name, "digest": model.digest}
    for i, sc in enumerate(scenarios):
        cells = [{"model": name, **cell} for cell in served_cells(server, sc)]
        yield from _scenario(i, len(scenarios), sc, cells)


def _scenario(index: int, of: int, sc: Scenario, cells: Sequence[Cell]) -> Told:
    """A scenario with its cells: told when all are there, so that a run that is cut short has whole ones."""
    yield "scenario", {"index": index, "of": of, "scenario": sc.as_json(), "cells": list(cells)}


def _encoder(reader: Any) -> Any:
    return lambda text: reader(text, add_special_tokens=False).input_ids


def _example(sessions: Sessions, reader: Any, sc: Scenario) -> dict[str, Any]:
    """The two next sentences: on the cache as it is, and on the rebuilt one."""
    way = next(way for way in WAYS if way.name == "as it is")
    said, meant = (
        reader.decode(tokens).split("<|im_end|>")[0].split("<|im_start|>")[0].strip()
        for tokens in sentences(sessions, "dynamic", sc, way.run)
    )
    return {
        "kind": sc.kind,
        "cache": "dynamic",
        "way": way.name,
        "keep": reader.decode(list(sc.keep)),
        "branch": reader.decode(list(sc.branch)),
        "step": reader.decode(list(sc.step)),
        "retained": said,
        "rebuilt": meant,
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
