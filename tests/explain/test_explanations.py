"""Every case of the corpus is explained, and what is said of it is so: each dependency is found again without the builder."""

from __future__ import annotations

import copy
import importlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.cases.corpus import Case, is_live, load_corpus
from fuzzkv.explain.explanation import explained
from fuzzkv.explain.formats import as_json
from fuzzkv.explain.guards import around
from fuzzkv.semantics.policy import Policy
from fuzzkv.simulator.history import History
from fuzzkv.targets.model.recipe import Recipe, read_case
from tests.explain.ledger import Ledger, Seen
from tests.explain.log_ledger import holds

CORPUS = Path(__file__).parents[2] / "corpus"
CASES: dict[str, Case] = {case["id"]: case for case in load_corpus(CORPUS)}
Told = dict[str, Any]


def named_policies(case: Case) -> list[Policy]:
    """The policies that a case names on its command line."""
    found = re.search(r"--policies (\S+)", case["replay"])
    paths = [path.split(":") for path in found[1].split(",")] if found else []
    return [getattr(importlib.import_module(module), name) for module, name in paths]


@cache
def told(case_id: str) -> Told:
    """What ``fuzzkv explain --format json --no-guards`` prints."""
    case = CASES[case_id]
    found = explained(case, () if is_live(case) else named_policies(case), guards=False)
    assert found is not None
    return as_json(found)


@cache
def histories(case_id: str) -> tuple[Recipe, dict[int, History]]:
    case = CASES[case_id]
    recipe = read_case(case, allowed={policy.name: policy for policy in named_policies(case)})
    return recipe, recipe.histories()


# -- what has to hold --------------------------------------------------------------------------------------


def check(case: Case, data: Told) -> None:
    """Everything that is asserted of an explanation."""
    check_breach(case, data)
    check_names(data)
    if is_live(case):
        check_log(case, data)
    else:
        check_records(case, data)


def check_breach(case: Case, data: Told) -> None:
    """The event at which it breaks is listed, and the sentences speak of listed nodes only."""
    nodes = {node["number"]: node for node in data["nodes"]}
    broke = nodes[data["chain"]["broke"]]
    assert broke["listed"] > 0, "the breaking event isn't listed"
    assert broke["event"] == case["violation"]["event"] == data["chain"]["event"]
    listed = {node["listed"] for node in data["nodes"] if node["listed"]}
    assert listed == set(range(1, len(data["chain"]["listed"]) + 1))
    *sentences, however = data["sentences"]
    pairs = {(nodes[e["from"]]["listed"], nodes[e["to"]]["listed"]) for e in data["chain"]["edges"]}
    stated = set()
    for sentence in sentences:
        found = re.match(r"\((\d+)\) comes before \((\d+)\), because .+\.$", sentence)
        assert found is not None, sentence
        stated.add((int(found[1]), int(found[2])))
        assert {int(n) for n in re.findall(r"\((\d+)\)", sentence)} <= listed
    assert stated == pairs, "a sentence without an edge, or an edge without a sentence"
    assert however.startswith(f"However, {case['class']['invariant']} asks that ")
    acting = {node["actor"] for node in data["nodes"] if node["listed"]}
    assert set(case["class"]["policies"]) <= acting | set(data["chain"]["apart"])


def check_names(data: Told) -> None:
    """A name stands for one thing, and a thing has one name."""
    names = [entry["name"] for entry in data["names"]]
    things = [entry["is"] for entry in data["names"]]
    assert len(set(names)) == len(names), "two pages share a name"
    assert len(set(things)) == len(things), "a page has two names"


def check_records(case: Case, data: Told) -> None:
    """The nodes are the history's records, and each edge is one that the ledger finds in them, about that page."""
    recipe, arms = histories(case["id"]) if "made" not in case else case["made"]
    full = (1 << len(recipe.policies)) - 1
    records = iter(arms[full].records)
    nodes: list[Seen] = []
    for node in data["nodes"]:
        if node["what"].startswith("event "):
            nodes.append(Seen(node["event"], node["time"], node["actor"], node["what"], -1, 0))
            continue
        r = next(records)
        assert (r.event, r.time, r.primitive) == (node["event"], node["time"], node["what"])
        assert r.actor is None or r.actor == node["actor"]
        nodes.append(Seen(r.event, r.time, r.actor or "", r.primitive, r.page, r.detail))
    assert next(records, None) is None
    ledger = Ledger(nodes, recipe.config.device_frames, recipe.config.page_cost)
    things = {entry["name"]: entry["is"] for entry in data["names"]}
    for n, node in enumerate(data["nodes"]):
        for name in node["pages"]:
            assert things[name] == spelled(ledger.key_of[n]), f"({n}) isn't about {name}"
    for edge in data["edges"]:
        first, then = edge["from"], edge["to"]
        where = f"{edge['kind']} {first} -> {then} ({nodes[first].what}, {nodes[then].what})"
        assert edge["witness"] == [nodes[first].event, nodes[then].event], where
        if edge["kind"] == "saw":
            assert first < then and nodes[then].actor, where
            assert not edge["in_chain"] or decides(case, nodes, first, then, data), where
            continue
        pages = ledger.edges.get((edge["kind"], first, then))
        assert pages, f"no such dependency: {where}"
        thing = things.get(edge["about"].split(" ")[0])
        if edge["kind"] in OF_ONE_PAGE and thing is not None:
            assert thing in {spelled(page) for page in pages if page is not None}, where


OF_ONE_PAGE = {"wrote", "rewrote", "dropped", "promised", "withdrew", "read", "certified", "scaled"}
"""Kinds of which the ledger knows which page they are about."""


def spelled(page: tuple[int, int, int]) -> str:
    slot, times, place = page
    return f"page {place} of session {slot}" + (f".{times}" if times > 1 else "")


def decides(case: Case, nodes: list[Seen], first: int, then: int, data: Told) -> bool:
    """Whether a policy acts otherwise in that event where nobody did the earlier thing: without the policy that did it."""
    recipe, arms = histories(case["id"])
    slot = recipe.schedule.policies.index(nodes[first].actor)
    other = arms[(1 << len(recipe.policies)) - 1 & ~(1 << slot)]
    event, actor = nodes[then].event, nodes[then].actor
    here = [(n.what, n.page, n.detail) for n in nodes if (n.event, n.actor) == (event, actor)]
    return here != [
        (r.primitive, r.page, r.detail) for r in other.records if (r.event, r.actor) == (event, actor)
    ]


def check_log(case: Case, data: Told) -> None:
    """The nodes are the log's rows and the violation among them, and each edge holds between the raw rows."""
    log = [list(row) for row in case["history"]["log"]]
    broke = data["chain"]["broke"]
    violation = case["violation"]
    assert sum(row[0] == "step" for row in log[:broke]) == violation["step"]
    log.insert(broke, ["breaks", violation["request"], violation["page"]])
    assert [node["what"].replace("window", "free") for node in data["nodes"]] == [row[0] for row in log]
    for edge in data["edges"]:
        words = edge["about"].split(" ")
        about = {sort: int(number) for sort, number in zip(words[::2], words[1::2], strict=True)}
        found = holds(log, edge["kind"], edge["from"], edge["to"], about, (broke, violation["page"]))
        assert found, f"no such dependency: {edge}"


# -- the walk ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case_id", sorted(CASES))
def test_each_case_is_explained_and_what_is_said_is_so(case_id: str) -> None:
    check(CASES[case_id], told(case_id))


@pytest.mark.parametrize(
    "case_id", ["fkv-02f626019e02", "fkv-58f844c3056e", "fkv-2063c3984224", "fkv-964136570ff0"]
)
def test_what_is_said_of_schedules_around_a_case_is_so(case_id: str) -> None:
    """Copies that fail or are late, sessions that end and come again: more than a shrunk case has."""
    case = CASES[case_id]
    recipe = histories(case_id)[0]
    drawn = around(recipe.schedule.events, len(recipe.policies), recipe.workload, seed=1)
    told_of = 0
    while told_of < 5:
        schedule = recipe.schedule.with_events(next(drawn))
        changed = {**case, "schedule": schedule.as_json()}
        made = read_case(changed)
        arms = made.histories()
        for violation in arms[max(arms)].outcome.failures:
            other = {
                **changed,
                "class": {**case["class"], "invariant": violation.invariant},
                "violation": {"event": violation.event},
                "made": (made, arms),
            }
            found = explained(other, guards=False)
            assert found is not None
            check(other, as_json(found))
            told_of += 1


def test_the_corpus_has_cases_of_both_targets() -> None:
    live = sum(is_live(case) for case in CASES.values())
    assert live >= 4 and len(CASES) - live >= 57


def test_no_two_sessions_share_a_name() -> None:
    data = told("fkv-03f49144a7ac")  # its session ends, and another one has the same page of the same slot
    assert {entry["is"] for entry in data["names"]} >= {"page 0 of session 0", "page 0 of session 0.2"}
    live = told("fkv-d0663e7c9582")
    again = [entry["is"] for entry in live["names"] if entry["is"].startswith("block 1 of request 0 ")]
    assert len(again) == 2  # the same block, given out twice


def test_controls_say_what_matters() -> None:
    def arms(case_id: str) -> str:
        return "\n".join(told(case_id)["arms"])

    assert "evict alone: session 0 has lost 225 permille" in arms("fkv-293019a2b47b")
    assert "offload alone: the slowest step takes 29 ticks" in arms("fkv-1d8e5d080e41")
    assert "session 1 needs 6, and 5 device frames are free" in arms("fkv-556659605256")
    assert "offload alone: p has an exact copy on the host, and offload quotes it" in arms("fkv-02f626019e02")
    assert "2 requests with 5 tokens" in arms("fkv-d0663e7c9582")


# -- the walk's own test: a wrong explanation is caught -----------------------------------------------------


def _moved(data: Told) -> None:
    edge = data["chain"]["edges"][-1]
    (whole,) = [e for e in data["edges"] if all(e[k] == edge[k] for k in ("from", "to", "kind", "about"))]
    whole["from"] = max(n for n in range(edge["to"]) if n != edge["from"])


def _other_kind(data: Told) -> None:
    data["edges"][0]["kind"] = "pinned" if "cells" in data else "certified"


def _unlisted(data: Told) -> None:
    data["nodes"][data["chain"]["broke"]]["listed"] = 0


def _other_event(data: Told) -> None:
    data["chain"]["event"] += 1


def _shared_name(data: Told) -> None:
    data["names"].append({"name": data["names"][0]["name"], "is": "page 7 of session 1"})


def _unfounded(data: Told) -> None:
    data["sentences"].insert(0, "(1) comes before (2), because its quote stands.")
    data["chain"]["edges"] = [e for e in data["chain"]["edges"] if e["to"] != data["chain"]["listed"][1]]


def _silent(data: Told) -> None:
    data["sentences"].pop(0)


def _left_out(data: Told) -> None:
    data["nodes"].pop(0)


@pytest.mark.parametrize(
    "case_id", ["fkv-02f626019e02", "fkv-1d8e5d080e41", "fkv-03f49144a7ac", "fkv-d0663e7c9582"]
)
@pytest.mark.parametrize(
    "spoil", [_moved, _other_kind, _unlisted, _other_event, _shared_name, _unfounded, _silent, _left_out]
)
def test_a_wrong_explanation_is_caught(case_id: str, spoil: Callable[[Told], None]) -> None:
    data = copy.deepcopy(told(case_id))
    check(CASES[case_id], data)
    spoil(data)
    with pytest.raises((AssertionError, StopIteration, KeyError, IndexError, ValueError)):
        check(CASES[case_id], data)


def test_an_edge_that_is_nearly_right_is_caught() -> None:
    """Each dependency of a chain, moved to another earlier node: hardly any of these is one."""
    caught = tried = 0
    for case_id in ("fkv-02f626019e02", "fkv-728b7f2dd9bd", "fkv-2063c3984224", "fkv-d0663e7c9582"):
        data = told(case_id)
        for i in [n for n, edge in enumerate(data["edges"]) if edge["in_chain"]]:
            for first in range(data["edges"][i]["to"]):
                if first == data["edges"][i]["from"]:
                    continue
                wrong = {**data, "edges": [{**data["edges"][i], "from": first}]}
                wrong["edges"][0]["witness"] = [data["nodes"][first]["event"], data["edges"][i]["witness"][1]]
                tried += 1
                try:
                    check_records(CASES[case_id], wrong) if not is_live(CASES[case_id]) else check_log(
                        CASES[case_id], wrong
                    )
                except AssertionError:
                    caught += 1
    assert tried > 500 and caught >= 0.99 * tried
