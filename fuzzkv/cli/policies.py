"""``fuzzkv policies``, ``fuzzkv accept`` and ``fuzzkv doctor``: installed policies, their acceptance, and this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from fuzzkv.cli.enginecode import EXAMPLES
from fuzzkv.cli.pages import examples
from fuzzkv.cli.shared import (
    console,
    corpus_option,
    device_option,
    invariant_names,
    json_option,
    max_examples_option,
    no_color_option,
    output_options,
    policies_option,
    seed_option,
    verbosity,
)
from fuzzkv.core.budgets import BUDGET
from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT
from fuzzkv.policies import DEFAULT


@click.command(epilog=examples("fuzzkv policies", "fuzzkv policies --target vllm --only offload-lru"))
@click.option(
    "--target",
    default="model",
    show_default=True,
    help="model: the policies that are installed; vllm, vllm@RELEASE: what that build of the engine can do.",
)
@click.option(
    "--only",
    default="",
    metavar="LIST",
    help="With --target vllm: names of features.  [default: all]",
)
@click.option("--again", is_flag=True, help="With --target vllm: try anew instead of taking kept results.")
@no_color_option
@output_options
def policies(target: str, only: str, again: bool, no_color: bool) -> None:
    """List the installed policies, or what a build of the engine can do.

    With --target vllm each of the engine's features is tried in a process of its own, which takes some minutes the first time; results are
    kept by the engine's version.
    """
    if target != "model":
        _abilities(target, only, again, no_color)
        return
    from fuzzkv.policies.registry import survey
    from fuzzkv.report.listing import policy_listing

    found, broken = survey()
    console(no_color).print(policy_listing(list(found.values())))
    for error in broken:
        click.echo(error.render(), err=True)


def _abilities(target: str, only: str, again: bool, no_color: bool) -> None:
    from fuzzkv.report.listing import ability_listing
    from fuzzkv.targets.environments import find
    from fuzzkv.targets.vllm.engine.probe import Ability, Trying, probe

    def tell(ability: Ability, kept: bool) -> None:
        if not kept and verbosity() >= 0:
            click.echo(f"tried {ability.name}: {ability.verdict}", err=True)

    names = [name.strip() for name in only.split(",") if name.strip()]
    environment = find(target)
    version = environment.required("cpu")
    attempt = Trying(environment.interpreter)
    found = probe(names, engine=version, again=again, attempt=attempt, tell=tell)
    console(no_color).print(ability_listing(version, found))


@click.command(
    epilog=examples(
        "fuzzkv accept --policies my_module:MyPolicy --no-engine",
        "fuzzkv accept --target vllm --policies my_cache.py:MyPolicy",
    )
)
@policies_option(",".join(DEFAULT))
@click.option(
    "--target",
    type=click.Choice(["model", "vllm"]),
    default="model",
    show_default=True,
    help="vllm: classes of yours that plug into vLLM (PATH:Class), called alone.",
)
@seed_option(1)
@max_examples_option(
    "Schedules for each policy, or sequences of calls for a class of yours.",
    otherwise=f"{BUDGET:,}, or {EXAMPLES:,}",
)
@click.option("--no-engine", is_flag=True, help="On the model only.")
@device_option
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("acceptance.json"),
    show_default=True,
    help="The file to write; the shipped one is fuzzkv/policies/acceptance.json.",
)
@no_color_option
@output_options
def accept(
    policies: str,
    target: str,
    seed: int,
    max_examples: int | None,
    no_engine: bool,
    device: str,
    output: Path,
    no_color: bool,
) -> None:
    """Try each policy alone and keep the result.

    On the model and, where it can, on the engine. Exit 1 if one fails.

    With --target vllm: classes of your own that plug into vLLM; which of the engine's rules they keep.
    """
    if target == "vllm":
        from fuzzkv.cli.enginecode import accept_code

        sys.exit(accept_code(policies, seed=seed, examples=max_examples, no_color=no_color))
    from fuzzkv.core.canonical import file_bytes
    from fuzzkv.core.files import atomic_write
    from fuzzkv.core.options import parse_policies
    from fuzzkv.policies.registry import resolve
    from fuzzkv.report.session import ReportSession
    from fuzzkv.search.acceptance import accept as run
    from fuzzkv.semantics.schedule import Config

    chosen = resolve(parse_policies(policies))
    with ReportSession(
        no_color=no_color, report_dir=None, names=invariant_names(), verbosity=verbosity()
    ) as session:
        found = run(
            chosen,
            Config(),
            seed=seed,
            schedules=BUDGET if max_examples is None else max_examples,
            listeners=session.listeners,
            device=None if no_engine else device,
        )
        for name, entry in found["policies"].items():
            real = entry["engine"].get("decision", "not tried")
            alone = f"{entry['model']['failures']} failures in {entry['model']['schedules']} schedules"
            session.line(
                f"{name}: {'accepted' if entry['passed'] else 'fails alone'}: {alone}; on the engine: {real}"
            )
    atomic_write(output, file_bytes(found))
    click.echo(f"wrote {output}")
    sys.exit(EXIT_CLEAN if all(entry["passed"] for entry in found["policies"].values()) else EXIT_CONFLICT)


@click.command(epilog=examples("fuzzkv doctor"))
@corpus_option
@json_option
@no_color_option
def doctor(corpus: Path, as_json: bool, no_color: bool) -> None:
    """Say what is missing on this machine, and how to get it.

    Exit 3 if something is broken.
    """
    from fuzzkv.doctor import diagnose
    from fuzzkv.report.listing import doctor_listing

    findings = diagnose(corpus=corpus)
    if as_json:
        click.echo(json.dumps([finding.as_dict() for finding in findings], indent=1))
    else:
        console(no_color).print(doctor_listing(findings))
    sys.exit(EXIT_ENVIRONMENT if any(finding.level == "problem" for finding in findings) else EXIT_CLEAN)
