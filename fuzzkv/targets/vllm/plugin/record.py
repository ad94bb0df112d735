"""The record of the watches: breaches as failures, and how often each rule was put to the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.plugin.rules import RULES

MOST = 20
"""Breaches of one rule that a report keeps; the rest are only counted."""


class RuleBroken(Exception):
    """A strict report met its first breach: nothing after it can be judged."""

    def __init__(self, violation: Failure) -> None:
        super().__init__(violation.text)
        self.violation = violation


class Report:
    """Collects what the watches see.

    ``now`` tells the event and the engine step of a breach (both -1 without it).  A ``strict`` report raises
    :class:`RuleBroken` at the first breach; otherwise the engine goes on, and ``failures`` keeps up to ``MOST`` a rule.
    ``checked`` counts how often each rule was put to the test, ``broken`` how often it was broken.  Who exercises an object
    tells each call to ``told``.
    """

    def __init__(
        self, now: Callable[[], tuple[int, int]] = lambda: (-1, -1), *, strict: bool = False
    ) -> None:
        self.now, self.strict = now, strict
        self.checked: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.told: Callable[[str], None] = lambda line: None

    def check(self, rule: str, holds: bool, text: str, *about: object, page: int = -1) -> bool:
        """Note that ``rule`` was put to the test and whether it holds; ``text`` with ``about`` in its braces says how it
        was broken.
        """
        self.checked[rule] += 1
        if holds:
            return True
        self.broken[rule] += 1
        event, step = self.now()
        found = Failure(
            invariant=RULES[rule].invariant,
            action=rule,
            event=event,
            stamp=step,
            request=-1,
            page=page,
            text=f"{RULES[rule].keeper}: {text.format(*map(named, about))} ({RULES[rule].text})",
        )
        if self.broken[rule] <= MOST:
            self.failures.append(found)
        if self.strict:
            raise RuleBroken(found)
        return False


def named(keys: object) -> str:
    """Keys for people: the first eight hexadecimal digits of each, or the number of a short one."""
    if isinstance(keys, bytes):
        return f"k{int.from_bytes(keys[:-4], 'big')}" if len(keys) <= 8 else keys.hex()[:8]
    if isinstance(keys, (list, tuple, set, frozenset, dict)):
        shown = [named(key) for key in (sorted(keys) if isinstance(keys, (set, frozenset)) else keys)]
        return "[" + ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "") + "]"
    return str(keys)[:80]
