"""The parts of ``fuzzkv hunt`` and ``fuzzkv replay`` that are for a live engine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from fuzzkv.cli.shared import invariant_names, verbosity
from fuzzkv.errors import EXIT_INTERRUPTED, FuzzkvError, UsageError

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
    from dataclasses import replace

    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.core.files import atomic_write
    from fuzzkv.core.options import parse_policies, parse_seconds
    from fuzzkv.report.session import ReportSession
    from fuzzkv.search.live.hunt import BASE, LiveHunt, LiveOptions
    from fuzzkv.strategies.observing import observed
    from fuzzkv.targets.environments import find
    from fuzzkv.targets.vllm.plugin.own_code import resolve_all
    from fuzzkv.targets.vllm.policies import ALL
    from fuzzkv.targets.vllm.target import Engines

    refuse_model_options()
    environment = find(target)
    names = parse_policies(policies) if given("policies") else [policy.name for policy in ALL]
    seconds = parse_seconds(max_time) if max_time is not None else None if max_examples else 600.0
    options = LiveOptions(
        policies=resolve_all(names),
        seed=seed,
        max_examples=max_examples,
        max_time=seconds,
        strength=int(strength) if given("strength") else 3,
        base=replace(BASE, device=device),
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
            run = LiveHunt(
                options,
                engines.start,
                engines.judge,
                engines.name,
                session.listeners,
                engines.judge.too_far,
            )
            result = run.run()
        except KeyboardInterrupt:
            session.interrupted()
            sys.exit(EXIT_INTERRUPTED)
        except FuzzkvError as error:
            session.failed(error)
            raise
    if report_dir is not None:
        atomic_write(report_dir / "hunt.json", file_bytes(result.report))
    sys.exit(result.exit_code)


def replay_one(
    case: Mapping[str, Any], target: str | None, device: str, policies: str
) -> tuple[str, bool | None, Mapping[str, Any]]:
    """One live case again: what to say, whether it still fails, and what a case may keep of the run; ``policies`` are paths
    that it may need.

    Without a ``target`` it runs on the release that it was found on, if that is in one of the environments.
    """
    from fuzzkv.cases.live_cases import read_live_case
    from fuzzkv.core.options import parse_policies
    from fuzzkv.search.live.replaying import replay_live
    from fuzzkv.targets.environments import find, found_on
    from fuzzkv.targets.vllm.plugin.own_code import allowed
    from fuzzkv.targets.vllm.target import Engines

    own = allowed(parse_policies(policies)) if policies else {}
    read_live_case(case, allowed=own)
    environment = find(target) if target else found_on(str(case["engine"]))
    with Engines(device, environment) as engines:
        done = replay_live(case, engines.start, engines.judge, own)
        return f"{engines.name}: {done.verdict}. {done.detail}", done.fails, done.kept
