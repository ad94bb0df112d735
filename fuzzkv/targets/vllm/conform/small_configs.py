"""Live schedules within the model's size: at most two requests that hold blocks, eight pages each, a dozen blocks."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from fuzzkv.targets.vllm.engine.config import EngineConfig, TierConfig
from fuzzkv.targets.vllm.policies import LivePolicy, compose, driven
from fuzzkv.targets.vllm.schedule import BLOCK, Event, LiveSchedule

BASE: Final = EngineConfig(pages=12, requests=2, context=8 * BLOCK, tier=None)
"""The engine of all runs, before policies change it."""
FRAMES: Final = 6
"""Chunks of the host tier: few, so that it evicts."""
MOST: Final = 18
_WEIGHTS: Final = {
    "step": 16, "arrive": 9, "fork": 3, "abort": 2, "reset": 1, "hold": 2, "complete": 3, "fail": 1, "short": 1,
}  # fmt: skip
_TIER: Final = frozenset({"hold", "complete", "fail", "short"})
_PROMPTS: Final = (0, 0, 0, 1, 2, 3, 4, 5)
_OUTPUTS: Final = (1, 2, 3, 4, 6, 10, 20, 34)


def configured(policies: Sequence[LivePolicy]) -> EngineConfig:
    """The engine of a set; its host tier is small."""
    tier = TierConfig(frames=FRAMES) if any(p.tier is not None for p in policies) else None
    return compose(policies, EngineConfig(**{**BASE.__dict__, "tier": tier}))


def draw(random: Random, policies: Sequence[LivePolicy]) -> LiveSchedule:
    """A random small schedule for a set. With both tiers keyed it has shorter prompts: the model's index is small."""
    config = configured(policies)
    tight = any(p.drives == "pool" for p in policies)
    both = config.tier is not None and config.prefix_cache
    ops = [op for op in _WEIGHTS if config.tier is not None or op not in _TIER]
    weights = [_WEIGHTS[op] for op in ops]
    length = random.randint(3, MOST)
    events = [("arrive", *_size(random, both))]
    events += [_event(random, op, both) for op in random.choices(ops, weights, k=length - 1)]
    pool = random.choice((5, 6, 7, 8)) if tight else config.pages
    return driven(policies, LiveSchedule(pool, config.step_tokens, tuple(events)), config)


def _size(random: Random, short: bool) -> tuple[int, int, int]:
    blocks = random.choice((0, 1, 1, 2, 2) if short else (0, 1, 1, 2, 2, 3, 3, 4))
    code = max(1, blocks * 4 + random.choice((0, 0, 1, 2, 3)))
    return random.choice(_PROMPTS), code, random.choice(_OUTPUTS)


def _event(random: Random, op: str, short: bool) -> Event:
    if op == "arrive":
        return (op, *_size(random, short))
    if op == "fork":
        return op, random.randrange(4), random.choice((0, 1, 2, 4, 5)), random.choice(_OUTPUTS)
    if op in ("step", "hold"):
        return op, random.randint(1, 5) if op == "step" else random.choice((1, 1, 0)), 0, 0
    return op, 0 if op == "reset" else random.randrange(4), 0, 0
