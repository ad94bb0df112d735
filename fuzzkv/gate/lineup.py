"""The line-up of a gate: the candidate, the policies that it is to run beside, and those whose place it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fuzzkv.errors import UsageError
from fuzzkv.policies import DEFAULT
from fuzzkv.policies.registry import resolve
from fuzzkv.search.acceptance import fault_of
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config

BESIDE = 3
"""Most policies that a candidate is gated against at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """Options of a gate.

    ``candidate`` and ``against`` (``None``: the default policies) are names or ``pkg.module:NAME``;
    ``max_examples`` schedules and ``max_time`` seconds bound the hunt (neither given: the budget of a hunt, the
    same on every machine); the cases of ``corpus`` are replayed (``None``: no corpus); new cases go to
    ``report_dir``.
    """

    candidate: str
    against: tuple[str, ...] | None = None
    seed: int = 0
    max_examples: int | None = None
    max_time: float | None = None
    corpus: Path | None = Path("corpus")
    report_dir: Path = Path("gate-report")


@dataclass(frozen=True)
class Lineup:
    """The policies of a gate: the candidate, the others, and those whose place it takes; ``paths`` has the path to
    code by which a policy was named.
    """

    candidate: Policy
    others: tuple[Policy, ...]
    replaced: tuple[Policy, ...]
    paths: Mapping[str, str]

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The candidate and the others, by name."""
        return tuple(sorted((self.candidate, *self.others), key=lambda policy: policy.name))


def choose(options: GateOptions) -> Lineup:
    """The policies of a gate.

    Raises as ``resolve`` does, and ``UsageError`` for a candidate that is also among the others (FKV002) and for
    others that it can't be gated against (FKV007).
    """
    (candidate,) = resolve((options.candidate,))
    wanted = options.against or tuple(name for name in DEFAULT if name != candidate.name)
    against = resolve(wanted)
    if candidate.name in {policy.name for policy in against}:
        raise UsageError(
            code="FKV002",
            value=repr(candidate.name),
            reason="is both the candidate and among --against",
            cure="Leave it out of --against, or give the candidate a name of its own.",
        )
    kind = candidate.manifest.kind
    others = tuple(policy for policy in against if policy.manifest.kind != kind)
    replaced = tuple(policy for policy in against if policy.manifest.kind == kind)
    wrong = ""
    if not others:
        wrong = f"are all of the candidate's own kind ({kind}), whose place it takes"
    elif len(others) > BESIDE:
        wrong = f"are {len(others)} policies beside the candidate, and a set has up to {BESIDE + 1}"
    if wrong:
        names = ",".join(policy.name for policy in against)
        cure = f"Name one to {BESIDE} policies of other kinds."
        raise UsageError(code="FKV007", value=f"--against {names}", reason=wrong, cure=cure)
    for policy in others:
        fault = fault_of(policy, Config())
        if fault:
            cure = "Mend it, or leave it out of --against."
            raise UsageError(code="FKV007", value=repr(policy.name), reason=fault, cure=cure)
    named = [spec.strip() for spec in (options.candidate, *wanted)]
    paths = {resolve((spec,))[0].name: spec for spec in named if ":" in spec}
    return Lineup(candidate, others, replaced, paths)
