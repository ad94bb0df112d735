"""Listings of the smaller commands: policies, the corpus, one case, and the doctor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fuzzkv.report.summary import (
    WIDE,
    Case,
    arms_text,
    case_lines,
    case_table,
    engine_text,
    invariant_text,
    policy_text,
)

MARKS: Final = {"ok": ("ok", "green"), "note": ("note", "bold magenta"), "problem": ("problem", "bold red")}


class PolicyLike(Protocol):
    """The attributes of a policy that the listing reads."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def manifest(self) -> Any: ...
    @property
    def parameters(self) -> Mapping[str, int]: ...


class FindingLike(Protocol):
    """The attributes of one line of the doctor that the listing reads."""

    @property
    def level(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def cure(self) -> str: ...


class AbilityLike(Protocol):
    """The attributes of a tried feature of the engine that the listing reads."""

    @property
    def name(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def tried(self) -> str: ...
    @property
    def said(self) -> str: ...


class EnvironmentLike(Protocol):
    """What the listing needs of an environment of a target (read only)."""

    @property
    def name(self) -> str: ...
    @property
    def engine(self) -> str: ...
    @property
    def python_version(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def problem(self) -> str: ...


VERDICTS: Final = {
    "supported": "green",
    "fails alone": "bold red",
    "inert": "yellow",
    "unknown": "bold magenta",
}


def ability_listing(engine: str, abilities: Sequence[AbilityLike]) -> RenderableType:
    """A table of what an engine can do: name, verdict, what was tried and what came of it."""
    table = Table(box=box.SIMPLE_HEAD, title=engine, title_justify="left")
    for heading in ("feature", "verdict", "what was tried, and what came of it"):
        table.add_column(heading, no_wrap=heading != "what was tried, and what came of it")
    for one in abilities:
        verdict = Text(one.verdict, VERDICTS.get(one.verdict, ""))
        table.add_row(one.name, verdict, f"{one.tried}: {one.said}")
    return table


def policy_listing(policies: Sequence[PolicyLike]) -> RenderableType:
    """One block a policy: kind, evidence, actions, parameters, source."""
    parts: list[RenderableType] = []
    for policy in sorted(policies, key=lambda policy: policy.name):
        manifest = policy.manifest
        evidence = manifest.evidence
        parts.append(Text.assemble((policy.name, "bold"), f" {policy.version} ({manifest.kind})"))
        grid = Table.grid(padding=(0, 2))
        sees = f"{evidence.target}, {evidence.horizon} steps ahead, confidence {evidence.confidence / 10:g} %"
        grid.add_row("  evidence", f"{sees} ({evidence.provenance})")
        for action in manifest.actions:
            grid.add_row(
                "  action", f"{action.primitive}: {action.reversibility}, authority {action.authority_copy}"
            )
        grid.add_row("  parameters", ", ".join(f"{k}={v}" for k, v in policy.parameters.items()) or "none")
        grid.add_row("  source", f"{manifest.source} {manifest.fidelity}".strip())
        parts += [grid, Text()]
    return Group(*parts)


def case_row(case: Case) -> dict[str, Any]:
    """One case of a listing as plain data."""
    together, controls = arms_text(case)
    return {
        "id": case["id"],
        "label": case["label"],
        "status": case["status"],
        "minimality": case["minimality"],
        "policies": case["class"]["policies"],
        "invariant": case["class"]["invariant"],
        "events": len(case["schedule"]),
        "together": together,
        "controls": controls,
        "target": case.get("target", "model"),
        "real engine": engine_text(case),
        "title": case["title"],
    }


def corpus_listing(cases: Sequence[Case], names: Mapping[str, str], *, width: int) -> RenderableType:
    """All cases, and how many there are of each status."""
    if not cases:
        return Text("No cases yet: 'fuzzkv hunt' finds some.")
    statuses = [str(case["status"]) for case in cases]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))
    table = case_table(cases, names) if width >= WIDE else case_lines(cases, names)
    return Group(table, Text(), Text(f"{len(cases)} cases: {counts}"))


def case_page(case: Case, names: Mapping[str, str]) -> RenderableType:
    """One case in full: what breaks, the schedule, the arms, the confirmations and how to run it again."""
    kind = case["class"]
    label = f" [{case['label']}]" if case["label"] else ""
    head = Text.assemble((str(case["id"]), "bold"), f" {case['status']}, {case['minimality']}{label}")
    breaks = f"{policy_text(kind['policies'])} break {invariant_text(case, names)}"
    where = f" ({kind['action']} by {kind['actor']})" if kind["actor"] else ""
    parts: list[RenderableType] = [head, Text(str(case["title"])), Text(breaks + where), Text()]
    for policy in case["policies"]:
        values = ", ".join(f"{key}={value}" for key, value in sorted(policy["parameters"].items()))
        parts.append(Text(f"{policy['name']} {policy['version']}: {values or 'no parameters'}"))
    parts += [Text(f"config: {', '.join(_settings(case['config']))}"), Text()]
    parts += [_schedule(case), Text(), _arms(case)]
    for item in case["confirmations"]:
        reason = f": {item['reason']}" if item.get("reason") else ""
        parts.append(Text(f"{item['engine']} ({item['kind']}): {item['verdict']}{reason}"))
    if not case["confirmations"]:
        parts.append(Text("not confirmed on a real engine yet"))
    certificate = case.get("certificate")
    if certificate:
        parts.append(Text(f"length: {certificate['verdict']}: {certificate['reason']}"))
    twin = case.get("twin")
    if twin:
        repaired = f"{twin['replaces']} {twin['version']} ({twin['policy']})"
        parts.append(Text(f"repaired: with {repaired} in its place nothing breaks"))
    parts += [Text(f"reported: {reference}") for reference in case.get("references", [])]
    return Group(*parts, Text(f"run it again: {case['replay']}"))


def doctor_listing(findings: Sequence[FindingLike]) -> RenderableType:
    """One line a finding, its cure below it."""
    grid = Table.grid(padding=(0, 2))
    for finding in findings:
        grid.add_row(Text(*MARKS[finding.level]), Text(finding.topic, style="bold"), Text(finding.text))
        if finding.cure:
            grid.add_row("", "", Text(f"cure: {finding.cure}"))
    return grid


def target_listing(version: str, environments: Sequence[EnvironmentLike]) -> RenderableType:
    """A row a target: what ``--target`` calls it, its engine and Python, where it is from, and what is wrong with it."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for title in ("target", "engine", "Python", "from", "state"):
        table.add_column(title)
    table.add_row("model", f"fuzzkv {version}", "", "here", Text("ready", style="green"))
    for env in environments:
        state = Text(env.problem, style="bold red") if env.problem else Text("ready", style="green")
        table.add_row(env.name, env.engine or "none", env.python_version, env.source, state)
    return table


def _schedule(case: Case) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    columns = ("event", "op", "a", "b", "c") if "target" in case else ("event", "op", "a", "b")
    for title in columns:
        table.add_column(title, justify="left" if title == "op" else "right")
    broken = case["violation"].get("event", case["violation"].get("index"))
    for number, event in enumerate(case["schedule"]):
        style = "bold red" if number == broken else ""
        table.add_row(str(number), *(str(part) for part in event), style=style)
    return table


def _settings(config: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """``name=value`` of every setting that has a value."""
    for key, value in sorted(config.items()):
        if isinstance(value, Mapping):
            yield from _settings(value, f"{within}{key}.")
        elif value not in (None, ""):
            yield f"{within}{key}={value}"


def _arms(case: Case) -> Text:
    together, controls = arms_text(case)
    lines = [f"on {case.get('engine', 'the model')}: together {together}, controls {controls}"]
    lines += [f"  {policy_text(arm['policies'])}: {arm['verdict']}" for arm in case["arms"]]
    return Text("\n".join(lines))
