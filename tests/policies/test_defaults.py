"""Each default policy alone: breaks nothing, does something, is the same every time; and how policies are
named."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.errors import UsageError
from fuzzkv.policies import registry
from fuzzkv.policies.evict import EVICT
from fuzzkv.policies.registry import builtin, installed, resolve, survey
from fuzzkv.search.acceptance import try_alone
from fuzzkv.semantics.contract.evidence import Manifest
from fuzzkv.semantics.layout import COLUMNS, NPRIM, PRIMITIVES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, Config
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.linker import write_out

each_policy = pytest.mark.parametrize("name", ["evict", "offload", "quant"])
ACTS = {
    "evict": {"begin_store", "drop_device", "drop_host", "promise", "withdraw", "condemn", "lose"},
    "offload": {"begin_store", "begin_load", "drop_device", "drop_host", "promise", "withdraw"},
    "quant": {"begin_store", "begin_load", "drop_host", "quantise", "promise", "withdraw"},
}
"""What each policy must have done at least once over three thousand schedules."""


def _claims(**changes: Any) -> Manifest:
    """A manifest whose evidence says something else."""
    return replace(EVICT.manifest, evidence=replace(EVICT.manifest.evidence, **changes))


@each_policy
@pytest.mark.parametrize("seed", [1, 2])
def test_alone_it_breaks_nothing(compiled: BulkEngine, name: str, seed: int) -> None:
    alone = try_alone(compiled, name, seed=seed, schedules=20_000)
    assert alone.passed and alone.failures == 0 and alone.invariant == "" and alone.upper < 2e-4


@each_policy
def test_alone_under_the_contract_it_breaks_nothing(compiled: BulkEngine, name: str) -> None:
    slot = compiled.names.index(name)
    engine = compiled.again(seed=3, only=1 << slot, enforce=True)
    engine.search(5_000)
    assert engine.failing == 0 and engine.freed_frames > 0


@each_policy
def test_it_does_everything_that_it_is_there_for(compiled: BulkEngine, name: str) -> None:
    slot = compiled.names.index(name)
    engine = compiled.again(seed=4)
    base = COLUMNS["ACTED"] + slot * NPRIM
    done: set[str] = set()
    for number in range(8_000):
        state = engine.final_state(engine.schedule(number).events, 1 << slot)
        done |= {PRIMITIVES[i] for i in range(len(PRIMITIVES)) if state[base + i]}
    assert ACTS[name] <= done


@each_policy
def test_its_manifest_names_what_it_does(defaults: tuple[Policy, ...], name: str) -> None:
    policy = defaults[("evict", "offload", "quant").index(name)]
    declared = {action.primitive for action in policy.manifest.actions}
    promising = {"promise", "withdraw", "condemn", "lose"}
    assert ACTS[name] - promising - {"begin_load"} <= declared <= ACTS[name]


@each_policy
def test_it_is_deterministic(compiled: BulkEngine, name: str) -> None:
    slot = compiled.names.index(name)
    one, other = (compiled.again(seed=9, only=1 << slot) for _ in range(2))
    one.search(2_000)
    other.search(500)
    other.search(1_500)
    assert (one.primitives, one.freed_frames, one.goals) == (
        other.primitives,
        other.freed_frames,
        other.goals,
    )
    events = one.schedule(17).events
    assert one.final_state(events, 1 << slot).tolist() == other.final_state(events, 1 << slot).tolist()


@each_policy
def test_it_knows_nobody_else(compiled: BulkEngine, name: str) -> None:
    """Masked out, its acts change nothing: the run is the same without them."""
    slot = compiled.names.index(name)
    engine = compiled.again(seed=6)
    skipped = COLUMNS["EVENT"], COLUMNS["EVENT"] + 1
    for number in range(40):
        events = engine.schedule(number).events
        without = tuple(e for e in events if e[0] != ACT or e[1] != slot)
        one = engine.final_state(events, 7 & ~(1 << slot)).tolist()
        other = engine.final_state(without, 7 & ~(1 << slot)).tolist()
        base, size = COLUMNS["V_EVENT"], COLUMNS["V_STAMP"] - COLUMNS["V_EVENT"]
        for state in (one, other):
            state[slice(*skipped)] = [0]
            state[base : base + size] = [0] * size
        assert one == other


def test_their_rules_stay_in_the_vocabulary(defaults: tuple[Policy, ...]) -> None:
    assert write_out([policy.rule for policy in defaults], trace=False)


def test_policies_come_sorted_by_name() -> None:
    assert [p.name for p in resolve(["quant", " offload ", "", "evict"])] == ["evict", "offload", "quant"]
    assert set(builtin()) <= set(installed())


def test_a_path_is_imported() -> None:
    assert [p.name for p in resolve(["tests.broken:CAREFUL", "quant"])] == ["careful", "quant"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "FKV002: --policies: names no policy"),
        ([" ", ""], "FKV002: --policies: names no policy"),
        (["ofload"], r"FKV001: 'ofload': no policy of this name is registered. Did you mean 'offload'"),
        (["zzz"], r"FKV001: 'zzz': .* Choose from: .*evict, offload, quant"),
        (["quant", "quant"], "FKV002: 'quant': is given twice"),
        (["tests.broken:CAREFUL", "tests.broken:CAREFUL"], "FKV002: 'tests.broken:CAREFUL': is given twice"),
        (["no_such_module:X"], r"FKV003: 'no_such_module:X': can't be imported \(ModuleNotFoundError: No module named"),
        (["tests.broken:NOBODY_ELSE"], r"FKV003: 'tests.broken:NOBODY_ELSE': can't be imported \(AttributeError: .*NOBODY_ELSE"),
        (["tests.broken:NO_POLICY"], "FKV004: 'tests.broken:NO_POLICY': is a dict, not a fuzzkv policy with a manifest"),
        (["tests.broken:Plant"], r"FKV004: 'tests.broken:Plant': can't be made without arguments \(TypeError"),
        (["tests.raises:X"], r"FKV003: 'tests.raises:X': can't be imported \(RuntimeError: this module has a fault of its own\)"),
        ([":"], "FKV003: ':'"),
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_had_is_told(names: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        resolve(names)


def test_nothing_is_imported_for_a_case_file() -> None:
    sys.modules.pop("tests.never", None)
    with pytest.raises(UsageError, match=r"FKV003: .tests\.never:X.: is a path to code"):
        resolve(["tests.never:X"], allow_paths=False)
    assert "tests.never" not in sys.modules


def test_the_size_of_a_set_is_bounded(defaults: tuple[Policy, ...]) -> None:
    for wrong in ((), (*defaults, *defaults)):
        with pytest.raises(UsageError, match=f"FKV002: {len(wrong)} policies"):
            BulkEngine(wrong, Config())


LEAVES = "import sys\nclass Leaves:\n    def __init__(self): sys.exit(0)\n"


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that try to leave the process, registered and by path."""
    (tmp_path / "leaves_at_import.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    (tmp_path / "leaves_when_made.py").write_text(LEAVES, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    points = [
        EntryPoint("one", "leaves_at_import:X", registry.ENTRY_POINTS),
        EntryPoint("two", "leaves_when_made:Leaves", registry.ENTRY_POINTS),
        EntryPoint("careful", "tests.broken:CAREFUL", registry.ENTRY_POINTS),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda **_: points)


@pytest.mark.usefixtures("strangers")
def test_a_stranger_that_leaves_the_process_is_told() -> None:
    for name, code in (
        ("leaves_at_import:X", "FKV003"),
        ("leaves_when_made:Leaves", "FKV004"),
        ("one", "FKV003"),
        ("two", "FKV004"),
    ):
        with pytest.raises(UsageError, match=f"{code}: '{name}': .*SystemExit"):
            resolve([name])


@pytest.mark.usefixtures("strangers")
def test_a_broken_entry_point_breaks_nobody_else() -> None:
    sys.modules.pop("leaves_when_made", None)
    assert [policy.name for policy in resolve(["quant", "careful"])] == ["careful", "quant"]
    assert "leaves_when_made" not in sys.modules
    found, broken = survey()
    assert set(found) == set(installed()) == {*builtin(), "careful"}
    assert [error.code for error in broken] == ["FKV003", "FKV004"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"manifest": {}}, "FKV004: .*its manifest is a dict"),
        ({"manifest": None}, "FKV004: .*its manifest is a NoneType"),
        ({"manifest": _claims(horizon=-5)}, "FKV004: .*horizon of its evidence is -5"),
        ({"manifest": _claims(confidence=99999)}, "FKV004: .*confidence"),
        ({"manifest": _claims(target="luck")}, "FKV004: .*target 'luck'"),
        ({"name": "a b"}, "FKV004: .*its name 'a b' isn't a plain name"),
        ({"name": "a\n"}, "FKV004: .*its name"),
        ({"name": 3}, "FKV004: .*its name 3"),
        ({"version": 1}, "FKV004: .*its version 1"),
        ({"rule": functools.partial(print, 1)}, "FKV004: .*its rule is a partial"),
        ({"rule": print}, "FKV004: .*its rule is a builtin_function"),
        ({"parameters": [1]}, "FKV005: .*its parameters are a list"),
        ({"parameters": {"near": True}}, "FKV005: .*the parameter near is True"),
        ({"parameters": {"near": "4"}}, "FKV005: .*the parameter near is '4'"),
        ({"parameters": {"near": 2**63}}, "FKV005: .*the parameter near is 9223"),
        ({"parameters": {3: 3}}, "FKV005: .*the parameter name 3"),
        ({"edges": ("near", 4)}, "FKV005: .*the edge 'near' isn't one of its parameters"),
        ({"edges": (("nearer", 4),)}, "FKV005: .*the edge of type tuple isn't one of its parameters"),
    ],
)
def test_a_policy_with_odd_fields_is_refused(
    defaults: tuple[Policy, ...], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
) -> None:
    from tests import broken

    monkeypatch.setattr(broken, "ODD", replace(defaults[0], **changes), raising=False)
    with pytest.raises(UsageError, match=words):
        resolve(["tests.broken:ODD"])
