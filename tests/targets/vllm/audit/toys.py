"""Caches small enough to read, clean and with planted faults.

A toy's logits are a fixed function of the tokens that it attends, in order, so a wrong token or a missing one
shows in every logit.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuzzkv.targets.vllm.audit.serving import ServedAnswer
from fuzzkv.targets.vllm.audit.ways import Refused

VOCABULARY = 64
BLOCK = 32
PLACES = 61
_TABLE = np.random.default_rng(0).normal(size=(VOCABULARY, PLACES, VOCABULARY))


def logits(tokens: Sequence[int]) -> Any:
    """What the toy model says after these tokens."""
    return _TABLE[np.asarray(tokens), np.arange(len(tokens)) % PLACES].sum(axis=0)


class ToySessions:
    """A clean cache: a list of tokens for each of two layers."""

    def new(self, kind: str) -> Any:
        return [[], []]

    def feed(self, cache: Any, tokens: Sequence[int]) -> Any:
        for layer in cache:
            layer.extend(tokens)
        return logits(cache[0]) + logits(cache[1])

    def follow(self, cache: Any, tokens: Sequence[int]) -> list[Any]:
        return [self.feed(cache, [token]) for token in tokens]

    def generate(self, cache: Any, tokens: Sequence[int]) -> Any:
        return self.feed(cache, tokens[len(cache[0]) :])

    def lengths(self, cache: Any) -> list[int]:
        return [len(layer) for layer in cache]

    def crop(self, cache: Any, count: int) -> None:
        for layer in cache:
            del layer[len(layer) - count :]

    def record(self, cache: Any) -> None:
        pass

    def snapshot(self, cache: Any) -> Any:
        return copy.deepcopy(cache)

    def reset(self, cache: Any) -> None:
        for layer in cache:
            layer.clear()


class KeepsTheBranch(ToySessions):
    """Its crop says that it did, and keeps the branch."""

    def crop(self, cache: Any, count: int) -> None:
        pass


class KeepsOneToken(ToySessions):
    """Its crop is one short."""

    def crop(self, cache: Any, count: int) -> None:
        super().crop(cache, count - 1) if count > 1 else None


class KeepsOneLayer(ToySessions):
    """Its crop forgets the second layer."""

    def crop(self, cache: Any, count: int) -> None:
        super().crop(cache[:1], count)


class SharesSnapshots(ToySessions):
    """Its snapshot is the cache itself."""

    def snapshot(self, cache: Any) -> Any:
        return cache


class ResetsHalf(ToySessions):
    """Its reset leaves the first half of what was there."""

    def reset(self, cache: Any) -> None:
        for layer in cache:
            del layer[len(layer) // 2 :]


class LosesATokenBetweenChunks(ToySessions):
    """Whoever feeds a cache that isn't empty loses the last token in it."""

    def feed(self, cache: Any, tokens: Sequence[int]) -> Any:
        for layer in cache:
            del layer[-1:]
        return super().feed(cache, tokens)


class RefusesHalfWay(ToySessions):
    """Its crop refuses, after the first layer."""

    def crop(self, cache: Any, count: int) -> None:
        super().crop(cache[:1], count)
        raise Refused("RuntimeError: the second layer can't")


class ToyServer:
    """A clean prefix cache: whole blocks, found by all tokens up to their end. One token a step, prompts at once."""

    def __init__(self) -> None:
        self.blocks: dict[Any, tuple[int, ...]] = {}
        self.running: dict[int, dict[str, Any]] = {}
        self.serial = 0

    def key(self, tokens: Sequence[int], end: int) -> Any:
        return tuple(tokens[:end])

    def add(self, prompt: Sequence[int], count: int, force: Sequence[int]) -> int:
        self.serial += 1
        self.running[self.serial] = {
            "prompt": list(prompt), "count": count, "force": list(force), "out": [], "rows": [], "seen": None
        }  # fmt: skip
        return self.serial

    def step(self, r: dict[str, Any]) -> None:
        if r["seen"] is None:
            seen: list[int] = []
            while len(seen) + BLOCK < len(r["prompt"]):
                block = self.blocks.get(self.key(r["prompt"], len(seen) + BLOCK))
                if block is None:
                    break
                seen += block
            r["cached"] = len(seen)
            r["seen"] = seen + r["prompt"][len(seen) :]
        elif r["out"]:
            r["seen"].append(r["out"][-1])
        row = logits(r["seen"])
        r["rows"].append(row)
        i = len(r["out"])
        r["out"].append(r["force"][i] if r["force"] else int(row.argmax()))
        tokens = [*r["prompt"], *r["out"]]
        for end in range(BLOCK, len(r["seen"]) + 1, BLOCK):
            self.blocks.setdefault(self.key(tokens, end), tuple(r["seen"][end - BLOCK : end]))

    def ask(self, prompt: Sequence[int], count: int, force: Sequence[int] = ()) -> ServedAnswer:
        request = self.add(prompt, count, force)
        r = self.running[request]
        while request in self.running:
            self.advance(1)
        return ServedAnswer(tuple(r["out"]), r["rows"], r["cached"])

    def begin(self, prompt: Sequence[int], force: Sequence[int]) -> int:
        return self.add(prompt, len(force), force)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            for request, r in list(self.running.items()):
                self.step(r)
                if len(r["out"]) == r["count"]:
                    del self.running[request]

    def abort(self, request: int) -> None:
        self.running.pop(request, None)

    def finish(self) -> None:
        while self.running:
            self.advance(1)

    def forget(self) -> None:
        self.finish()
        self.blocks.clear()


class HashesPositions(ToyServer):
    """Its key is the block's place alone: whoever comes next is served the branch."""

    def key(self, tokens: Sequence[int], end: int) -> Any:
        return end


class HashesFirstHalves(ToyServer):
    """Its key leaves out the second half of each block."""

    def key(self, tokens: Sequence[int], end: int) -> Any:
        return tuple(tokens[: end - BLOCK // 2])


class PublishesAborted(ToyServer):
    """An aborted request's last block is published as though it were full, under the right key of the wrong end."""

    def abort(self, request: int) -> None:
        r = self.running.get(request)
        if r is not None and r["seen"]:
            end = len(r["seen"]) // BLOCK * BLOCK
            for start in range(0, end, BLOCK):
                wrong = tuple(r["seen"][-BLOCK:])
                self.blocks[self.key(r["seen"], start + BLOCK)] = wrong
        super().abort(request)


class ServesNothing(ToyServer):
    """Its cache never serves: an audit of it proves nothing."""

    def key(self, tokens: Sequence[int], end: int) -> Any:
        return object()
