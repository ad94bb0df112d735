"""The model as a target: every run is one of the Python interpreter, which watches more than the compiled core does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuzzkv import __version__
from fuzzkv.core.results import Failure, Outcome, class_of, mask_of
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config, Schedule
from fuzzkv.simulator.history import History, run_history
from fuzzkv.strategies.model import model_space
from fuzzkv.targets.base import COMMANDS, Arm, Language, SessionRecipe
from fuzzkv.targets.model.recipe import read_case


class ModelSession:
    """Runs schedules of ``policies``, which are the slots, on a machine of this configuration."""

    def __init__(self, policies: Sequence[Policy], config: Config) -> None:
        self.policies, self.config = tuple(policies), config
        self.names = tuple(policy.name for policy in self.policies)
        self.started = self.runs = self.steps = self.events = 0

    def run(self, policies: Sequence[Policy], schedule: Schedule, *, fresh: bool = False) -> Arm[Policy]:
        """One arm; every run begins with an empty machine, so all are ``fresh``."""
        chosen = [policy.name for policy in policies]
        history = run_history(schedule, self.policies, mask_of(self.names, chosen), self.config)
        self.runs += 1
        self.steps += history.steps
        self.events += len(history.records)
        return Arm(tuple(policies), self._outcome(history, chosen), history.exercised, history)

    def open(self, policies: Sequence[Policy]) -> None:
        """Any set can be had."""

    def ahead(self, policies: Sequence[Policy]) -> None:
        """Nothing takes time to start."""

    def close(self) -> None:
        """Nothing is open."""

    def _outcome(self, history: History, chosen: Sequence[str]) -> Outcome:
        """The outcome with the policies numbered as they were given."""
        whole = history.outcome
        acted = sum(1 << k for k, name in enumerate(chosen) if whole.acted >> self.names.index(name) & 1)
        return replace(whole, acted=acted, counts=history.goals)


@dataclass(frozen=True)
class ModelTarget:
    """The model with these policies, slot by slot."""

    policies: tuple[Policy, ...] = ()
    config: Config = field(default_factory=Config)
    name: str = "model"
    engine: str = f"fuzzkv {__version__}"
    device: str = "cpu"
    model: str = ""
    can: frozenset[str] = frozenset(COMMANDS)

    @property
    def language(self) -> Language[Schedule]:
        """Events of the semantics."""
        workload = sorted({name for policy in self.policies for name in policy.workload})
        return Language(model_space([policy.name for policy in self.policies], workload))

    def session(self, *, keep: int) -> ModelSession:
        """A session; there is nothing to keep open."""
        return ModelSession(self.policies, self.config)

    def unsound(self, policies: Sequence[Policy]) -> str:
        """The model's oracles tell of a policy alone under a schedule, and of nothing else."""
        return ""

    def remarks(self, arms: Sequence[Arm[Policy]]) -> Failure | None:
        """Nothing that single runs don't tell."""
        return None

    def as_json(self) -> Mapping[str, Any]:
        """The machine's configuration."""
        return self.config.as_json()

    def config_of(self, schedule: Schedule) -> Mapping[str, Any]:
        """The machine's configuration."""
        return self.config.as_json()

    def kept_history(self, arms: Sequence[Arm[Policy]]) -> Mapping[str, Any] | None:
        """The model is run again where a case is explained."""
        return None

    def configured_as(self, case: Mapping[str, Any]) -> ModelTarget:
        """The model with the policies and the configuration of a case."""
        recipe = read_case(case, allowed={policy.name: policy for policy in self.policies})
        return replace(self, policies=recipe.policies, config=recipe.config)

    def read(
        self, case: Mapping[str, Any], allowed: Mapping[str, Policy] | None = None
    ) -> SessionRecipe[Schedule, Policy]:
        """The recipe of a case.  Raises as :func:`fuzzkv.targets.model.recipe.read_case` does."""
        recipe = read_case(case, allowed=allowed)
        return SessionRecipe(recipe.schedule, recipe.policies, class_of(case))
