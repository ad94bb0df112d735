"""Whole hunts on small budgets: ids, exit codes, single policies, the contract, kills and interrupts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fuzzkv import events as ev
from fuzzkv.cases.corpus import load_case, load_corpus, problems, write_index
from fuzzkv.cases.shrink import Shrinker
from fuzzkv.core.options import HuntOptions
from fuzzkv.errors import UsageError
from fuzzkv.search.confirming import replay_case
from fuzzkv.search.hunt import HuntResult, hunt
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.induction import prove
from tests.found import KINDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def quick_shrinking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own passes only, and a short acceptance: leaps, Hypothesis and acceptance have tests of their own."""
    monkeypatch.setattr(Shrinker, "_leap", lambda self, best: best)
    monkeypatch.setattr(Shrinker, "_hypothesis", lambda self, best: best)
    monkeypatch.setattr("fuzzkv.search.admission.ALONE", 4_000)


class Heard(list[Any]):
    """A listener that keeps what it is told."""

    def __call__(self, event: ev.Event) -> None:
        self.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]

    @property
    def last(self) -> Any:
        return self.of(ev.HuntFinished)[-1]


def small(corpus: Path, *names: str, **options: Any) -> tuple[HuntResult, Heard]:
    heard = Heard()
    given = {
        "seed": 1,
        "max_examples": 100_000,
        "confirm": False,
        "corpus": corpus,
        "solver_depth": 0,
        **options,
    }
    result = hunt(HuntOptions(policies=names or ("offload", "quant", "evict"), **given), [heard])
    return result, heard


@pytest.mark.slow
def test_a_hunt_files_whole_valid_cases_and_the_same_ones_again(compiled: BulkEngine, tmp_path: Path) -> None:
    one, heard = small(tmp_path / "one")
    other, _ = small(tmp_path / "other", "evict", "quant", "offload")
    assert one.exit_code == 1 == heard.last.exit_code and one.outcome == "conflict"
    ids = [case["id"] for case in one.cases]
    assert ids == [case["id"] for case in other.cases] and len(set(ids)) == len(ids) >= len(KINDS)
    assert set(KINDS) <= {case["label"] for case in one.cases}
    for folder in (tmp_path / "one", tmp_path / "other"):
        assert problems(folder) == [] and {case["id"] for case in load_corpus(folder)} == set(ids)
    for path in (tmp_path / "one").glob("fkv-*.json"):
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()
    # What is filed fails again, and its arms pass; nothing is a mere part of another set's kind.
    for case in one.cases:
        again = replay_case(case, "model")
        assert again.fails is True and again.verdict == "fails"
        assert [arm["verdict"] for arm in case["arms"]].count("fail") == 1 and len(case["policies"]) >= 2
    classes = [json.dumps(case["class"], sort_keys=True) for case in one.cases]
    assert len(set(classes)) == len(classes)
    assert sorted(heard.last.unconfirmed) == sorted(ids) and heard.last.confirmed == 0


@pytest.mark.slow
def test_a_hunt_tells_its_way(compiled: BulkEngine, tmp_path: Path) -> None:
    result, heard = small(tmp_path, max_examples=20_000, solver_depth=2)
    assert isinstance(heard[0], ev.HuntStarted) and isinstance(heard[-1], ev.HuntFinished)
    assert heard[0].policies == ("evict", "offload", "quant") and heard[0].engine == "none"
    assert [event.phase for event in heard.of(ev.PhaseStarted)] == ["accept", "solver", "search", "shrink"]
    (solved,) = heard.of(ev.SolverDone)
    assert (solved.depth, solved.sets, solved.classes, solved.ended) == (2, 7, 0, "")
    assert [(done.policy, done.passed) for done in heard.of(ev.AcceptanceDone)] == [
        ("evict", True), ("offload", True), ("quant", True),
    ]  # fmt: skip
    assert [filed.case_id for filed in heard.of(ev.CaseFiled)] == [case["id"] for case in result.cases]
    assert all(step.after <= step.before for step in heard.of(ev.ShrinkStep))
    assert [event.done for event in heard.of(ev.Progress) if event.phase == "search"] == [
        20_000
    ] and heard.last.schedules > 20_000


@pytest.mark.slow
def test_what_the_solver_finds_is_filed_though_the_search_meets_nothing(tmp_path: Path) -> None:
    names = ("tests.field.vllm_48412:OFFLOAD", "tests.field.vllm_48412:QUANT")
    result, heard = small(tmp_path, *names, max_examples=1, solver_depth=3)
    (solved,) = heard.of(ev.SolverDone)
    assert solved.classes >= 1 and result.exit_code == 1
    assert "fkv-c60765e72c24" in {case["id"] for case in result.cases}


@pytest.mark.slow
def test_a_proof_ends_a_hunt_under_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A proof in the usual window has a test of its own.
    window = Window(requests=1, pages=2, device=2, host=1, copies=1, policies=2, entries=1)
    monkeypatch.setattr("fuzzkv.search.warm_start.prove", partial(prove, window=window))
    names = ("tests.broken:STORING", "tests.broken:KEEPING")
    result, heard = small(tmp_path, *names, max_examples=1_000, solver_depth=1, contract="enforce")
    (done,) = heard.of(ev.ProofDone)
    assert done.settled and (done.proved, done.of, done.narrow) == (18, 18, ())
    assert heard.of(ev.SearchDone) == [] == heard.of(ev.SolverDone)
    assert (result.exit_code, result.cases) == (0, ())


@pytest.mark.slow
def test_one_policy_has_no_conflict(compiled: BulkEngine, tmp_path: Path) -> None:
    result, heard = small(tmp_path / "none", "tests.broken:CAREFUL_FREE", max_examples=200)
    assert (result.exit_code, result.outcome, result.cases) == (0, "clean", ())
    assert not (tmp_path / "none").exists() and heard.of(ev.ConflictFound) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["offload", "quant", "evict"])
def test_one_default_policy_has_no_conflict(compiled: BulkEngine, tmp_path: Path, name: str) -> None:
    """The search of a hunt of this policy alone, on the set that is compiled already."""
    engine = compiled.again(seed=1, only=1 << compiled.names.index(name))
    engine.search(100_000)
    assert engine.classes == [] and engine.failing == 0


@pytest.mark.slow
def test_a_policy_that_fails_alone_is_told_as_such(tmp_path: Path) -> None:
    result, heard = small(tmp_path / "none", "tests.broken:HASTY_FREE", max_examples=200)
    assert result.single_policy == ("hasty",) and result.cases == () and result.exit_code == 3
    assert heard.last.text.startswith("single-policy: hasty fails alone") and heard.last.outcome == "failed"
    (done,) = heard.of(ev.AcceptanceDone)
    assert not done.passed and done.reason.startswith("breaks I1 alone in ")
    assert not (tmp_path / "none").exists() and heard.of(ev.ConflictFound) == []


@pytest.mark.slow
def test_a_policy_that_fails_alone_is_left_out_of_the_hunt(tmp_path: Path) -> None:
    names = ("tests.broken:HASTY_FREE", "tests.broken:CAREFUL_FREE", "tests.broken:TIDY_FREE")
    result, heard = small(tmp_path, *names, max_examples=600)
    assert result.single_policy == ("hasty",) and result.exit_code == 1
    assert {tuple(case["class"]["policies"]) for case in result.cases} == {("careful", "tidy")}
    assert {case["class"]["invariant"] for case in result.cases} >= {"I1"}
    assert all("hasty" not in found.policies for found in heard.of(ev.ConflictFound))


@pytest.mark.slow
def test_policies_that_never_meet_show_nothing(tmp_path: Path) -> None:
    result, heard = small(tmp_path, "tests.broken:IDLE_FREE", "tests.broken:CAREFUL_FREE", max_examples=100)
    assert (result.exit_code, result.outcome) == (3, "vacuous") and "idle never acted" in heard.last.text


@pytest.mark.slow
def test_the_contract_refuses_the_conflicts_and_still_frees_memory(
    compiled: BulkEngine, tmp_path: Path
) -> None:
    result, heard = small(tmp_path, contract="enforce", max_examples=300_000)
    assert {case["label"] for case in result.cases} & set(KINDS) == set()
    assert heard.last.refused and all(count > 0 for count in heard.last.refused.values())
    assert "dC" in heard.last.text
    engine = compiled.again(seed=1, enforce=True)
    engine.search(20_000)
    free = compiled.again(seed=1)
    free.search(20_000)
    assert 0.1 * free.freed_frames < engine.freed_frames <= free.freed_frames


def test_an_unknown_policy_is_told_before_anything_starts(tmp_path: Path) -> None:
    heard = Heard()
    with pytest.raises(UsageError, match=r"FKV001: 'ofload': .* Did you mean 'offload'"):
        hunt(HuntOptions(policies=("ofload",), corpus=tmp_path / "none"), [heard])
    assert heard == [] and not (tmp_path / "none").exists()


CHILD = """
import os, signal, sys, time
from pathlib import Path
import fuzzkv.search.admission
from fuzzkv import events as ev
from fuzzkv.search.hunt import hunt
from fuzzkv.core.options import HuntOptions
from fuzzkv.cases.shrink import Shrinker

stop_at, corpus, names = int(sys.argv[1]), Path(sys.argv[2]), tuple(sys.argv[3].split(","))
Shrinker._leap = Shrinker._hypothesis = lambda self, best: best
fuzzkv.search.admission.ALONE = 4_000
replace, filed = os.replace, [0]

def slow_replace(source, target):
    # The moment of a kill: the new file is written, but it isn't in its place yet.
    if "fkv-" in str(target):
        filed[0] += 1
        if filed[0] == stop_at:
            print("now", flush=True)
            time.sleep(60)
    replace(source, target)

def tell(event):
    if isinstance(event, ev.PhaseStarted):
        print(event.phase, flush=True)
    elif isinstance(event, ev.HuntFinished):
        print("finished", event.outcome, event.classes, len(event.unconfirmed), flush=True)

os.replace = slow_replace
signal.signal(signal.SIGTERM, signal.default_int_handler)
# A worker imports this file too.
if __name__ == "__main__":
    options = HuntOptions(
        policies=names,
        seed=1,
        max_examples=int(sys.argv[4]),
        confirm=False,
        corpus=corpus,
        solver_depth=0,
        workers=int(sys.argv[5]),
    )
    done = hunt(options, [tell])
    sys.exit(done.exit_code)
"""
PAIR = "tests.broken:CAREFUL_FREE,tests.broken:TIDY_FREE"


def child(stop_at: int, corpus: Path, names: str, examples: int, workers: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(stop_at), str(corpus), names, str(examples), str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


def lines_until(process: subprocess.Popen[str], word: str) -> Iterator[str]:
    assert process.stdout is not None
    for line in iter(process.stdout.readline, ""):
        yield line.strip()
        if line.strip() == word:
            return
    raise AssertionError(f"the hunt ended before it said {word!r}")


@pytest.mark.slow
def test_a_kill_in_the_middle_of_filing_leaves_whole_cases(compiled: BulkEngine, tmp_path: Path) -> None:
    with child(3, tmp_path, "evict,offload,quant", 5_000) as process:
        try:
            list(lines_until(process, "now"))
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    filed = sorted(tmp_path.glob("fkv-*.json"))
    assert len(filed) == 2
    for path in filed:
        assert load_case(path)["id"] == path.stem
    # What was filed early may be longer than what is filed in the end, and stays beside it: it is a case as well.
    left = load_corpus(tmp_path)
    assert all(replay_case(case, "model").fails is True for case in left)
    # The next hunt goes on as if nothing had been, and its folder is clean.
    result, _ = small(tmp_path, max_examples=5_000)
    assert all(case["class"] in [final["class"] for final in result.cases] for case in left)
    ids = {case["id"] for case in (*left, *result.cases)}
    assert {case["id"] for case in load_corpus(tmp_path)} == ids and problems(tmp_path) == []
    # What the kill left behind is no case, and goes away when it is old.
    stale = [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]
    for path in stale:
        os.utime(path, (0, 0))
    write_index(tmp_path)
    assert len(stale) == 1 and not stale[0].exists()


@pytest.mark.slow
@pytest.mark.thorough
def test_a_kill_at_any_moment_leaves_whole_cases(tmp_path: Path) -> None:
    with child(0, tmp_path, PAIR, 1_000) as process:
        try:
            list(lines_until(process, "shrink"))
            while not list(tmp_path.glob("fkv-*.json")):
                time.sleep(0.001)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    assert load_corpus(tmp_path)


@pytest.mark.slow
@pytest.mark.thorough
def test_ctrl_c_ends_with_130_and_the_summary(tmp_path: Path) -> None:
    with child(0, tmp_path, PAIR, 1_000_000) as process:
        list(lines_until(process, "search"))
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        rest = process.stdout.read()
    assert process.returncode == 130 and rest.startswith("finished interrupted")


@pytest.mark.slow
def test_ctrl_c_while_filing_keeps_what_is_filed(compiled: BulkEngine, tmp_path: Path) -> None:
    with child(3, tmp_path, "evict,offload,quant", 5_000) as process:
        list(lines_until(process, "now"))
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        rest = process.stdout.read()
    assert process.returncode == 130 and rest.startswith("finished interrupted 2")
    assert len(load_corpus(tmp_path)) == 2 and problems(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="int"),
        pytest.param(signal.SIGTERM, id="term", marks=pytest.mark.thorough),
    ],
)
def test_an_interrupt_ends_the_workers_and_keeps_what_is_filed(
    tmp_path: Path, number: signal.Signals
) -> None:
    with child(0, tmp_path, PAIR, 1_000_000, workers=2) as process:
        list(lines_until(process, "search"))
        while not list(tmp_path.glob("fkv-*.json")):
            time.sleep(0.01)
        process.send_signal(number)
        assert process.stdout is not None
        # The workers have this pipe too: it ends when the last of them has.
        rest = process.stdout.read()
    assert process.returncode == 130 and rest.startswith("finished interrupted")
    assert load_corpus(tmp_path) and problems(tmp_path) == []


@pytest.mark.slow
def test_the_search_ends_when_little_is_left_to_find(tmp_path: Path) -> None:
    names = ("tests.broken:CAREFUL_FREE", "tests.broken:IDLE_FREE")
    _, heard = small(tmp_path, *names, max_examples=20_000, stop_risk=0.01)
    (done,) = heard.of(ev.SearchDone)
    assert done.early and done.schedules < 20_000 and done.bound < 0.01
    assert done.covered == done.combinations > 100 and (done.workers, done.strength) == (1, 2)


def test_a_hit_counts_only_if_the_readers_agree(
    compiled: BulkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzzkv.simulator.bulk.engine.BulkEngine.agrees", lambda *_: False)
    names = ("tests.broken:CAREFUL_FREE", "tests.broken:TIDY_FREE")
    result, heard = small(tmp_path / "none", *names, max_examples=200)
    assert result.cases == () and heard.of(ev.ConflictFound) == [] and not (tmp_path / "none").exists()
    assert {warned.code for warned in heard.of(ev.WarningRaised)} >= {"FKV073"}
