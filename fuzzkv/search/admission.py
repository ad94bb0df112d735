"""Admission to a hunt: each policy is tried alone first, and one that fails alone is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuzzkv.core.budgets import ALONE, FREE
from fuzzkv.events import AcceptanceDone, Event, Listener, PhaseStarted, WarningRaised, emit
from fuzzkv.search.acceptance import fault_of, load_acceptance, stands, try_alone
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.callbacks import RuleFault
from fuzzkv.simulator.bulk.engine import BulkEngine


@dataclass
class Admission:
    """Tries each policy alone, and keeps the result so far.

    ``single`` are the names of those that fail alone, ``idle`` of those that pass and never act; ``engine`` is of
    all that pass, ``None`` if there are none (yet).
    """

    config: Config
    seed: int
    listeners: Sequence[Listener] = ()
    single: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    engine: BulkEngine | None = None

    def sound(self, policies: Sequence[Policy]) -> list[Policy]:
        """The policies whose rules run at all: looked at before anything is compiled, where a fault would end the process.

        Raises ``UsageError`` for a rule that leaves the vocabulary (FKV036).
        """
        about = "each policy alone (the first start compiles: about half a minute)"
        self._tell(PhaseStarted("accept", len(policies), about))
        return [policy for policy in policies if self._is_sound(policy)]

    def admit(self, sound: Sequence[Policy]) -> None:
        """Try each of these policies alone.  Raises ``UsageError`` for a broken file of acceptances (FKV076)."""
        kept = load_acceptance()
        if not sound:
            return
        engine = BulkEngine(sound, self.config)
        passed = []
        for policy in sound:
            if not self._passes(engine, policy):
                continue
            passed.append(policy)
            if not stands(kept, policy, self.config):
                text = f"{policy.name} has no kept acceptance on an engine at these parameters"
                self._tell(WarningRaised("FKV074", text, "Run 'fuzzkv accept' to compute and keep it."))
        if passed:
            self.engine = engine if len(passed) == len(sound) else BulkEngine(passed, self.config)

    def _is_sound(self, policy: Policy) -> bool:
        fault = fault_of(policy, self.config)
        if fault:
            self._refuse(policy, fault)
        return not fault

    def _passes(self, engine: BulkEngine, policy: Policy) -> bool:
        schedules = ALONE // FREE if policy.free else ALONE
        try:
            alone = try_alone(engine, policy.name, seed=self.seed, schedules=schedules)
        except RuleFault as error:
            self._refuse(policy, error.reason)
            return False
        self._tell(AcceptanceDone(policy.name, alone.passed, alone.schedules, alone.reason))
        if not alone.passed:
            self.single.append(policy.name)
        elif alone.idle:
            self.idle.append(policy.name)
        return alone.passed

    def _refuse(self, policy: Policy, fault: str) -> None:
        self.single.append(policy.name)
        self._tell(AcceptanceDone(policy.name, False, 0, fault))

    def _tell(self, event: Event) -> None:
        emit(self.listeners, event)
