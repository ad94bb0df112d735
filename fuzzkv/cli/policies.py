"""``fuzzkv policies``, ``fuzzkv accept`` and ``fuzzkv doctor``: installed policies, their acceptance, and this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fuzzkv.cli.shared import console, corpus_option, invariant_names, no_color_option
from fuzzkv.errors import EXIT_CLEAN, EXIT_CONFLICT, EXIT_ENVIRONMENT
from fuzzkv.policies import DEFAULT


@click.command()
@click.option(
    "--target",
    default="model",
    show_default=True,
    help="model: the policies that are installed; vllm, vllm@RELEASE: what that build of the engine can do.",
)
@click.option("--only", default="", help="With --target vllm: names of features, separated by commas.")
@click.option("--again", is_flag=True, help="With --target vllm: try anew instead of taking kept results.")
@no_color_option
def policies(target: str, only: str, again: bool, no_color: bool) -> None:
    """List the policies that are installed, or find out what this build of the engine can do.

    Each of the engine's features is tried in a process of its own, which takes some minutes the first time; results are
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
        if not kept:
            click.echo(f"tried {ability.name}: {ability.verdict}", err=True)

    names = [name.strip() for name in only.split(",") if name.strip()]
    environment = find(target)
    version = environment.required("cpu")
    attempt = Trying(environment.interpreter)
    found = probe(names, engine=version, again=again, attempt=attempt, tell=tell)
    console(no_color).print(ability_listing(version, found))


@click.command()
@click.option("--policies", default=",".join(DEFAULT), show_default=True, help="Names or pkg.module:NAME.")
@click.option(
    "--target",
    type=click.Choice(["model", "vllm"]),
    default="model",
    show_default=True,
    help="vllm: classes of yours that plug into vLLM (PATH:Class), called alone.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
@click.option(
    "--max-examples",
    type=click.IntRange(1),
    default=None,
    help="Schedules for each policy (2,000,000), or sequences of calls for a class (3,000).",
)
@click.option("--no-engine", is_flag=True, help="On the model only.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("acceptance.json"),
    show_default=True,
    help="The file to write; the shipped one is fuzzkv/policies/acceptance.json.",
)
@no_color_option
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
    """Try each policy alone, on the model and on the engine, and keep the result. Exit 1 if one fails.

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
    with ReportSession(no_color=no_color, report_dir=None, names=invariant_names()) as session:
        found = run(
            chosen,
            Config(),
            seed=seed,
            schedules=2_000_000 if max_examples is None else max_examples,
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


@click.command()
@corpus_option
@no_color_option
def doctor(corpus: Path, no_color: bool) -> None:
    """Say what is installed, what is missing and how to get it. Exit 3 if something is broken."""
    from fuzzkv.doctor import diagnose
    from fuzzkv.report.listing import doctor_listing

    findings = diagnose(corpus=corpus)
    console(no_color).print(doctor_listing(findings))
    sys.exit(EXIT_ENVIRONMENT if any(finding.level == "problem" for finding in findings) else EXIT_CLEAN)
