"""Hypothesis in a hunt with policies in ordinary Python: it generates, remembers and is observed; rule policies never meet it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fuzzkv import events as ev
from fuzzkv.cli import app
from fuzzkv.core.options import HuntOptions
from fuzzkv.search.generated import Generated
from fuzzkv.search.loop import Search
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Schedule
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.strategies.observing import TESTCASES, observed
from tests.field.trtllm_11879 import REPORT

PLAIN = tuple(replace(policy, free=True) for policy in REPORT.policies)
"""The report's policies, run as ordinary Python."""


def searched(
    folder: Path, policies: Sequence[Policy] = PLAIN, *, seed: int = 0, database: Path | None = None
) -> tuple[Search, list[ev.Event]]:
    heard: list[ev.Event] = []
    options = HuntOptions(
        policies=tuple(policy.name for policy in policies),
        seed=seed,
        max_examples=200,
        corpus=folder,
        database=database,
        solver_depth=0,
    )
    search = Search(options, BulkEngine(policies, REPORT.config), [heard.append])
    search.run()
    return search, heard


def first(search: Search) -> int:
    """The number of the first schedule of Hypothesis' that failed."""
    assert search.generated is not None
    return min(found.number for found in search.generated.classes.values())


def test_hypothesis_generates_one_in_ten(tmp_path: Path) -> None:
    search, heard = searched(tmp_path)
    assert search.generated is not None and search.generated.drawn == 20
    assert search.engine.drawn == 180 and search.tally.drawn == 200
    assert first(search) > 0 and search.tally.failing > search.engine.failing
    (conflict,) = [e for e in heard if isinstance(e, ev.ConflictFound)]
    assert conflict.invariant == REPORT.invariant and list(tmp_path.glob("fkv-*.json"))
    # It doesn't draw from the same distribution again and again.
    assert search.residual.singletons <= 1 and search.tally.freely == search.engine.tally().freely


def test_what_failed_once_is_replayed_first(tmp_path: Path) -> None:
    search, _ = searched(tmp_path, database=tmp_path / "examples")
    assert first(search) > 0
    for seed in (0, 1):
        with observed(tmp_path / "seen"):
            search, _ = searched(tmp_path, seed=seed, database=tmp_path / "examples")
        assert first(search) == 0
        line = json.loads((tmp_path / "seen" / TESTCASES).read_text().splitlines()[0])
        assert line["how_generated"] == "during reuse phase" and line["status"] == "failed"
        assert "schedule=Schedule(policies=" in line["representation"]
    assert first(searched(tmp_path, seed=1)[0]) > 0
    repaired = tuple(replace(policy, free=True) for policy in REPORT.twins)
    search, _ = searched(tmp_path, repaired, database=tmp_path / "examples")
    assert not search.tally.classes and search.generated is not None and search.generated.drawn == 20
    assert not [path for path in (tmp_path / "examples").rglob("*") if path.is_file()], (
        "nothing fails any more"
    )


def test_what_the_compiled_search_finds_is_remembered_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Generated, "draw", lambda self, count: None)
        search, _ = searched(tmp_path, database=tmp_path / "examples")
        assert search.tally.classes and not search.generated.classes  # type: ignore[union-attr]
    assert first(searched(tmp_path, seed=1, database=tmp_path / "examples")[0]) == 0


def test_rule_policies_never_meet_it(tmp_path: Path) -> None:
    with observed(tmp_path / "seen"):
        search, _ = searched(tmp_path, REPORT.policies, database=tmp_path / "examples")
    assert search.generated is None and search.engine.drawn == search.tally.drawn == 200
    assert not (tmp_path / "examples").exists()
    lines = (tmp_path / "seen" / TESTCASES).read_text().splitlines()
    assert not [line for line in lines if "generate phase" in line]


class Moody:
    """The rule of a policy, until it is switched off."""

    def __init__(self, policy: Policy) -> None:
        self.rule, self.on = policy.rule, True

    def __call__(self, s: object, k: int) -> None:
        if self.on:
            self.rule(s, k)


def test_what_is_not_shown_again_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moody = Moody(PLAIN[0])
    honest = Generated.repeats

    def repeats(self: Generated, schedule: Schedule) -> bool:
        moody.on = False
        return honest(self, schedule)

    monkeypatch.setattr(Generated, "repeats", repeats)
    search, heard = searched(tmp_path, (replace(PLAIN[0], rule=moody), PLAIN[1]))
    told = [e for e in heard if isinstance(e, ev.WarningRaised)]
    assert [e.code for e in told] == ["FKV106"] and REPORT.invariant in told[0].text
    assert not search.tally.classes and search.generated is not None and search.generated.drawn == 20


@pytest.mark.slow
def test_a_hunt_with_a_python_policy_is_observed(tmp_path: Path) -> None:
    arguments = ["hunt", "--policies", "tests.broken:CAREFUL_FREE,tests.broken:TIDY_FREE", "--no-confirm"]
    arguments += ["--max-examples", "300", "--corpus", str(tmp_path / "corpus"), "--database", "none"]
    done = CliRunner().invoke(app, [*arguments, "--observe", str(tmp_path / "seen")])
    assert done.exit_code in (0, 1), done.output
    lines = [json.loads(line) for line in (tmp_path / "seen" / TESTCASES).read_text().splitlines()]
    lines = [line for line in lines if line["type"] == "test_case"]
    how = Counter(line["how_generated"] for line in lines)
    assert how["during generate phase"] >= 30
    generated = [line for line in lines if line["metadata"]["phase"] == "generate"]
    assert all("schedule=Schedule(policies=" in line["representation"] for line in generated)
