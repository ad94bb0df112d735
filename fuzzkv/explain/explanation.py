"""Explains a case: names are bound, each thing comes before another because of something, however ... a
contradiction.

Everything said is read off the case's histories; which clauses would have refused it, and which guard would have, the
solver finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuzzkv.cases.casebook import read_case
from fuzzkv.core.glossary import PAGEWISE, SAID
from fuzzkv.errors import UsageError
from fuzzkv.explain.clauses import refused
from fuzzkv.explain.guard_words import guard_lines
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.semantics.layout import INT8, PAGES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import STEP
from fuzzkv.simulator.history import History, Record
from fuzzkv.simulator.outcome import Violation


def _page(p: int) -> str:
    return f"page {p % PAGES} of session {p // PAGES}" if p >= 0 else "no page"


def _sentence(record: Record, names: Mapping[int, str]) -> str:
    loss = (
        f", which costs the request {record.detail} permille"
        if record.primitive == "drop_host" and record.detail
        else ""
    )
    text = SAID[record.primitive].format(
        page=names.get(record.page, _page(record.page)),
        detail=record.detail,
        loss=loss,
        bits=8 if record.detail == INT8 else 4,
    )
    return (
        f"{record.actor} {text}"
        if record.actor and record.primitive not in ("end_store", "end_load", "end_copy")
        else text
    )


def _until(history: History, violation: Violation) -> list[Record]:
    """The records up to the violation; its own primitive may be told after it is counted."""
    records = list(history.records[: violation.stamp + 1])
    if len(records) > violation.stamp and records[-1].primitive != violation.primitive:
        records.pop()
    return [r for r in records if r.primitive not in ("read", "tick", "relevance") or r is records[-1]]


def _relevant(history: History, violation: Violation, latency: bool) -> list[Record]:
    records = _until(history, violation)
    shown = set()
    for number, record in enumerate(records):
        whole = record.primitive not in PAGEWISE or (
            latency and record.primitive.startswith(("begin", "end", "step", "demand"))
        )
        if (
            record.page == violation.page
            or whole
            or (violation.invariant == "I18" and record.primitive == "drop_host")
        ):
            shown.add(number)
    # A policy that only touched other pages is a part of it all the same.
    told = {records[number].actor for number in shown}
    shown |= {number for number, r in enumerate(records) if r.actor is not None and r.actor not in told}
    return [records[number] for number in sorted(shown)]


def explain(case: Mapping[str, Any], policies: Sequence[Policy] = ()) -> str:
    """The explanation of a case as plain text; it may name ``policies`` beside the installed ones.

    Raises as ``read_case`` does.
    """
    recipe = read_case(case, allowed={policy.name: policy for policy in policies})
    histories = recipe.histories()
    full = histories[max(histories)]
    invariant = BY_ID.get(case.get("class", {}).get("invariant", ""))
    if invariant is None:
        raise UsageError(
            code="FKV035",
            value=str(case.get("id", "the case")),
            reason="it names no invariant of the contract",
            cure="Restore the file, or hunt again.",
        )
    violation = full.broke(invariant.id)
    if violation is None:
        return f"{case['id']}: {invariant.id} is no longer broken under this schedule; the case is fixed on this version."
    # A session that is preempted where its output runs on is late too, but not because of the link.
    at = recipe.schedule.events[violation.event][0]
    latency = invariant.oracle == "latency" and at == STEP
    names = {violation.page: "p"}
    lines = [
        f"{case['id']}: {_breaks(full.policies, f'{invariant.id} ({invariant.name})')}.",
        "",
        f"Let p be {_page(violation.page)}. Then:",
    ]
    records = _relevant(full, violation, latency)
    seen: dict[int, int] = {}
    for number, record in enumerate(records, 1):
        seen[id(record)] = number
        lines.append(f"  ({number}) event {record.event}, tick {record.time}: {_sentence(record, names)}.")
    lines += ["", *_because(records, seen, violation, latency)]
    lines += [
        f"However, {invariant.id} asks that {invariant.rule}: a contradiction.",
        "",
        "Each part passes under the same schedule:",
    ]
    lines += [
        f"  {_alone(history, violation, latency)}"
        for mask, history in sorted(histories.items())
        if mask != max(histories)
    ]
    lines += ["", *refused(recipe, violation), "", *guard_lines(recipe, violation)]
    return "\n".join(lines)


def _breaks(policies: Sequence[str], what: str) -> str:
    if len(policies) == 1:
        return f"{policies[0]} breaks {what} alone"
    return f"{' and '.join(policies)} break {what} together"


def _because(
    records: Sequence[Record], seen: Mapping[int, int], violation: Violation, latency: bool
) -> list[str]:
    if not records:
        return []
    last = len(records)
    promises = [r for r in records if r.primitive == "promise"]
    stores = [r for r in records if r.primitive in ("begin_store", "begin_load")]
    last_act = violation.actor or "the reader"
    promises = [r for r in promises if r.actor != violation.actor] or promises
    if violation.invariant in ("I1", "I12") and promises and violation.primitive != "promise":
        quoted = promises[-1]
        return [
            f"({seen[id(quoted)]}) comes before ({last}), because {quoted.actor} may act before {last_act} in this "
            f"schedule; its quote stands, and after ({last}) no exact copy is left."
        ]
    if violation.invariant == "I2" and stores:
        flying = stores[-1]
        return [
            f"({seen[id(flying)]}) comes before ({last}), because the copy of {flying.actor} is still on the "
            f"link when {violation.actor} acts."
        ]
    if violation.invariant == "I14" and latency:
        waited = [r for r in records if r.event < violation.event and r.primitive.startswith("begin")]
        owners = sorted({r.actor for r in waited if r.actor})
        return [
            f"The copies of {' and '.join(owners)} come before the reader's own, because the link serves "
            "first come first; each policy keeps its own number of copies in flight, and nobody keeps the sum."
        ]
    if violation.invariant == "I17":
        moved = [r for r in records if r.primitive == "drop_device"]
        if moved:
            return [
                f"({seen[id(moved[-1])]}) comes before ({last}), because {moved[-1].actor} acts first; "
                f"from then on no step reads p, so its attention falls for want of looking, and "
                f"{violation.actor} takes that for a low score."
            ]
    if violation.invariant == "I18":
        drops = [r for r in records if r.primitive == "drop_host" and r.detail]
        sums = {
            actor: sum(r.detail for r in drops if r.actor == actor)
            for actor in sorted({str(r.actor) for r in drops})
        }
        return [
            "The losses add up on one request, because each policy keeps a ledger of its own: "
            + ", ".join(f"{actor} {amount}" for actor, amount in sums.items())
            + " permille."
        ]
    who = violation.actor or "the reader"
    acts = {r.actor: seen[id(r)] for r in records if r.actor not in (None, violation.actor)}
    before = [f"({number}) by {actor}" for actor, number in acts.items() if number < last]
    if not before:
        return [f"({last}) comes last, because the schedule lets {who} act then."]
    return [
        f"{' and '.join(before)} {'comes' if len(before) == 1 else 'come'} before ({last}), because in this "
        f"schedule {who} acts afterwards; it doesn't look at what they did."
    ]


def _alone(history: History, violation: Violation, latency: bool) -> str:
    who = " and ".join(history.policies) if history.policies else "full cache (no policy)"
    if latency:
        return f"{who}: the slowest step takes {max(history.latencies, default=0)} ticks."
    damage = history.outcome.damage
    if not 0 <= violation.page < len(damage):
        return f"{who}: nothing breaks."
    end = {
        0: "exact",
        1: "at 8 bits, its backup beside it or gone",
        2: "at 4 bits",
        3: "gone, within its own budget",
    }.get(damage[violation.page], "damaged")
    return f"{who}: in the end p is {end}."
