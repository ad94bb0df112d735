"""Replays the corpus with a candidate in the place of the policy of its kind.

A case's schedule is run again with the candidate instead of the policy of its kind; the other policies are
those that the candidate is to run beside, as they are now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fuzzkv.cases.filing import Filing, Witness
from fuzzkv.errors import FuzzkvError
from fuzzkv.oracles.conflict import findings, smallest_failing
from fuzzkv.semantics.contract.minimal import subsets
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, Config, Event, schedule_from_json
from fuzzkv.simulator.bulk.engine import BulkEngine

Verdict = Literal["conflict", "single-policy", "not-reproduced", "not-applicable"]


@dataclass(frozen=True)
class Replay:
    """One case with the candidate standing in: the set that ran (mask of the engine's slots; 0 if none did).

    ``not-applicable``: no policy of the candidate's kind takes part, the others aren't those that it is gated
    against, the others fail without it, or (with a ``reason``) the case can't be run.
    """

    case_id: str
    mask: int
    verdict: Verdict
    witnesses: tuple[Witness, ...] = ()
    reason: str = ""


def replay_all(
    cases: Iterable[Mapping[str, Any]],
    filing: Filing,
    candidate: Policy,
    known: Mapping[str, Policy],
) -> Iterator[Replay]:
    """Replay cases with the candidate standing in; ``known`` are policies by name, to tell the kind of those that a
    case names.
    """
    for case in cases:
        names = list(case["class"]["policies"])
        places = [
            name for name in names if name in known and known[name].manifest.kind == candidate.manifest.kind
        ]
        tried = [[candidate.name if name == place else name for name in names] for place in places]
        fitting = [chosen for chosen in tried if set(chosen) <= set(filing.engine.names)]
        if not fitting:
            yield Replay(case["id"], 0, "not-applicable")
        for chosen in fitting:
            yield _replay(case, chosen, filing, candidate)


def _replay(case: Mapping[str, Any], chosen: Sequence[str], filing: Filing, candidate: Policy) -> Replay:
    names = filing.engine.names
    try:
        config = Config(**case["config"])
        own = tuple(case["class"]["policies"])
        rows = schedule_from_json(own, case["schedule"]).events
        engine = filing.engine_for(config)
    except (TypeError, ValueError, FuzzkvError) as error:
        return Replay(case["id"], 0, "not-applicable", reason=f"{case['id']} can't be run ({error})")
    slots = [names.index(name) for name in chosen]
    events: tuple[Event, ...] = tuple((op, slots[a] if op == ACT else a, b) for op, a, b in rows)
    return judge(case["id"], engine, events, sum(1 << slot for slot in slots), names.index(candidate.name))


def judge(case_id: str, engine: BulkEngine, events: tuple[Event, ...], mask: int, slot: int) -> Replay:
    """Run one schedule for every subset of ``mask`` and say what it shows about the policy in ``slot``."""
    arms = {sub: engine.outcome(events, sub) for sub in (*subsets(mask), mask)}
    failing = smallest_failing(arms)
    own = [top for top in failing if top >> slot & 1]
    shown = tuple(
        Witness(finding.failure_class, events, engine.config, worse=finding.worse)
        for top in own
        for finding in findings(arms, top, engine.names)
        if not finding.consequence
    )
    if 1 << slot in own:
        return Replay(case_id, mask, "single-policy", shown)
    if own:
        return Replay(case_id, mask, "conflict", shown)
    if any(arm.failed for arm in arms.values()):
        return Replay(case_id, mask, "not-applicable")
    return Replay(case_id, mask, "not-reproduced")
