"""A session on engines of vLLM: engine instances of the configurations that are asked for, and a judge of their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzzkv.core.results import Failure, Outcome
from fuzzkv.targets.base import Arm
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import TIE, LiveHistory
from fuzzkv.targets.vllm.policies import LivePolicy
from fuzzkv.targets.vllm.pool.engine_pool import EnginePool, Start
from fuzzkv.targets.vllm.schedule import LiveSchedule

Judge = Callable[[Sequence[LivePolicy], LiveSchedule, LiveHistory], tuple[Failure, ...]]
"""What is wrong with a run of a set: what the engine's watchers saw, and tokens that its control doesn't have."""


class EngineSession(EnginePool):
    """Runs and judges arms on engines that ``start`` makes over ``base``; at most ``keep`` are open."""

    def __init__(self, start: Start, base: EngineConfig, judge: Judge, *, keep: int) -> None:
        super().__init__(start, base, keep)
        self.judge = judge

    def run(
        self, policies: Sequence[LivePolicy], schedule: LiveSchedule, *, fresh: bool = False
    ) -> Arm[LivePolicy]:
        """One arm.  An engine that died without a word tells nothing of its policies, so they count as having acted."""
        history = self.history(policies, schedule, fresh=fresh)
        found = self.judge(policies, schedule, history)
        broken = tuple(failure for failure in found if failure.action != TIE)
        acts, mute = history.acts, bool(broken) and not history.acts
        acted = sum(1 << k for k, policy in enumerate(policies) if mute or policy.acted(acts))
        outcome = Outcome(broken, acted, ties=len(found) - len(broken), counts=acts)
        exercised = {p.name: {name: acts.get(name, 0) for name in p.exercised} for p in policies}
        return Arm(tuple(policies), outcome, exercised, history)
