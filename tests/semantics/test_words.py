"""The contract as data: layout, vocabulary, schedules, evidence and manifests."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings

from fuzzkv.errors import UsageError
from fuzzkv.semantics import layout, vocabulary
from fuzzkv.semantics.contract.evidence import Reversibility, Target
from fuzzkv.semantics.layout import COLUMNS, NPARAM, SIZE, SIZES, constants
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, BOUNDS, OPS, Config, Schedule, schedule_from_json
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.strategies.schedules import schedules
from tests.broken import CAREFUL

NAMES = ("evict", "offload")


def test_columns_fill_the_state_without_overlap() -> None:
    rows = sorted((base, SIZES[name]) for name, base in COLUMNS.items())
    assert rows[0][0] == 0 and sum(rows[-1]) == SIZE == sum(SIZES.values())
    assert all(base + size == following for (base, size), (following, _) in pairwise(rows))
    assert set(COLUMNS) == set(SIZES) and all(size > 0 for size in SIZES.values())


def test_codes_fit_their_columns() -> None:
    assert len(layout.PRIMITIVES) <= layout.NPRIM and len(layout.CLAUSES) <= layout.NCLAUSE
    assert len(layout.GOALS) <= layout.NGOAL and layout.NP == layout.NR * layout.PAGES
    names = constants()
    assert names["P_ARRIVE"] == 0 and names["C_FENCE"] == layout.CLAUSES.index("fence") and names["I18"] == 18
    assert {"P_" + name.upper() for name in layout.PRIMITIVES} <= set(names) and "SIZE" in names


def test_no_two_names_of_the_text_collide() -> None:
    """A column, a constant, a code and a function of the vocabulary never share a name."""
    functions = [name for name in vocabulary.__all__ if name not in constants()]
    assert sorted(functions) == [
        *(
            "AnyId",
            "AnyNumber",
            "Bool",
            "ClauseId",
            "CopyId",
            "DeviceFrame",
            "EntryId",
            "GoalId",
            "HostFrame",
            "Int",
        ),
        *("InvariantId", "PageColumn", "PageId", "PolicyId", "PrimitiveId", "QueueId", "SessionId", "State"),
        *("add_if", "and_", "div", "each", "get"),
        *("guard", "ite", "not_", "note", "or_", "put", "put_if", "skip"),
    ]
    assert len(vocabulary.__all__) == len(set(vocabulary.__all__))
    assert all(hasattr(vocabulary, name) for name in vocabulary.__all__)


def test_the_plain_vocabulary_means_what_it_says() -> None:
    s = [0] * SIZE
    vocabulary.put(s, COLUMNS["DEV"], 2, 7)
    vocabulary.put_if(s, False, COLUMNS["DEV"], 2, 9)
    vocabulary.add_if(s, True, COLUMNS["DEV"], 2, 1)
    vocabulary.add_if(s, False, COLUMNS["DEV"], 2, 1)
    assert vocabulary.get(s, COLUMNS["DEV"], 2) == 8 and sum(s) == 8
    assert vocabulary.ite(True, 1, 2) == 1 and vocabulary.ite(False, 1, 2) == 2 and vocabulary.div(7, 2) == 3
    assert vocabulary.and_(True, True) and not vocabulary.and_(True, False) and vocabulary.or_(False, True)
    assert vocabulary.not_(False) and list(vocabulary.each(3)) == [0, 1, 2]
    vocabulary.guard(False)
    vocabulary.skip(False)


@settings(derandomize=True, database=None, max_examples=100, deadline=None)
@given(schedules(NAMES, max_events=20))
def test_schedules_survive_json(schedule: Schedule) -> None:
    rows = json.loads(json.dumps(schedule.as_json()))
    assert schedule_from_json(NAMES, rows) == schedule
    assert all(rows[i][1] in NAMES for i, event in enumerate(schedule.events) if event[0] == ACT)


def test_every_bound_is_accepted_and_what_is_beyond_is_not() -> None:
    policies = ("a", "b", "c", "d")
    for op, (low_a, high_a, low_b, high_b) in enumerate(BOUNDS):
        for a, b in ((low_a, low_b), (high_a, high_b)):
            row = [OPS[op], policies[a] if op == ACT else a, b]
            assert schedule_from_json(policies, [row]).events == ((op, a, b),)
        assert low_a >= 0 and low_b >= 0
        for a, b in ((low_a - 1, low_b), (high_a + 1, low_b), (low_a, low_b - 1), (low_a, high_b + 1)):
            with pytest.raises(ValueError, match=f"^event 0 is .*: a must be .* and b {low_b} to {high_b}"):
                schedule_from_json(policies, [[OPS[op], a, b]])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            ["tock", 1, 0],
            r"event 1 is \['tock', 1, 0\], not \[name, a, b\] with a name among tick, arrive, step",
        ),
        (["tick", 1], r"event 1 is \['tick', 1\], not \[name, a, b\]"),
        (
            ["act", "nobody", 0],
            r"event 1 is \['act', 'nobody', 0\]: a must be a policy of the case \(evict, offload\)",
        ),
        (["tick", "2", 0], r"event 1 is \['tick', '2', 0\]: a must be 1 to 32"),
        (["tick", True, 0], r"event 1 is \['tick', True, 0\]: a must be 1 to 32"),
        (["tick", 1.0, 0], r"event 1 is \['tick', 1.0, 0\]"),
        (["step", 0, None], r"event 1 is \['step', 0, None\]: .* b 0 to 7"),
    ],
)
def test_a_malformed_event_is_named(row: list[object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        schedule_from_json(NAMES, [["tick", 1, 0], row])


def test_an_act_of_a_slot_that_the_case_does_not_have_is_malformed() -> None:
    with pytest.raises(ValueError, match="event 0 is"):
        schedule_from_json(NAMES, [["act", 2, 0]])
    with pytest.raises(ValueError, match="a must be a policy of the case"):
        schedule_from_json(NAMES, [["act", 0, 0]])


def test_masks_name_policies() -> None:
    schedule = Schedule(("a", "b", "c"), ((0, 1, 0),))
    assert schedule.masked(0) == () and schedule.masked(5) == ("a", "c")
    assert schedule.with_events(()).policies == schedule.policies


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"device_frames": 0}, "device_frames=0"),
        ({"device_frames": 17}, "device_frames=17"),
        ({"host_frames": 13}, "host_frames=13"),
        ({"step_cost": 0}, "step_cost=0"),
        ({"ledger": 1001}, "ledger=1001"),
        ({"calibration": 99}, "calibration=99"),
    ],
)
def test_a_configuration_outside_the_scope_is_refused(change: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=f"FKV032: {words}: is outside"):
        first_state(replace(Config(), **change), ())


def test_the_first_state_opens_the_frames_of_the_configuration() -> None:
    s = first_state(replace(Config(), device_frames=3, host_frames=2), (CAREFUL,), enforce=True)
    owners = s[COLUMNS["D_PAGE"] : COLUMNS["D_PAGE"] + layout.ND]
    assert owners == [layout.FREE] * 3 + [layout.CLOSED] * (layout.ND - 3) and len(s) == SIZE
    assert s[COLUMNS["ENFORCE"] :][: layout.NCLAUSE] == [1] * layout.NCLAUSE
    assert Window(requests=1, pages=1).sizes()[COLUMNS["ENFORCE"]] == layout.NCLAUSE
    assert s[COLUMNS["MF_HORIZON"]] == CAREFUL.manifest.evidence.horizon
    assert json.loads(json.dumps(Config().as_json())) == Config().as_json()


def test_manifests_of_the_built_in_policies_are_complete(defaults: tuple[Policy, ...]) -> None:
    assert [policy.name for policy in defaults] == ["evict", "offload", "quant"]
    for policy in defaults:
        manifest = policy.manifest
        assert manifest.kind == policy.name and manifest.source and manifest.fidelity and policy.version
        assert manifest.evidence.target in get_args(Target) and manifest.evidence.horizon >= 0
        assert 0 < manifest.evidence.confidence <= 1000
        assert manifest.evidence.provenance and manifest.evidence.calibrated_on
        assert len({action.primitive for action in manifest.actions}) == len(manifest.actions) > 0
        for action in manifest.actions:
            assert action.primitive in layout.PRIMITIVES and action.reversibility in get_args(Reversibility)
            assert action.authority_copy in ("host", "device", "none")
            # What can't be taken back has no authority to come from, and a budget; what can has neither need.
            assert (action.reversibility == "irreversible") == (action.authority_copy == "none")
            assert (action.quality_budget > 0) == (action.reversibility == "irreversible")
        assert json.loads(json.dumps(manifest.as_dict()))["evidence"]["target"] == manifest.evidence.target


def test_parameters_are_known_by_name(defaults: tuple[Policy, ...]) -> None:
    offload = defaults[1]
    assert offload.tuned(near=3).parameters["near"] == 3 and offload.parameters["near"] != 3
    with pytest.raises(KeyError, match="nearr"):
        offload.tuned(nearr=3)
    with pytest.raises(ValueError, match=f"has 13 parameters, the machine holds {NPARAM}"):
        replace(CAREFUL, parameters={f"p{i}": i for i in range(13)})
