"""The metadata report: which fields of shared metadata the conflicts of a corpus need, case by case and field by field.

The result is plain data (``schema_version`` 1), which the console's table and the JSON file are made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from fuzzkv.errors import UsageError
from fuzzkv.explain.clauses import refusals
from fuzzkv.metadata.fields import FIELD_NAMES, FIELDS
from fuzzkv.metadata.necessity import NecessityOutcome, Pair, SlotKind, shortened, smallest, verified
from fuzzkv.metadata.neighbours import Way, altered, blindfolds
from fuzzkv.metadata.pairs import Bound, PairSearch
from fuzzkv.metadata.simple_facts import FACTS
from fuzzkv.metadata.trials import Run, Setting, Trace
from fuzzkv.metadata.variants import Events
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Schedule, schedule_from_json
from fuzzkv.targets.model.recipe import Recipe, read_case

Tell = Callable[[str, int, int], None]
"""``tell(case, done, of)`` while a case is searched."""

OF_CLAUSE: Mapping[str, tuple[str, ...]] = {
    "authority": ("authority",),
    "evidence": ("target", "horizon"),
    "quality-budget": ("quality budget",),
    "link-budget": ("recovery time", "link budget"),
    "claim": ("reversibility",),
    "layout": ("version",),
    "version": ("version",),
    "index": ("authority",),
    "boundary": ("version",),
    "fail-closed": ("authority",),
}
"""The fields that each clause of the contract reads; those that are missing read what is in view."""
_LEFT_OUT = {"FKV001": "it needs other policies", "FKV101": "it is a case of a live engine"}


def necessity(
    cases: Iterable[Mapping[str, Any]],
    *,
    allowed: Sequence[Policy] = (),
    bound: Bound | None = None,
    tell: Tell | None = None,
) -> dict[str, Any]:
    """The report on the cases of a corpus.

    A case whose policies aren't installed or ``allowed``, or which has one in ordinary Python, is left out by name.  Raises
    ``UsageError`` as ``read_case`` does for one that is broken otherwise.
    """
    bound = bound or Bound()
    known = {policy.name: policy for policy in allowed}
    rows, left_out = [], []
    for case in cases:
        try:
            recipe = read_case(case, allowed=known)
        except UsageError as error:
            if error.code not in _LEFT_OUT:
                raise
            left_out.append({"id": case["id"], "why": _LEFT_OUT[error.code]})
            continue
        if any(policy.free for policy in recipe.policies):
            left_out.append({"id": case["id"], "why": "a policy in ordinary Python can't be looked into"})
            continue
        rows.append(_row(case, recipe, bound, tell))
    return judged(rows, left_out, bound)


def judged(
    rows: Sequence[Mapping[str, Any]], left_out: Sequence[Mapping[str, str]], bound: Bound
) -> dict[str, Any]:
    """The report that the rows of cases come to."""
    sets = [frozenset(pair["pieces"]) for row in rows for pair in (*row["pairs"], *row["strange"])]
    return {
        "schema_version": 1,
        "bound": dict(vars(bound)),
        "pieces": [_field_row(name, rows) for name in FIELD_NAMES],
        "cases": list(rows),
        "left_out": list(left_out),
        "least": [sorted(chosen, key=FIELD_NAMES.index) for chosen in least(sets)],
    }


def least(sets: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """The smallest choices of fields that have one of each set in them."""
    for size in range(len(FIELD_NAMES) + 1):
        found = [frozenset(c) for c in combinations(FIELD_NAMES, size) if all(frozenset(c) & d for d in sets)]
        if found:
            return found
    return []


def _row(case: Mapping[str, Any], recipe: Recipe, bound: Bound, tell: Tell | None) -> dict[str, Any]:
    names = recipe.schedule.policies
    kind = case["class"]
    setting = Setting(recipe.config, recipe.policies)
    actor = names.index(kind["actor"]) if kind["actor"] else -1
    sort = SlotKind(kind["invariant"], actor, kind["action"])
    say = None if tell is None else lambda done, of: tell(str(case["id"]), done, of)
    outcome = PairSearch(setting, sort, recipe.schedule.events, bound).run(say)
    found = dict(outcome.with_neighbours)
    for ways in blindfolds(setting, actor) if actor >= 0 else ():
        blind = PairSearch(setting, sort, recipe.schedule.events, bound, ways).run(say)
        outcome.looked += blind.looked
        for fields, pair in (*blind.pairs.items(), *blind.with_neighbours.items()):
            found.setdefault(fields, pair)
    known = smallest(outcome.pairs)
    strange = [d for d in smallest(found) if not any(other <= d for other in known)]
    clauses = _clauses(recipe, int(case["violation"]["event"]))
    return {
        "id": case["id"],
        "label": case["label"],
        "policies": list(names),
        "invariant": kind["invariant"],
        "actor": kind["actor"],
        "action": kind["action"],
        "clauses": clauses,
        "looked": outcome.looked,
        "refused": len(outcome.refused),
        "allowed": outcome.allowed,
        "pairs": [_pair(setting, case, outcome.pairs[d]) for d in known],
        "strange": [_pair(setting, case, found[d]) for d in strange],
        "facts": _facts(outcome),
    }


def _clauses(recipe: Recipe, event: int) -> list[str]:
    """The clauses of the contract that refuse the case where it breaks, or else what led to it."""
    there = [clause for e, clause in refusals(recipe, from_event=event) if e == event]
    return list(dict.fromkeys(there or (clause for _, clause in refusals(recipe))))


def _of_clauses(row: Mapping[str, Any]) -> set[str]:
    """The fields that the clauses that refuse a case read there."""
    found = {name for clause in row["clauses"] for name in OF_CLAUSE.get(clause, ())}
    # Who condemns a page goes by his own evidence: there is no certificate of another's to be read.
    return found if row["action"] == "spend" else found - {"target"}


def _facts(outcome: NecessityOutcome) -> list[dict[str, str]]:
    return [{"piece": fact.carrier, "text": fact.text} for fact in outcome.facts]


def _pair(setting: Setting, case: Mapping[str, Any], found: Pair) -> dict[str, Any]:
    pair = shortened(setting, found)
    names = tuple(policy.name for policy in setting.policies)

    def rows(events: Events) -> list[list[object]]:
        return Schedule(names, events).as_json()

    def others(ways: tuple[Way, ...]) -> list[list[str]]:
        return [[names[slot], how] for slot, how in ways]

    return {
        "case": case["id"],
        "pieces": sorted(pair.fields, key=FIELD_NAMES.index),
        "policy": names[pair.refused.slot],
        "primitive": pair.primitive,
        "arguments": list(pair.arguments),
        "refused": {
            "schedule": rows(pair.end),
            "event": len(pair.refused.events) - 1,
            "call": pair.refused.ordinal,
            "others": others(pair.refused_as),
        },
        "allowed": {
            "schedule": rows(pair.allowed.events),
            "event": len(pair.allowed.events) - 1,
            "call": pair.allowed.ordinal,
            "others": others(pair.allowed_as),
        },
        "differ": list(_differ(setting, pair)),
    }


def recheck(case: Mapping[str, Any], pair: Mapping[str, Any], allowed: Sequence[Policy] = ()) -> list[str]:
    """Run a pair of a report anew: the fields in which its traces differ; none if they make no pair (any more)."""
    recipe = read_case(case, allowed={policy.name: policy for policy in allowed})
    names = list(recipe.schedule.policies)
    kind, slot = case["class"], names.index(pair["policy"])

    def trace(of: Mapping[str, Any]) -> tuple[Trace, Events, tuple[Way, ...]]:
        events = schedule_from_json(tuple(names), of["schedule"]).events
        ways = tuple((names.index(name), how) for name, how in of["others"])
        return Trace(events[: of["event"] + 1], slot, of["call"]), events, ways

    refused, end, refused_as = trace(pair["refused"])
    permitted, _, allowed_as = trace(pair["allowed"])
    actor = names.index(kind["actor"]) if kind["actor"] else -1
    told = Pair(
        SlotKind(kind["invariant"], actor, kind["action"]),
        refused,
        permitted,
        end,
        frozenset(pair["pieces"]),
        pair["primitive"],
        tuple(pair["arguments"]),
        refused_as,
        allowed_as,
    )
    found = verified(Setting(recipe.config, recipe.policies), told) or frozenset()
    return sorted(found, key=FIELD_NAMES.index)


def _differ(setting: Setting, pair: Pair) -> Iterator[list[object]]:
    """The simple facts of the fields in which the views differ, just before the last event of each trace."""
    here, beside = altered(setting, pair.refused_as), altered(setting, pair.allowed_as)
    page = pair.arguments[0] if pair.arguments else 0
    slot = pair.refused.slot
    one = Run(here).go(pair.refused.events[:-1], setting.full).state
    other = Run(beside).go(pair.allowed.events[:-1], setting.full).state
    for carrier, name, read in FACTS:
        if carrier in pair.fields:
            a, b = int(read(one, slot, page)), int(read(other, slot, page))
            if a != b:
                yield [name, a, b]


def _field_row(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The report's row of one field, from the rows of the cases."""
    part = FIELDS[FIELD_NAMES.index(name)]
    shown: dict[str, list[dict[str, Any]]] = {"alone": [], "strange": [], "among": []}
    takes_part, told = [], []
    for row in rows:
        pairs = [("alone", pair) for pair in row["pairs"]] + [("strange", pair) for pair in row["strange"]]
        mine = [(how, pair) for how, pair in pairs if name in pair["pieces"]]
        for how, pair in mine:
            shown[how if len(pair["pieces"]) == 1 else "among"].append(pair)
        if mine or name in _of_clauses(row):
            takes_part.append(row["id"])
        if not mine and row["id"] in takes_part:
            told += [{"case": row["id"], **fact} for fact in row["facts"] if fact["piece"] != name]
    verdict = "needed" if shown["alone"] else "needed, any neighbour" if shown["strange"] else ""
    if not verdict and shown["among"]:
        verdict = "one of several"
    if not verdict:
        verdict = "replaceable (bounded)" if takes_part else "no part"
    pairs_of_it = shown["alone"] or shown["strange"] or shown["among"]
    about = {row["id"] for row in rows if name in _of_clauses(row)}

    def plain(pair: Mapping[str, Any]) -> tuple[Any, ...]:
        length = len(pair["refused"]["schedule"]) + len(pair["allowed"]["schedule"])
        return len(pair["pieces"]), pair["case"] not in about, length, pair["case"]

    best = min(pairs_of_it, key=plain, default=None)
    shown_in = sorted({pair["case"] for pair in pairs_of_it})
    return {
        "name": name,
        "columns": list(part.columns),
        "why": part.why,
        "verdict": verdict,
        "part": takes_part,
        "shown": shown_in,
        "pair": best,
        "told": told,
    }
