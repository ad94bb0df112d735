"""What a case of the model says to run: a schedule, policies slot by slot, and a configuration of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fuzzkv.core.results import Outcome
from fuzzkv.errors import UsageError
from fuzzkv.oracles.conflict import Finding, findings, smallest_failing
from fuzzkv.policies.registry import installed
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, Config, Event, Schedule, afterwards, schedule_from_json
from fuzzkv.simulator.history import History, run_history


@dataclass(frozen=True)
class Recipe:
    """What a case says to run: a schedule, its policies slot by slot, and the machine's configuration."""

    schedule: Schedule
    policies: tuple[Policy, ...]
    config: Config

    @property
    def workload(self) -> tuple[str, ...]:
        """The extra events that its policies live on."""
        return tuple(sorted({name for policy in self.policies for name in policy.workload}))

    def histories(self, *, enforce: bool = False, on: bool = False) -> dict[int, History]:
        """Histories of every subset of the policies, by mask, on the Python interpreter.

        ``on`` goes on with what always happens after a schedule.
        """
        events = self.schedule.events + (afterwards(len(self.policies)) if on else ())
        schedule = self.schedule.with_events(events)
        return {
            mask: run_history(schedule, self.policies, mask, self.config, enforce=enforce)
            for mask in range(1 << len(self.policies))
        }

    def conflicts(self, histories: Mapping[int, History] | None = None) -> list[Finding]:
        """The conflicts of the whole set, one for each invariant that it breaks."""
        arms = outcomes(histories or self.histories())
        full = (1 << len(self.policies)) - 1
        return findings(arms, full, self.schedule.policies) if full in smallest_failing(arms) else []

    def finding(self, histories: Mapping[int, History] | None = None) -> Finding | None:
        """The first conflict of the whole set, or ``None`` if there is none."""
        found = self.conflicts(histories)
        return found[0] if found else None


def outcomes(histories: Mapping[int, History]) -> dict[int, Outcome]:
    """Histories by mask as outcomes of arms."""
    return {mask: history.outcome for mask, history in histories.items()}


def narrowed(
    policies: Sequence[Policy], mask: int, events: Sequence[Event]
) -> tuple[tuple[Policy, ...], Schedule]:
    """A schedule for the policies of a mask alone, their slots numbered anew."""
    kept = [k for k in range(len(policies)) if mask >> k & 1]
    moved = tuple((op, kept.index(a) if op == ACT else a, b) for op, a, b in events if op != ACT or a in kept)
    chosen = tuple(policies[k] for k in kept)
    return chosen, Schedule(tuple(policy.name for policy in chosen), moved)


def widened(mask: int, events: Sequence[Event]) -> tuple[Event, ...]:
    """The events of the policies of a mask alone, with the slots that these have in the whole list: ``narrowed`` back."""
    kept = [k for k in range(mask.bit_length()) if mask >> k & 1]
    return tuple((op, kept[a] if op == ACT else a, b) for op, a, b in events)


def read_case(case: Mapping[str, Any], *, allowed: Mapping[str, Policy] | None = None) -> Recipe:
    """The recipe of a case file.

    Its policies must be installed (or in ``allowed``): a case never imports code.  Raises ``UsageError`` for
    a policy that isn't known (FKV001), another version (FKV006), an unknown parameter (FKV005) or
    configuration (FKV032), a malformed event (FKV033), and a case of a live engine (FKV101).
    """
    if "target" in case:
        raise UsageError(
            code="FKV101",
            value=str(case["id"]),
            reason="it is a case of a live engine, and this reads cases of the model",
            cure="'fuzzkv replay' runs it, 'fuzzkv corpus show' shows it.",
        )
    known = {**installed(), **(allowed or {})}
    chosen = []
    for entry in case["policies"]:
        name = entry["name"]
        if name not in known:
            raise UsageError(
                code="FKV001",
                value=f"{case['id']}: {name!r}",
                reason="no policy of this name is registered",
                cure=f"Install the package that has it, or allow it as in: {case['replay']}"
                if "--policies" in case["replay"]
                else "Install the package that has it, or allow it with --policies pkg.module:NAME.",
            )
        policy = known[name]
        if policy.version != entry["version"]:
            raise UsageError(
                code="FKV006",
                value=f"{case['id']}: {name} {entry['version']}",
                reason=f"version {policy.version} is installed",
                cure="Hunt again, or install that version.",
            )
        if set(entry["parameters"]) != set(policy.parameters):
            raise UsageError(
                code="FKV005",
                value=f"{case['id']}: {name}",
                reason="its parameters aren't those of the installed policy",
                cure="Hunt again, or install the release that filed it.",
            )
        chosen.append(policy.tuned(**entry["parameters"]))
    try:
        config = Config(**case["config"])
    except TypeError as error:
        raise UsageError(
            code="FKV032",
            value=str(case["id"]),
            reason=f"its configuration isn't understood ({error})",
            cure="Check the case file against its schema.",
        ) from error
    try:
        schedule = schedule_from_json(tuple(policy.name for policy in chosen), case["schedule"])
    except ValueError as error:
        raise UsageError(
            code="FKV033", value=str(case["id"]), reason=str(error), cure="Restore the file, or hunt again."
        ) from error
    return Recipe(schedule, tuple(chosen), config)
