"""Small jobs for tests."""

from __future__ import annotations

from fuzzkv.targets.vllm.replay.script import Arm, Job, Kind, parse_script

ops = parse_script


def job(kind: Kind, arms: dict[str, str], endpoint: tuple[tuple[int, int], ...] = ()) -> Job:
    """A job of arms ``{"a+b": script}``; the empty name is the control."""
    made = tuple(Arm(tuple(filter(None, name.split("+"))), ops(text)) for name, text in arms.items())
    return Job("fkv-000000000000", kind, made, endpoint, seed=3, tick_us=1000, slack_ticks=5)
