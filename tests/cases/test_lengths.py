"""What ``fuzzkv verify`` may say of a schedule's length, and what not."""

from __future__ import annotations

from fuzzkv.cli.verify import _class
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ARRIVE, Config
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.ascent import Climb
from fuzzkv.solver.unrolling import Breach
from fuzzkv.solver.verify import Refuted, Verification
from tests.solver.test_ordinary_python import Squeezes
from tests.solver.test_verify import LAYOUT, NAMES, TRACE, verification


def test_a_class_that_a_part_has_is_never_gone_through() -> None:
    # The climb of the larger set doesn't ask for it, so its depth says nothing of the class.
    found = Refuted(NAMES, LAYOUT, TRACE, "known")
    space = verification()._space(3)
    for aside, word in ((3, "proved"), (0, "known")):
        climb = Climb(3, space, depth=2, aside={LAYOUT: aside}, ending="time")
        [told] = verification()._verdict(climb, {LAYOUT: found}).refuted
        assert told.shortest == word


def test_of_a_policy_in_ordinary_python_no_length_is_shown(defaults: tuple[Policy, ...]) -> None:
    policies = (Squeezes.as_policy(), defaults[2])
    names = tuple(policy.name for policy in policies)
    ours = Verification(policies, Config(), Window(requests=1, pages=6))
    target: Breach = ("I4", "Squeezes", "quantise")
    found = Refuted(names, target, TRACE, "known")
    climb = Climb(3, ours._space(3), depth=9, found={("I2", None, "step"): TRACE}, aside={target: 3})
    assert {told.shortest for told in ours._verdict(climb, {target: found}).refuted} == {"known"}
    # Nor is the solver asked: nearly all of its answers are the envelope's and not the policy's.
    known = {3: {target: found}}
    ours._refute(known, {3: ours._space(3)}, [Climb(3, ours._space(3))], 60)
    assert known == {3: {target: found}}


def test_a_schedule_beyond_the_window_is_not_said_to_be_the_shortest() -> None:
    ours = verification()
    for events, needs in ((TRACE, None), ((TRACE[0], (ARRIVE, 1, 1), *TRACE[1:]), (2, 1))):
        climb = Climb(3, ours._space(3), depth=1, aside={LAYOUT: 9}, ending="time")
        [told] = ours._verdict(climb, {LAYOUT: Refuted(NAMES, LAYOUT, events, "proved")}).refuted
        assert told.needs == needs and told.settled is (needs is None)
        words = (
            "none in this window is shorter; this one needs 2 x 1 pages"
            if needs
            else "the shortest in this window"
        )
        assert f"{len(events)} events, {words}" in _class(told)


def test_more_seeds_are_for_long_schedules_only() -> None:
    for length, word, more in ((13, "known", True), (12, "known", False), (13, "kept", False)):
        assert Verification._long({3: {LAYOUT: Refuted(NAMES, LAYOUT, TRACE[:1] * length, word)}}) is more
