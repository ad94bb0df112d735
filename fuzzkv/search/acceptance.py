"""Acceptance: a policy alone, at the parameters it is tuned to, passes its own checks over many schedules and
on the engine.

`fuzzkv accept` computes it and keeps it in a file; a hunt looks the file up, and tries every policy alone
again on fresh schedules. The file also says where the edge is: the next more aggressive value of a tuned
parameter, which fails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from fuzzkv.errors import FuzzkvError, UsageError
from fuzzkv.events import Listener
from fuzzkv.oracles.statistics import clopper_pearson_upper
from fuzzkv.oracles.thresholds import default_thresholds
from fuzzkv.semantics.layout import ACTIONS, COLUMNS, NPRIM, NR, PRIMITIVES, SIZE
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config, Schedule
from fuzzkv.simulator.bulk.callbacks import fault
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.interpreters import begin, python_apply, rule_digest
from fuzzkv.simulator.start import first_state
from fuzzkv.strategies.covering_arrays import drawn
from fuzzkv.targets.model.recipe import Recipe, narrowed

SCHEMA_VERSION = 1
OWN_FILE = "acceptance.json"
"""Where `fuzzkv accept` writes, and a hunt looks, in the working folder."""
FIRST_LOOK = 40
"""Schedules on which a rule is tried in Python before it is compiled."""
LOOK = 2_000
"""Schedules on which it is seen what a policy does."""


@dataclass(frozen=True)
class Alone:
    """A policy alone on the model: schedules, in how many it failed, the first failure, the upper bound of
    the failure rate, the actions that it took though its manifest doesn't declare them, and whether it never
    did anything (``idle``).
    """

    policy: str
    schedules: int
    failures: int
    invariant: str
    number: int
    upper: float
    undeclared: tuple[str, ...]
    idle: bool

    @property
    def passed(self) -> bool:
        """Whether it never failed and did only what it declares."""
        return self.failures == 0 and not self.undeclared

    @property
    def reason(self) -> str:
        """Why it didn't pass, or an empty string."""
        if self.undeclared:
            return f"does what its manifest doesn't declare: {', '.join(self.undeclared)}"
        if self.failures:
            return f"breaks {self.invariant} alone in {self.failures} of {self.schedules} schedules"
        return ""


def try_alone(engine: BulkEngine, policy: str, *, seed: int, schedules: int) -> Alone:
    """Run one policy of a compiled set alone on many schedules (the empty control beside it)."""
    slot = engine.names.index(policy)
    alone = engine.again(seed=seed, only=1 << slot)
    alone.search(schedules)
    kinds = [c for c in alone.classes if c.failure_class.policies == (policy,)]
    first = min(kinds, key=lambda c: c.number, default=None)
    # What fails without the policy too is none of its failures.
    failures = max((c.seen for c in kinds), default=0)
    used = used_by(alone, policy, look=LOOK)
    declared = {action.primitive for action in engine.policies[slot].manifest.actions}
    return Alone(
        policy,
        schedules,
        failures,
        first.failure_class.invariant if first else "",
        first.number if first else -1,
        clopper_pearson_upper(failures, schedules, 0.05),
        tuple(sorted((used & ACTIONS) - declared)),
        not used,
    )


def fault_of(policy: Policy, config: Config) -> str:
    """How the policy's rule fails on the Python interpreter, or an empty string if it runs and does the same again.

    Looked at before anything is compiled, where a fault would end the process.  Raises ``UsageError``
    (FKV036) for a rule that leaves the vocabulary.
    """
    try:
        apply = python_apply((policy,))
        state: Any = np.zeros(SIZE, dtype=np.int64)
        ends: list[bytes] = []
        # Once more in the other order: what a rule remembers of earlier runs is another thing then.
        for number in (*range(FIRST_LOOK), *reversed(range(FIRST_LOOK))):
            state[:] = first_state(config, (policy,))
            begin((policy,), 1)
            for op, a, b in drawn((policy,), number):
                # A view is what the search gives a rule too.
                apply(memoryview(state), op, a, b, 1)
            ends.append(state.tobytes())
        if ends != ends[::-1]:
            return "it does something else when a run is made again: it may keep numbers in page.mark and cache.note only"
    except FuzzkvError:
        raise
    except (Exception, SystemExit) as error:
        # A rule that ends the process would end the command too, and with its own exit code.
        return fault(policy.name, error).reason
    return ""


def used_by(engine: BulkEngine, policy: str, *, look: int) -> set[str]:
    """Primitives that the policy used in the first ``look`` schedules of the set."""
    slot = engine.names.index(policy)
    full = (1 << len(engine.names)) - 1
    base = COLUMNS["ACTED"] + slot * NPRIM
    used: set[str] = set()
    for number in range(look):
        state = engine.final_state(engine.schedule(number).events, full)
        used |= {name for i, name in enumerate(PRIMITIVES) if state[base + i]}
    return used


def edge_of(policy: Policy, config: Config, *, seed: int, schedules: int) -> list[dict[str, Any]]:
    """The policy with more aggressive parameters, alone: which invariant breaks, and how often."""
    found = []
    for name, value in policy.edges:
        bolder = policy.tuned(**{name: value})
        engine = BulkEngine((bolder,), config, seed=seed)
        result = try_alone(engine, policy.name, seed=seed, schedules=schedules)
        found.append(
            {
                "parameter": name,
                "value": value,
                "failures": result.failures,
                "invariant": result.invariant,
                "schedules": schedules,
            }
        )
    return found


def load_acceptance() -> dict[str, Any]:
    """The kept acceptances: the shipped file, and over it ``acceptance.json`` in the working folder if it is
    there.
    """
    kept: dict[str, Any] = {"policies": {}}
    for source in (Path(str(files("fuzzkv.policies").joinpath("acceptance.json"))), Path(OWN_FILE)):
        try:
            found = json.loads(source.read_text(encoding="utf-8"))
            kept["policies"].update(
                {name: {**entry, "config": found["config"]} for name, entry in found["policies"].items()}
            )
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                code="FKV076",
                value=str(source),
                reason=f"is no acceptance file ({error})",
                cure="Run 'fuzzkv accept' again.",
            ) from error
    return kept


def stands(kept: Mapping[str, Any], policy: Policy, config: Config) -> bool:
    """Whether a passed acceptance was kept for exactly this rule, these parameters, this machine and these
    thresholds.
    """
    entry = kept["policies"].get(policy.name)
    return bool(entry) and (
        entry.get("version"),
        entry.get("parameters"),
        entry.get("rule"),
        entry.get("config"),
        entry.get("passed"),
        entry.get("engine", {}).get("thresholds"),
    ) == (
        policy.version,
        dict(policy.parameters),
        rule_digest(policy),
        config.as_json(),
        True,
        default_thresholds().digest,
    )


def edge_schedule(engine: BulkEngine, policy: str, *, look: int = 20_000) -> Schedule:
    """The schedule, of the first ``look``, in which the policy alone does most harm that is still allowed.

    The largest charge to one request, then the most demand loads, then the fewest events.
    """
    slot = engine.names.index(policy)
    loss, demand = COLUMNS["R_LOSS"], COLUMNS["DEMAND"]
    best, worst = engine.schedule(0), (-1, -1, 0)
    for number in range(look):
        schedule = engine.schedule(number)
        state = engine.final_state(schedule.events, 1 << slot)
        harm = (int(max(state[loss : loss + NR])), int(state[demand]), -len(schedule.events))
        if harm > worst:
            best, worst = schedule, harm
    return best


def on_engine(
    engine: BulkEngine, policy: Policy, config: Config, listeners: Sequence[Listener], *, device: str
) -> dict[str, Any]:
    """The policy alone on a real worker, at its edge: paired with full cache over every page, raw counts and
    decision.

    Raises ``EnvironmentFailure`` (FKV050) if no engine is installed.
    """
    from fuzzkv.search.confirming import alone_on_engine

    full = edge_schedule(engine, policy.name)
    chosen, schedule = narrowed(engine.policies, 1 << engine.names.index(policy.name), full.events)
    return alone_on_engine(Recipe(schedule, chosen, config), listeners, device=device)


def accept(
    policies: Sequence[Policy],
    config: Config,
    *,
    seed: int,
    schedules: int,
    listeners: Sequence[Listener] = (),
    device: str | None = None,
) -> dict[str, Any]:
    """Compute the acceptance of each policy as plain data: on the model, and with ``device`` on the engine
    too.
    """
    engine = BulkEngine(policies, config, seed=seed)
    entries = {}
    for policy in policies:
        result = try_alone(engine, policy.name, seed=seed, schedules=schedules)
        real = {} if device is None else on_engine(engine, policy, config, listeners, device=device)
        entries[policy.name] = {
            "version": policy.version,
            "rule": rule_digest(policy),
            "parameters": dict(policy.parameters),
            "passed": result.passed and real.get("decision", "within-margin") == "within-margin",
            "model": {
                "schedules": schedules,
                "failures": result.failures,
                "upper_95": f"{result.upper:.2e}",
                "seed": seed,
            },
            "engine": real,
            "edge": edge_of(policy, config, seed=seed, schedules=min(schedules, 200_000)),
        }
    return {"schema_version": SCHEMA_VERSION, "config": config.as_json(), "policies": entries}
