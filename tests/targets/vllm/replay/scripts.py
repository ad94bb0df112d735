"""Small jobs for tests."""

from __future__ import annotations

from fuzzkv.targets.vllm.replay.script import ReplayArm, ReplayJob, ReplayKind, parse_script

ops = parse_script


def job(kind: ReplayKind, arms: dict[str, str], endpoint: tuple[tuple[int, int], ...] = ()) -> ReplayJob:
    """A job of arms ``{"a+b": script}``; the empty name is the control."""
    made = tuple(ReplayArm(tuple(filter(None, name.split("+"))), ops(text)) for name, text in arms.items())
    return ReplayJob("fkv-000000000000", kind, made, endpoint, seed=3, tick_us=1000, slack_ticks=5)
