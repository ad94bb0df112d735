"""Finds out what this build of the engine can do: each attempt of :mod:`fuzzkv.targets.vllm.engine.attempts` in a
process of its own.

Verdicts: ``supported`` (it ran, did something, and its tokens are a plain engine's, or near enough where the
format is lossy), ``fails alone`` (accepted, and wrong or dead without any other policy), ``inert`` (accepted
without a word, and nothing is different), ``not in this build`` (refused, in the engine's own words),
``unknown`` (no answer in time). Results are kept by the engine's version in the user's cache folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from fuzzkv.core.cache import cache_root
from fuzzkv.core.childproc import Child, ChildHung
from fuzzkv.core.files import atomic_write
from fuzzkv.core.interpreter import HERE, Interpreter
from fuzzkv.core.scratch import Scratch
from fuzzkv.errors import UsageError, did_you_mean
from fuzzkv.targets.vllm.content.oracles import NOISE
from fuzzkv.targets.vllm.engine.features import ATTEMPTS, Attempt
from fuzzkv.targets.vllm.engine.internals import environment
from fuzzkv.targets.vllm.pool.fork_server import ForkServer
from fuzzkv.targets.vllm.replay.engine import LIVE_VERSIONS, require
from fuzzkv.targets.vllm.replay.models import digest_of

Verdict = Literal["supported", "fails alone", "inert", "not in this build", "unknown"]

PATIENCE: Final = 240.0
"""Seconds for one attempt."""
NEAR: Final = 1 / 3
"""A lossy number format whose first tokens agree less often than this with the plain engine's is no use: the tiny model is sharp, yet
8-bit floats agree on half and more; unrelated bytes agree on none of 24."""
RECIPE: Final = "1"


@dataclass(frozen=True)
class Ability:
    """One feature: its verdict, what was tried, and what came out or what the engine said."""

    name: str
    verdict: Verdict
    tried: str
    said: str


def probe(
    names: Sequence[str] = (),
    *,
    engine: str = "",
    again: bool = False,
    folder: Path | None = None,
    attempt: Callable[[Attempt, Path], dict[str, Any]] | None = None,
    tell: Callable[[Ability, bool], None] = lambda ability, kept: None,
) -> list[Ability]:
    """Try the features of these names (empty: all), or take what is kept. ``engine``: what ``attempt`` tries, by default what is in
    this environment. ``again``: try anew. ``tell`` hears each as it comes, and whether it was kept.

    Raises FKV050, FKV051 (no engine, an untried one), FKV031 (no such name). The whole takes some minutes once.
    """
    chosen = _chosen(names)
    version = engine or require("cpu", LIVE_VERSIONS)
    kept = (folder or cache_root() / "live") / f"probe-{digest_of([RECIPE, version, repr(ATTEMPTS)])}"
    run = attempt or Trying()
    results: dict[str, dict[str, Any]] = {}
    anew: set[str] = set()
    found = []
    try:
        for one in chosen:
            for needed in dict.fromkeys((one.against, one.name)):
                if needed in results:
                    continue
                file = kept / f"{needed}.json"
                old = None if again else _read(file)
                if old is None:
                    anew.add(needed)
                results[needed] = old or run(_by_name(needed), file)
            found.append(judge(one, results[one.name], results[one.against]))
            tell(found[-1], one.name not in anew)
    finally:
        if isinstance(run, Trying):
            run.close()
    return found


def _chosen(names: Sequence[str]) -> list[Attempt]:
    known = {a.name for a in ATTEMPTS}
    for name in names:
        if name not in known:
            raise UsageError(
                code="FKV031",
                value=repr(name),
                reason="nothing of this name is tried",
                cure=did_you_mean(name, known),
            )
    return [a for a in ATTEMPTS if not names or a.name in names]


def _by_name(name: str) -> Attempt:
    return next(a for a in ATTEMPTS if a.name == name)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


class Trying:
    """Runs attempts, each in a process of its own; what one found is kept unless it gave no answer."""

    def __init__(self, interpreter: Interpreter = HERE) -> None:
        self.interpreter = interpreter
        self._fork_server: ForkServer | None = None

    def __call__(self, attempt: Attempt, file: Path) -> dict[str, Any]:
        """Try one feature."""
        scratch = Scratch()
        out = scratch.folder / "out.json"
        try:
            child = Child(
                [*self._command(), json.dumps([attempt.name, str(out)])],
                environment=self.interpreter.environment(environment(), scratch),
            )
            with child:
                status = child.wait(PATIENCE)
            found = _read(out)
        except ChildHung:
            return {"unknown": f"no answer in {PATIENCE:g} s"}
        finally:
            scratch.remove()
        if found is None:
            found = {"error": f"its process ended with exit status {status}", "started": True}
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, json.dumps(found).encode())
        return found

    def close(self) -> None:
        """End what was started for the attempts."""
        if self._fork_server is not None:
            self._fork_server.close()
            self._fork_server = None

    def _command(self) -> Sequence[str]:
        if self._fork_server is None:
            self._fork_server = ForkServer(self.interpreter)
        if self._fork_server.ready():
            return self._fork_server.command("fuzzkv.targets.vllm.engine.attempts")
        return self.interpreter.command("fuzzkv.targets.vllm.engine.attempts")


def judge(attempt: Attempt, found: dict[str, Any], plain: dict[str, Any]) -> Ability:
    """The verdict on an attempt, beside the plain engine's result."""

    def ability(verdict: Verdict, said: str) -> Ability:
        return Ability(attempt.name, verdict, attempt.tried, said)

    if "unknown" in found:
        return ability("unknown", found["unknown"])
    if "error" in found:
        said = " ".join(str(found["error"]).split())[:300]
        return (
            ability("fails alone", f"it starts, then {said}")
            if found.get("started")
            else ability("not in this build", said)
        )
    expected = found.get("expected")
    if expected is None:
        if "outs" not in plain:
            return ability("unknown", f"{attempt.against} gave nothing to compare with")
        rows = plain["outs"]
        expected = [rows[i] for i in found.get("asked", range(len(rows)))]
    same, ties = _agreeing(found["outs"], expected)
    total, counters = len(expected), found["counters"]
    if attempt.lossy:
        return ability(*_lossy(found, expected))
    if attempt.twice:
        more, other = _agreeing(found.get("again", []), expected)
        same, ties, total = same + more, ties + other, 2 * total
    said = f"{same} of {total} requests as alone" + (f", {ties} numeric ties" if ties else "")
    if same + ties < total:
        return ability("fails alone", said)
    if attempt.proof and not counters.get(attempt.proof):
        return ability("inert", f"{said}, but {attempt.proof.replace('_', ' ')}: 0")
    proof = f"; {attempt.proof.replace('_', ' ')}: {counters[attempt.proof]}" if attempt.proof else ""
    return ability("supported", said + proof)


def _agreeing(outs: Iterable[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Requests with the expected tokens, and those that first differ where the two best logits nearly tie."""
    same = ties = 0
    for out, want in zip(outs, expected, strict=False):
        pairs = zip(out["tokens"], want["tokens"], strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), -1)
        same += int(at < 0)
        ties += int(at >= 0 and 0 <= want["gaps"][at] < NOISE)
    return same, ties


def _lossy(found: dict[str, Any], expected: Sequence[dict[str, Any]]) -> tuple[Verdict, str]:
    outs, dtype = found["outs"], str(found.get("dtype", "")).removeprefix("torch.")
    first = sum(a["tokens"][:1] == b["tokens"][:1] for a, b in zip(outs, expected, strict=True))
    said = f"{first} of {len(expected)} first tokens as in float32; cache of {dtype}"
    if all(a["best"] == b["best"] for a, b in zip(outs, expected, strict=True)):
        return "inert", f"not one log probability differs; cache of {dtype}"
    return ("fails alone" if first < NEAR * len(expected) else "supported"), said
