"""A user's own engine code in a hunt: a ``CachePolicy`` or an ``OffloadingSpec`` named by path becomes a live policy.

Its engines import it by name, so its folder goes into ``PYTHONPATH``; what it is told to do is watched at vLLM's boundary
(:mod:`fuzzkv.targets.vllm.plugin`).  A case names it as ``user:Class`` and never where it lies: to replay it, the path has to be
allowed again.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fuzzkv.errors import UsageError
from fuzzkv.semantics.contract.evidence import COPY_IN, COPY_OUT
from fuzzkv.targets.vllm.plugin.loading import EngineCode, is_engine_path, load
from fuzzkv.targets.vllm.policies import LivePolicy, manifest_of, resolve

PREFIX: Final = "user:"


def resolve_all(names: Sequence[str]) -> tuple[LivePolicy, ...]:
    """The live policies of these names and paths, sorted by name.

    Raises as ``resolve`` does, and for a path: FKV003 (not importable), FKV121 (a class that is neither kind), FKV050.
    """
    paths = [name for name in names if is_engine_path(name)]
    known = [name for name in names if not is_engine_path(name)]
    own = [own_policy(path) for path in paths]
    return tuple(sorted((*(resolve(known) if known or not own else ()), *own), key=lambda p: p.name))


def allowed(names: Sequence[str]) -> Mapping[str, LivePolicy]:
    """Policies by name that a case may name beside the engine's own."""
    return {policy.name: policy for policy in map(own_policy, names)}


def own_policy(named: str) -> LivePolicy:
    """The live policy of a class that is named by path.  Raises as :func:`resolve_all` does."""
    code = load(named)
    source = Path(inspect.getfile(code.cls)).resolve()
    manifest = manifest_of(
        "offload", "near-reuse", f"{code.kind} {code.name}", COPY_OUT, COPY_IN, source=named
    )
    return LivePolicy(
        name=PREFIX + code.name,
        manifest=manifest,
        tier=_tier(code, source),
        exercised=("stores", "loads"),
        version=hashlib.sha256(source.read_bytes()).hexdigest()[:12],
    )


def _tier(code: EngineCode, source: Path) -> dict[str, str]:
    if code.kind == "KVConnector":
        raise UsageError(
            code="FKV121",
            value=repr(code.named),
            reason="is a KV connector, and engines of a hunt have vLLM's own",
            cure="Watch it in your own tests: docs/engine-code.md.",
        )
    file = code.named.rpartition(":")[0].endswith(".py")
    module, folder = (source.stem, str(source.parent)) if file else (code.module, os.getcwd())
    path = os.environ.get("PYTHONPATH", "")
    if folder not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (folder, path) if p)
    if code.kind == "CachePolicy":
        return {"policy": code.name, "module": module}
    return {"spec": code.name, "spec_module": module}
