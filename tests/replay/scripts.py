"""Helpers: scripts written as text, and small jobs."""

from __future__ import annotations

from fuzzkv.replay.script import Arm, Job, Kind, Op


def ops(text: str) -> tuple[Op, ...]:
    """``"arrive 0 4; store 0 2 5; stored 0 2; wait 3"`` as operations."""
    result = []
    for line in text.split(";"):
        verb, *rest = line.split()
        numbers = [int(x) for x in rest]
        if verb == "wait":
            result.append(Op(verb, -1, -1, numbers[0]))
        elif verb in ("arrive", "finish"):
            result.append(Op(verb, numbers[0], -1, numbers[1] if numbers[1:] else -1))
        else:
            result.append(Op(verb, numbers[0], numbers[1], numbers[2] if numbers[2:] else -1))
    return tuple(result)


def job(kind: Kind, arms: dict[str, str], endpoint: tuple[tuple[int, int], ...] = ()) -> Job:
    """A job of arms ``{"a+b": script}``; the empty name is the control."""
    made = tuple(Arm(tuple(filter(None, name.split("+"))), ops(text)) for name, text in arms.items())
    return Job("fkv-000000000000", kind, made, endpoint, seed=3, tick_us=1000, slack_ticks=5)
