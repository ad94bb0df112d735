"""Leaps and joined requests: small schedules for what cutting alone leaves large, on a toy tier that forgets a pin."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from fuzzkv.cases import session_shrink as shrinking
from fuzzkv.cases.session_shrink import SessionShrinker
from fuzzkv.core.results import Failure, FailureClass, signature
from fuzzkv.targets.vllm import language
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.language import EngineLanguage
from fuzzkv.targets.vllm.leaps import joined, leaps
from fuzzkv.targets.vllm.policies import LivePolicy, resolve
from fuzzkv.targets.vllm.schedule import ARRIVE, FORK, OPS, STEP, Event, LiveSchedule, size
from fuzzkv.targets.vllm.session import EngineSession

LRU = resolve(["vllm:offload-lru"])
KIND = FailureClass(("vllm:offload-lru",), "I1", "pin")
FRAMES = 3


class Forgetful:
    """Whole blocks of a request are stored in the step after it came, one more when its tokens fill it; who comes with blocks that
    are stored loads them in that step, and a store may take their place all the same.  ``pins``: the repaired twin.
    """

    def __init__(self, config: EngineConfig, pins: bool = False) -> None:
        self.tier, self.pins = config.tier is not None, pins

    def close(self) -> None:
        """Nothing to end."""

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        self.stored: list[tuple[int, int]] = []
        self.new: list[tuple[int, int, int]] = []
        self.running: list[tuple[int, int, int]] = []
        self.broken = False
        for op, a, b, c in (*schedule.events, (STEP, 8, 0, 0)):
            if op == ARRIVE:
                self.new.append((a, size(b), c))
            for _ in range(a if op == STEP else 0):
                self.step()
        failures = (Failure("I1", "pin", text="x"),) if self.broken and self.tier else ()
        return LiveHistory(failures=failures, counters={"stores": len(self.stored)})

    def step(self) -> None:
        loads = {(a, i) for a, tokens, _ in self.new for i in range(tokens // 32) if (a, i) in self.stored}
        going = [(a, tokens + 1, left - 1) for a, tokens, left in self.running if left > 1]
        for a, tokens, _ in [*going, *self.new]:
            fresh = [(a, i) for i in range(tokens // 32) if (a, i) not in self.stored]
            if len(fresh) > FRAMES:
                continue
            kept = [key for key in self.stored if not (self.pins and key in loads)]
            over = max(0, len(self.stored) + len(fresh) - FRAMES)
            self.broken |= not self.pins and bool(set(kept[:over]) & loads)
            self.stored = [key for key in self.stored if key not in kept[:over]] + fresh
        self.running, self.new = [*going, *self.new], []


def shrinker(pins: bool = False) -> SessionShrinker[LivePolicy]:
    session = EngineSession(
        lambda config: Forgetful(config, pins),
        EngineConfig(),
        lambda policies, schedule, history: history.failures,
        keep=2,
    )
    return SessionShrinker(session, EngineLanguage(), KIND, LRU)


def crowd(seed: int, requests: int = 14) -> LiveSchedule:
    """A long schedule under which it fails."""
    rng = random.Random(seed)
    while True:
        events: list[Event] = []
        for _ in range(requests):
            events.append((ARRIVE, rng.randrange(8), rng.randint(0, 27), rng.randint(1, 40)))
            events += [(STEP, rng.randint(1, 3), 0, 0)] * rng.randint(0, 1)
        schedule = LiveSchedule(48, 256, tuple(events))
        if shrinker().interesting(schedule):
            return schedule


@pytest.mark.parametrize("seed", range(4))
def test_two_requests_are_enough(seed: int) -> None:
    done = shrinker().shrink(crowd(seed))
    assert done is not None
    small, arms = done
    assert small.requests == 2 and len(small.events) <= 4
    assert [arm.failed for arm in arms] == [False, True]


def test_without_them_some_stay_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "LEAPS", 0)
    monkeypatch.setattr(language, "PASSES", [p for p in language.PASSES if p.name != "requests joined"])
    left = [done[0].requests for seed in range(4) if (done := shrinker().shrink(crowd(seed))) is not None]
    assert max(left) > 2


def test_the_repaired_twin_shows_nothing() -> None:
    assert not any(shrinker(pins=True).interesting(crowd(seed)) for seed in range(4))


def test_same_schedule_same_result() -> None:
    first, second = shrinker(), shrinker()
    assert first.shrink(crowd(1)) == second.shrink(crowd(1)) and first.counts == second.counts


@pytest.mark.parametrize("most", [2, 3])
def test_leaps_are_small_and_repeatable(most: int) -> None:
    sources, ops = [crowd(0)], [op for op in OPS if op not in ("hold", "complete", "fail", "short")]
    drawn = list(islice(leaps(sources, ops, (9, 12), random.Random(3), most), 200))
    assert drawn == list(islice(leaps(sources, ops, (9, 12), random.Random(3), most), 200))
    assert {s.requests for s in drawn} == set(range(1, most + 1))
    assert len(set(drawn)) > 150 and max(len(s.events) for s in drawn) < 20
    assert {op for s in drawn for op, *_ in s.events} <= set(ops)
    for schedule in drawn:
        assert next(op for op, *_ in schedule.events if op in (ARRIVE, FORK)) == ARRIVE


def test_no_leap_without_requests() -> None:
    assert list(leaps([LiveSchedule(48, 256, ((STEP, 1, 0, 0),))], OPS, (9,), random.Random(0))) == []


def test_joined_leaves_one_out_and_lets_the_others_grow() -> None:
    schedule = LiveSchedule(
        48, 256, ((ARRIVE, 4, 4, 1), (STEP, 1, 0, 0), (ARRIVE, 4, 4, 1), (ARRIVE, 0, 12, 1))
    )
    candidates = list(joined(schedule))
    assert all(c.requests == 2 for c in candidates)
    # Without the last: the two of prompt 4 are three blocks longer, less one token, and make two.
    assert candidates[0].events == ((ARRIVE, 4, 19, 2), (STEP, 1, 0, 0), (ARRIVE, 4, 19, 2))
    held = [c for c in candidates if "hold" in {op for op, *_ in c.events}]
    assert held and len(held) == len(candidates) // 2
    assert all([op for op, *_ in c.events].index("hold") < len(c.events) - 1 for c in held)


def test_a_guard_more_forgets_only_what_was_shown() -> None:
    one = shrinker()
    shown, silent = crowd(0), LiveSchedule(48, 256, ((ARRIVE, 0, 4, 1),))
    assert one.interesting(shown) and not one.interesting(silent)
    one.add_guard(())
    assert one.interesting(silent) is False and one.tried == 2
    assert one.interesting(shown) and one.tried == 3


def test_keys_and_numbers_make_no_traces() -> None:
    texts = (
        "evicted dd104921, which 3 loads read",
        "evicted 94577458, which 12 loads read",
        "evicted deadbeef, which 1 loads read",
    )
    assert len({signature(Failure("I1", "pin", text=text)) for text in texts}) == 1
