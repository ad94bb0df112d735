"""The parts of ``fuzzkv hunt`` and ``fuzzkv replay`` that are for a live engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fuzzkv.cli.shared import invariant_names, verbosity
from fuzzkv.errors import EXIT_INTERRUPTED, FuzzkvError, UsageError

if TYPE_CHECKING:
    from fuzzkv.events import Listener
    from fuzzkv.targets.vllm.policies import LivePolicy
    from fuzzkv.targets.vllm.target import EngineTarget

ENGINE_TIME: Final = 600.0
"""Seconds of a hunt, or a gate, on an engine if nothing else is said."""
MODEL_ONLY: Final = ("workers", "stop_risk", "solver_depth", "contract", "no_confirm", "confirm_time")
"""Options of a hunt on the model that mean nothing on an engine."""


def given(name: str) -> bool:
    """Whether an option stands on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def refuse_model_options() -> None:
    """FKV030 for an option that a hunt on an engine hasn't."""
    for name in MODEL_ONLY:
        if given(name):
            raise UsageError(
                code="FKV030",
                value=f"--{name.replace('_', '-')}",
                reason="it is an option of hunts on the model, and this one runs on an engine",
                cure="Leave it out, or use --target model.",
            )


def hunt_live(
    *,
    target: str,
    policies: str,
    seed: int,
    max_examples: int | None,
    max_time: str | None,
    strength: str,
    device: str,
    report_dir: Path | None,
    corpus: Path,
    database: Path | None,
    observe: Path | None,
    no_color: bool,
) -> None:
    """``fuzzkv hunt --target vllm``, or another environment of it."""
    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.core.files import atomic_write
    from fuzzkv.core.options import parse_policies, parse_seconds
    from fuzzkv.report.session import ReportSession
    from fuzzkv.search.live.hunt import LiveHunt, LiveOptions
    from fuzzkv.strategies.observing import observed
    from fuzzkv.targets.environments import find
    from fuzzkv.targets.vllm.plugin.own_code import resolve_all
    from fuzzkv.targets.vllm.policies import ALL
    from fuzzkv.targets.vllm.target import BASE, Engines

    refuse_model_options()
    environment = find(target)
    names = parse_policies(policies) if given("policies") else [policy.name for policy in ALL]
    seconds = parse_seconds(max_time) if max_time is not None else None if max_examples else ENGINE_TIME
    options = LiveOptions(
        policies=resolve_all(names),
        seed=seed,
        max_examples=max_examples,
        max_time=seconds,
        strength=int(strength) if given("strength") else 3,
        corpus=corpus,
        database=database,
    )
    engines = Engines(device, environment)
    with (
        engines,
        observed(observe),
        ReportSession(
            no_color=no_color, report_dir=report_dir, names=invariant_names(), verbosity=verbosity()
        ) as session,
    ):
        try:
            engine = engines.target(replace(BASE, device=device))
            result = LiveHunt(options, engine, session.listeners).run()
        except KeyboardInterrupt:
            session.interrupted()
            sys.exit(EXIT_INTERRUPTED)
        except FuzzkvError as error:
            session.failed(error)
            raise
    if report_dir is not None:
        atomic_write(report_dir / "hunt.json", file_bytes(result.report))
    sys.exit(result.exit_code)


@contextmanager
def engine_for(
    case: Mapping[str, Any], target: str | None, device: str, policies: str
) -> Iterator[tuple[EngineTarget, Mapping[str, LivePolicy]]]:
    """The engine that runs a live case, and the policies that the case may name beside the engine's own: those of the paths
    in ``policies``.

    Without a ``target`` it is the release that the case was found on, if that is in one of the environments.  A case that
    can't be read is refused before an engine starts.
    """
    from fuzzkv.core.options import parse_policies
    from fuzzkv.targets.environments import find, found_on
    from fuzzkv.targets.vllm.plugin.own_code import allowed
    from fuzzkv.targets.vllm.target import BASE, Engines, read_engine_case

    own = allowed(parse_policies(policies)) if policies else {}
    read_engine_case(case, allowed=own)
    environment = find(target) if target else found_on(str(case["engine"]))
    with Engines(device, environment) as engines:
        yield engines.target(BASE), own


def replay_one(
    case: Mapping[str, Any], target: str | None, device: str, policies: str
) -> tuple[str, bool | None, Mapping[str, Any]]:
    """One live case again: what to say, whether it still fails, and what a case may keep of the run."""
    from fuzzkv.search.replaying import replay_on

    with engine_for(case, target, device, policies) as (engine, own):
        done = replay_on(engine, case, own)
        return f"{engine.engine}: {done.verdict}. {done.detail}", done.fails, done.kept


def shrink_one(case: Mapping[str, Any], target: str | None, device: str, policies: str) -> Mapping[str, Any]:
    """A live case shrunk again on its engine; the same one if nothing makes it shorter."""
    from fuzzkv.cases.reshrink import shrink_on

    with engine_for(case, target, device, policies) as (engine, own):
        return shrink_on(engine, case, own)


def gate_live(
    named: str,
    against: Sequence[str],
    listeners: Sequence[Listener],
    *,
    target: str,
    device: str,
    seed: int,
    max_examples: int | None,
    max_time: float,
    corpus: Path | None,
    report_dir: Path,
) -> int:
    """``fuzzkv gate`` of a policy of a live engine: the exit code."""
    from fuzzkv.cases.corpus import load_corpus
    from fuzzkv.gate.engine_gate import EngineGate, EngineGateOptions
    from fuzzkv.targets.environments import find
    from fuzzkv.targets.vllm.plugin.own_code import resolve_all
    from fuzzkv.targets.vllm.target import BASE, Engines

    (candidate,) = resolve_all([named])
    options = EngineGateOptions(
        candidate=candidate,
        against=resolve_all(against) if against else (),
        cases=tuple(load_corpus(corpus)) if corpus is not None else (),
        allowed={candidate.name: candidate},
        seed=seed,
        max_examples=max_examples,
        max_time=max_time,
        report_dir=report_dir,
    )
    with Engines(device, find(target)) as engines:
        base = replace(BASE, device=device)
        return EngineGate(engines.target(base), options, listeners).run().exit_code
