"""Calls an object in every order that the engine can produce, and shrinks what breaks a rule.

A sequence of calls is a list of three small numbers each; a *world* reads it, makes legal calls of it and skips
what would be illegal, so that leaving any of them out leaves a legal sequence.  Sequences are drawn from a seed in a
plain loop; what broke a rule is shrunk by Hypothesis.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import choices_to_bytes

from fuzzkv.core.results import Failure
from fuzzkv.strategies.memory import StartFrom
from fuzzkv.targets.vllm.plugin.record import Report, RuleBroken

CallCode = tuple[int, int, int]
LONGEST = 48
"""Most calls of a sequence."""
LARGEST = 7
"""Largest of the two numbers of a call."""

World = Callable[[Sequence[CallCode], Report], None]
"""Makes the calls on a fresh object and tells them to the report, which ends it at the first broken rule."""


@dataclass(frozen=True)
class Broken:
    """A rule that was broken, how, and the shortest calls that show it."""

    violation: Failure
    calls: tuple[str, ...]


@dataclass
class Exercised:
    """The result of exercising an object: sequences tried, how often each rule was put to the test, and one entry for each broken rule.

    ``unsteady``: two equal sequences of calls got different answers, so rules that compare two objects weren't tested.
    """

    examples: int = 0
    checked: Counter[str] = field(default_factory=Counter)
    broken: dict[str, Broken] = field(default_factory=dict)
    unsteady: bool = False

    def add(self, other: Exercised) -> None:
        """Add what came of other sequences; the shortest calls that break a rule stay."""
        self.examples += other.examples
        self.checked += other.checked
        self.unsteady |= other.unsteady
        for rule, broken in other.broken.items():
            if rule not in self.broken or len(broken.calls) < len(self.broken[rule].calls):
                self.broken[rule] = broken


def explore(world: World, kinds: int, *, seed: int, examples: int) -> Exercised:
    """Try ``examples`` sequences of calls of ``kinds`` kinds.  Same seed, same result."""
    drawn, found = random.Random(seed), Exercised()
    shortest: dict[str, tuple[CallCode, ...]] = {}
    for _ in range(examples):
        calls = tuple(_draw(drawn, kinds))
        report = Report(strict=True)
        broken = _first(world, calls, report)
        found.examples += 1
        found.checked += report.checked
        if broken is None:
            continue
        known = shortest.get(broken.action)
        if known is None or len(calls) < len(known):
            shortest[broken.action] = calls
    for rule, calls in sorted(shortest.items()):
        least = _shrink(world, kinds, calls, rule, seed)
        report = Report(strict=True)
        violation = _first(world, least, report)
        assert violation is not None and violation.action == rule
        found.broken[rule] = Broken(violation, tuple(transcript(world, least)))
    return found


def transcript(world: World, calls: Sequence[CallCode]) -> list[str]:
    """The calls that a sequence comes to, as text, up to the one that breaks a rule."""
    lines: list[str] = []
    report = Report(strict=True)
    report.told = lines.append
    _first(world, calls, report)
    return lines


def _draw(drawn: random.Random, kinds: int) -> Iterable[CallCode]:
    """A sequence: of all kinds, or only of a few, which come to states that a mix of all rarely does."""
    among = list(range(kinds))
    if drawn.random() < 0.5:
        among = drawn.sample(among, drawn.randint(2, max(2, kinds - 2)))
    for _ in range(drawn.randint(1, LONGEST)):
        yield drawn.choice(among), drawn.randint(0, LARGEST), drawn.randint(0, LARGEST)


def _first(world: World, calls: Sequence[CallCode], report: Report) -> Failure | None:
    try:
        world(calls, report)
    except RuleBroken as broken:
        return broken.violation
    except Exception:
        # A call of the object failed: the watch has noted whose fault that is.
        if not report.failures:
            raise
    return report.failures[0] if report.failures else None


def _leave_out(
    calls: tuple[CallCode, ...], breaks: Callable[[Sequence[CallCode]], bool]
) -> tuple[CallCode, ...]:
    size = len(calls)
    while size:
        at = 0
        while at < len(calls):
            fewer = calls[:at] + calls[at + size :]
            calls, at = (fewer, at) if breaks(fewer) else (calls, at + size)
        size //= 2
    return calls


class _RuleBreaks(Exception):
    """A drawn sequence breaks the rule."""


def _shrink(
    world: World, kinds: int, calls: tuple[CallCode, ...], rule: str, number: int
) -> tuple[CallCode, ...]:
    """The shortest calls that break the rule first: whole runs are left out, then Hypothesis goes on from there."""

    def breaks(tried: Sequence[CallCode]) -> bool:
        broken = _first(world, tried, Report(strict=True))
        return broken is not None and broken.action == rule

    calls = _leave_out(calls, breaks)
    choices: list[int | bool] = []
    for call in calls:
        choices += [True, *call]
    if len(calls) < LONGEST:
        choices.append(False)
    choices.append(False)  # one choice too many, or it counts as shrunk already
    best = [calls]
    one = st.tuples(st.integers(0, kinds - 1), st.integers(0, LARGEST), st.integers(0, LARGEST))

    # The settings come after the seed, which would take the database away.
    @settings(
        database=StartFrom(choices_to_bytes(choices)),
        phases=(Phase.reuse, Phase.shrink),
        max_examples=100,
        deadline=None,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @seed(number)
    @given(st.lists(one, max_size=LONGEST))
    def test(drawn: list[CallCode]) -> None:
        if breaks(drawn):
            if (len(drawn), drawn) < (len(best[0]), list(best[0])):
                best[0] = tuple(drawn)
            raise _RuleBreaks

    with suppress(_RuleBreaks):
        test()
    return best[0]
