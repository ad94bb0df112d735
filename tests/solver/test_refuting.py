"""Known schedules asked about one by one: made shorter, shown to be the shortest, or given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import TICK, Event
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.ascent import Judged
from fuzzkv.solver.asking import SolverQuestion
from fuzzkv.solver.refuting import TURNS, Claim, Refuting
from fuzzkv.solver.sat import Question
from fuzzkv.solver.unrolling import Breach, Unrolling
from fuzzkv.solver.verify import Verification
from tests.field import vllm_48412
from tests.solver.test_search import ASK, LAYOUT, MUTANT, OPEN, SMALL, acts, space_of
from tests.solver.tiny import PROMISES, SHRINKS

LONGER = (OPEN, ASK, acts(0), (TICK, 8, 0), acts(1))


def refuted(policies: Sequence[Policy], claim: Claim, judge: Any = None, seconds: float = 60.0) -> Claim:
    """A claim after the solver was asked about it."""
    window = Window(requests=1, pages=1, device=3, host=2)
    judge = judge or Verification(tuple(policies), SMALL, window).judge
    Refuting({claim.mask: space_of(policies)}, [claim], judge, workers=1).run(seconds)
    return claim


@pytest.mark.slow
def test_a_known_schedule_is_made_the_shortest() -> None:
    heard: list[int] = []
    claim = Claim(3, LAYOUT, LONGER)
    judge = Verification(vllm_48412.REPORT.policies, SMALL, Window(pages=1)).judge
    space = space_of(vllm_48412.REPORT.policies)
    Refuting({3: space}, [claim], judge, workers=1, tell=lambda c: heard.append(len(c.events))).run(60)
    assert claim.shown and len(claim.events) == 3 and not claim.denied
    assert heard[-2:] == [3, 3] and heard == sorted(heard, reverse=True)


@pytest.mark.slow
def test_what_a_smaller_set_shows_too_is_no_shorter_schedule() -> None:
    target: Breach = ("I2", "breaks-i2", "drop_device")
    events = (OPEN, acts(1), acts(0), ASK, acts(0))
    claim = refuted((MUTANT["I2"], PROMISES), Claim(3, target, events))
    assert claim.shown and claim.events == events


def test_a_claim_that_the_machine_denies_is_no_claim() -> None:
    events = (OPEN, acts(0), ASK, acts(1))
    claim = refuted((PROMISES, SHRINKS), Claim(3, ("I1", "shrinks", "quantise"), events), lambda *_: Judged())
    assert claim.denied and not claim.shown and claim.events == events
    late = refuted((PROMISES, SHRINKS), Claim(3, ("I1", "shrinks", "quantise"), events), seconds=0)
    assert not late.shown and not late.denied


def test_what_a_smaller_set_breaks_afterwards_is_no_excuse() -> None:
    policies = (PROMISES, SHRINKS, MUTANT["I2"])
    target: Breach = ("I1", "shrinks", "quantise")
    conflict = (OPEN, acts(0), acts(1))
    for events, alone, clean, before in (
        (conflict, 4, True, True),
        ((*conflict, acts(2), acts(2)), 4, False, True),
        ((OPEN, acts(0), acts(2), acts(2), acts(1)), 4, False, False),
    ):
        space = space_of(policies)
        both = Unrolling(policies, space.config, space.window, space.codes, arms=(alone,))
        for op, a, b in events:
            both.extend()
            for mine, given in zip(both.events[-1], (op, a, b), strict=True):
                both.circuit.require(mine == given)
        for truth, expected in ((both.clean(alone), clean), (both.clean_before(target, alone), before)):
            question = Question(both.circuit, both.shows(target), truth)
            question.start(60)
            assert bool(question.answer()) is expected
    # What is shown is the schedule up to there.
    claim = Claim(7, target, (*conflict, ASK))

    def judge(_: int, events: tuple[Event, ...]) -> Judged:
        return Judged((target,)) if len(events) in (3, 4) else Judged(failing=(4,))

    refuting = Refuting({7: space_of(policies).beside((4,))}, [claim], judge)
    refuting._look(claim, (*conflict, acts(2), acts(2)))
    assert claim.events == conflict and not claim.denied


def test_a_claim_that_never_gets_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SolverQuestion, "answer", lambda self: self.cancel())
    claim = refuted(
        (PROMISES, SHRINKS), Claim(3, ("I1", "shrinks", "quantise"), (OPEN, acts(0), ASK, acts(1)))
    )
    assert claim.tries == TURNS and not claim.shown and not claim.denied
