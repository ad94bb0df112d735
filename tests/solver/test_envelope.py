"""Policies in ordinary Python before the solver: the envelope finds what is real, and says how often it answered amiss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzzkv.semantics.policy import Policy
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver import ascent
from fuzzkv.solver.verify import SetVerdict, Verification
from tests.broken import CAREFUL_FREE, CONFIG, HASTY_FREE

SMALL = Window(requests=1, pages=2, device=CONFIG.device_frames, host=max(1, CONFIG.host_frames))


def alone(policy: Policy, deepest: int) -> SetVerdict:
    """What the solver says of one policy that declares one action, up to so many events."""
    declared = tuple(action for action in policy.manifest.actions if action.primitive == "drop_device")
    narrow = replace(policy, manifest=replace(policy.manifest, actions=declared))
    (verdict,) = Verification((narrow,), CONFIG, SMALL, deepest=deepest).run(60).sets
    return verdict


@pytest.mark.slow
def test_what_a_policy_really_does_is_found_and_what_it_does_not_is_spurious(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What it really does is found among the first answers; after it there are only spurious ones.
    monkeypatch.setattr(ascent, "PATIENCE", 20)
    verdict = alone(HASTY_FREE, 3)
    (found,) = [each for each in verdict.refuted if each.target == ("I1", "hasty", "drop_device")]
    # It quotes in its first act and drops in its second; the envelope could do both at once, and answers so first.
    assert len(found.events) == 3 and verdict.spurious > 0 and verdict.questions > verdict.spurious


@pytest.mark.slow
def test_a_careful_policy_is_never_refuted() -> None:
    verdict = alone(CAREFUL_FREE, 2)
    assert verdict.refuted == () and verdict.spurious > 0 and verdict.verdict in ("bounded(1)", "bounded(2)")
