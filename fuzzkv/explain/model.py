"""Explains a case of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuzzkv.core.glossary import joined
from fuzzkv.core.results import Failure
from fuzzkv.errors import UsageError
from fuzzkv.explain.breach import NamedState, clash, control
from fuzzkv.explain.clauses import refused
from fuzzkv.explain.dependencies import links_of
from fuzzkv.explain.graph import CausalChain, Explanation, make_graph
from fuzzkv.explain.guard_words import guard_lines
from fuzzkv.explain.lanes import model_stage
from fuzzkv.explain.links import chain, completed
from fuzzkv.explain.naming import session_name
from fuzzkv.explain.sentences import Speaker
from fuzzkv.semantics.contract.invariants import BY_ID, Invariant
from fuzzkv.semantics.layout import COLUMNS
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT
from fuzzkv.simulator.history import History, run_history
from fuzzkv.simulator.interpreters import begin, python_apply
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.traced import trace
from fuzzkv.targets.model.recipe import Recipe, read_case


def explain_model(
    case: Mapping[str, Any], policies: Sequence[Policy] = (), *, guards: bool = True
) -> Explanation | None:
    """The explanation of a case of the model, ``None`` if its invariant isn't broken any more.

    ``policies`` may be named beside the installed ones; ``guards``: ask the solver which clauses and which guard would have
    refused it (seconds).  Raises as ``read_case`` does.
    """
    recipe = read_case(case, allowed={policy.name: policy for policy in policies})
    invariant = BY_ID.get(case.get("class", {}).get("invariant", ""))
    if invariant is None:
        raise UsageError(
            code="FKV035",
            value=str(case.get("id", "the case")),
            reason="it names no invariant of the contract",
            cure="Restore the file, or hunt again.",
        )
    full = (1 << len(recipe.policies)) - 1
    violation = run_history(recipe.schedule, recipe.policies, full, recipe.config).broke(invariant.id)
    if violation is None:
        return None
    return _explained(case, recipe, invariant, violation, guards)


def _explained(
    case: Mapping[str, Any], recipe: Recipe, invariant: Invariant, violation: Failure, guards: bool
) -> Explanation:
    names = recipe.schedule.policies
    start = first_state(recipe.config, recipe.policies)
    nodes = trace(recipe.schedule, recipe.policies, (1 << len(names)) - 1, recipe.config)
    broke = next(n for n, node in enumerate(nodes) if invariant.id in node.broke)
    speaker = Speaker(nodes, start)
    page = speaker.page_of(broke, violation.page)
    links = links_of(nodes, start)
    found, apart = completed(links, chain(links, broke, invariant.id, page), broke, speaker.actor, names)
    listed = {broke, *(n for link in found for n in (link.first, link.then))}
    listed |= {max((n for n in range(broke) if speaker.actor(n) == name), default=broke) for name in apart}
    touched = {speaker.page_of(n, nodes[n].record.page) for n in listed if nodes[n].record.page >= 0}
    if page in touched | {link.about for link in found}:
        speaker.names.page(page)
    for n in sorted(listed):
        speaker.act(n)
    p = speaker.names.page(page)
    ties = tuple(speaker.tie(link) for link in found)
    graph = make_graph((speaker.act(n) for n in range(len(nodes))), (speaker.tie(link) for link in links))
    numbers = {n: i for i, n in enumerate(sorted(listed), 1)}
    session = session_name(int(page[1]), int(page[2]))

    def scene(state: Sequence[int]) -> NamedState:
        return NamedState(state, names, recipe.config, violation.page, p, session)

    shown = [speaker.page_of(n, nodes[n].record.page) for n in sorted(listed) if speaker.act(n).pages]
    return Explanation(
        case=str(case["id"]),
        headline=_breaks(names, f"{invariant.id} ({invariant.name})"),
        invariant=invariant.id,
        rule=invariant.rule,
        names=tuple(speaker.names.bound),
        graph=graph,
        chain=CausalChain(broke, tuple(sorted(listed)), ties, tuple(apart)),
        clash=clash(
            invariant.id, scene(speaker.after(broke).state), nodes[broke].record, f"({numbers[broke]})"
        ),
        stage=model_stage(speaker, list(dict.fromkeys(shown)), broke),
        controls=tuple(
            f"{_who(recipe.schedule.masked(mask))}: {_control(recipe, mask, invariant.id, violation, scene)}"
            for mask in range((1 << len(names)) - 1)
        ),
        refusing=tuple(refused(recipe, violation)) if guards else None,
        guard=tuple(guard_lines(recipe, violation)) if guards else None,
    )


def _control(recipe: Recipe, mask: int, invariant: str, violation: Failure, scene: Any) -> str:
    history: History = run_history(recipe.schedule, recipe.policies, mask, recipe.config)
    state = first_state(recipe.config, recipe.policies)
    apply = python_apply(recipe.policies)
    begin(recipe.policies, mask)
    for e, (op, a, b) in enumerate(recipe.schedule.events[: violation.event + 1]):
        state[COLUMNS["EVENT"]] = e
        if op != ACT or mask >> a & 1:
            apply(state, op, a, b, mask)
    return control(invariant, scene(state), history.latencies)


def _breaks(policies: Sequence[str], what: str) -> str:
    return (
        f"{policies[0]} breaks {what} alone"
        if len(policies) == 1
        else f"{joined(policies)} break {what} together"
    )


def _who(policies: Sequence[str]) -> str:
    if not policies:
        return "full cache (no policy)"
    return f"{policies[0]} alone" if len(policies) == 1 else f"{joined(policies)} without the rest"
