"""The gate on small budgets: alone, through the corpus, beside the others; what is told, filed and returned."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fuzzkv import events as ev
from fuzzkv.cases.corpus import case_id, load_case, load_corpus, problems, save_case
from fuzzkv.cases.filing import Filing
from fuzzkv.cases.shrink import Shrinker
from fuzzkv.errors import UsageError
from fuzzkv.explain.explanation import explain
from fuzzkv.gate.checks import one_line
from fuzzkv.gate.lineup import GateOptions, choose
from fuzzkv.gate.run import GateResult, gate
from fuzzkv.search.confirming import replay_case
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk.engine import BulkEngine
from tests import gated

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own shrinking passes only, without leaps, and a short look at the candidate alone."""
    monkeypatch.setattr(Shrinker, "_leap", lambda self, best: best)
    monkeypatch.setattr(Shrinker, "_hypothesis", lambda self, best: best)
    monkeypatch.setattr("fuzzkv.gate.checks.ALONE", 4_000)


class Heard(list[Any]):
    """A listener that keeps what it is told."""

    def __call__(self, event: ev.Event) -> None:
        self.append(event)


def run(folder: Path, candidate: str, *against: str, **options: Any) -> tuple[GateResult, Heard]:
    heard = Heard()
    others = tuple(f"tests.gated:{name}" for name in against) or ("tests.gated:CAREFUL",)
    given = {"max_examples": 50, "corpus": None, "report_dir": folder, **options}
    return gate(GateOptions(candidate=f"tests.gated:{candidate}", against=others, **given), [heard]), heard


def row(report: dict[str, Any], check: str, *policies: str) -> dict[str, Any]:
    (found,) = (r for r in report["checks"] if r["check"] == check and r["policies"] == list(policies))
    return found


@pytest.fixture(scope="module")
def tidy(tmp_path_factory: pytest.TempPathFactory) -> tuple[GateResult, Heard, Path]:
    """`tidy` against `careful`, once for all: the result, what was told, and the folder of the case."""
    folder = tmp_path_factory.mktemp("gate") / "cases"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shrinker, "_leap", lambda self, best: best)
        patch.setattr(Shrinker, "_hypothesis", lambda self, best: best)
        patch.setattr("fuzzkv.gate.checks.ALONE", 4_000)
        return (*run(folder, "TIDY"), folder)


@pytest.mark.slow
def test_a_conflict_is_shrunk_filed_and_told(tidy: tuple[GateResult, Heard, Path]) -> None:
    result, heard, folder = tidy
    report = result.report
    assert (result.exit_code, report["outcome"]) == (1, "conflict")
    assert row(report, "alone", "tidy")["verdict"] == "accepted"
    assert row(report, "hunt", "careful", "tidy")["verdict"] == "conflict"
    assert row(report, "corpus", "tidy")["verdict"] == "not applicable"
    failure = report["failures"][0]
    assert (failure["invariant"], failure["clause"]) == ("I1", "authority")
    case = load_case(failure["path"])
    assert case["id"] == failure["case_id"] and len(case["schedule"]) == failure["events"] <= 7
    assert problems(folder) == []
    flags = "--policies tests.gated:TIDY,tests.gated:CAREFUL"
    assert failure["explain"] == f"fuzzkv explain {failure['path']} {flags}"
    # The printed commands' work: the case fails again, and can be explained.
    policies = (gated.TIDY, gated.CAREFUL)
    assert replay_case(case, "model", policies=policies).fails is True
    assert "break I1 (authority) together" in explain(case, policies)
    assert isinstance(heard[0], ev.GateStarted) and isinstance(heard[-1], ev.GateFinished)
    assert heard[-1].report is report and heard[-1].exit_code == 1


@pytest.mark.slow
def test_the_repaired_twin_is_let_in_and_nothing_is_written(tmp_path: Path) -> None:
    result, _ = run(tmp_path / "none", "REPAIRED", max_examples=300)
    assert (result.exit_code, result.report["outcome"]) == (0, "clean")
    assert row(result.report, "hunt", "careful", "repaired")["verdict"] == "none found"
    assert result.report["failures"] == [] and not (tmp_path / "none").exists()


@pytest.mark.slow
def test_same_seed_same_report(tidy: tuple[GateResult, Heard, Path], tmp_path: Path) -> None:
    one, other = tidy[0].report, run(tmp_path, "TIDY")[0].report
    assert [f["case_id"] for f in one["failures"]] == [f["case_id"] for f in other["failures"]]
    assert [(r["verdict"], r["text"]) for r in one["checks"]] == [
        (r["verdict"], r["text"]) for r in other["checks"]
    ]


@pytest.mark.slow
def test_one_that_fails_alone_is_not_tried_beside_others(tmp_path: Path) -> None:
    result, heard = run(tmp_path, "HASTY")
    report = result.report
    assert (result.exit_code, report["outcome"]) == (1, "single-policy")
    assert [r["verdict"] for r in report["checks"]] == ["single-policy", "not run", "not run"]
    failure = report["failures"][0]
    assert failure["policies"] == ["hasty"] and failure["title"] == "hasty alone breaks authority"
    case = load_case(failure["path"])
    assert replay_case(case, "model", policies=(gated.HASTY,)).fails is True
    assert "hasty breaks I1 (authority) alone" in explain(case, (gated.HASTY,))
    (done,) = (event for event in heard if isinstance(event, ev.AcceptanceDone))
    assert not done.passed and " alone in " in done.reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("RAISES", r"its rule fails: ValueError: no <page>\x1b[31m here"),
        ("UNDECLARED", "does what its manifest doesn't declare: begin_store, drop_host"),
    ],
)
def test_a_fault_of_the_rule_or_the_manifest_is_a_failure_without_a_case(
    tmp_path: Path, name: str, reason: str
) -> None:
    result, _ = run(tmp_path / "none", name)
    (failure,) = result.report["failures"]
    assert result.exit_code == 1 and failure["title"] == reason and failure["invariant"] == ""
    assert result.report["checks"][0]["text"] == reason and not (tmp_path / "none").exists()


def test_one_that_never_acts_shows_nothing(tmp_path: Path) -> None:
    result, _ = run(tmp_path, "IDLE")
    assert (result.exit_code, result.report["outcome"]) == (3, "vacuous")
    assert [r["verdict"] for r in result.report["checks"]] == ["vacuous", "not applicable", "vacuous"]


def test_its_own_kind_makes_room_and_is_named(tmp_path: Path) -> None:
    result, _ = run(tmp_path, "REPAIRED", "CAREFUL", "TIDY")
    assert result.report["against"] == ["careful"] and result.report["replaced"] == ["tidy"]
    assert "repaired stands in the place of tidy (kind tidy)" in result.report["notes"][0]


@pytest.mark.slow
def test_a_conflict_of_the_others_is_not_the_candidates_fault(tmp_path: Path) -> None:
    result, _ = run(tmp_path, "IDLE", "CAREFUL", "TIDY", max_examples=150)
    report = result.report
    assert report["failures"] == [] and report["outcome"] == "vacuous"
    assert "Not counted, as it fails without idle too: careful + tidy." in report["notes"]


@pytest.mark.slow
def test_the_corpus_is_replayed_with_the_candidate_in_the_place_of_its_kind(
    tidy: tuple[GateResult, Heard, Path], tmp_path: Path
) -> None:
    corpus = tidy[2]
    (case,) = load_corpus(corpus)
    before = sorted(path.read_bytes() for path in corpus.iterdir())
    options = {"corpus": corpus, "max_examples": 1, "seed": 5}
    result, _ = run(tmp_path / "cases", "OTHER_TIDY", "CAREFUL", "TIDY", **options)
    found = row(result.report, "corpus", "careful", "other-tidy")
    assert (found["verdict"], found["replayed"], found["failing"]) == ("conflict", 1, 1)
    (failure,) = (f for f in result.report["failures"] if f["corpus"])
    assert failure["corpus"] == [case["id"]] and failure["policies"] == ["careful", "other-tidy"]
    assert f"Corpus {corpus}: 1 replayed, 1 still failing, 0 not applicable." in result.report["notes"]
    assert sorted(path.read_bytes() for path in corpus.iterdir()) == before
    # The twin doesn't show it, and one of another kind has no place in it.
    twin, _ = run(tmp_path / "none", "REPAIRED", "CAREFUL", "TIDY", **options)
    found = row(twin.report, "corpus", "careful", "repaired")
    assert (found["verdict"], found["replayed"], found["failing"]) == ("not-reproduced", 1, 0)
    other, _ = run(tmp_path / "none", "IDLE", **options)
    assert row(other.report, "corpus", "idle")["text"] == "none of 1 cases"


@pytest.mark.slow
def test_a_case_with_others_than_those_named_is_not_applicable(
    tidy: tuple[GateResult, Heard, Path], tmp_path: Path
) -> None:
    result, _ = run(tmp_path / "cases", "OTHER_TIDY", "IDLE", "TIDY", corpus=tidy[2])
    assert row(result.report, "corpus", "other-tidy")["verdict"] == "not applicable"


def test_a_broken_file_of_the_corpus_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "fkv-000000000000.json").write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match="FKV012"):
        run(tmp_path / "cases", "TIDY", corpus=tmp_path)


@pytest.mark.slow
def test_a_case_that_the_machine_does_not_hold_is_named(
    tidy: tuple[GateResult, Heard, Path], tmp_path: Path
) -> None:
    (case,) = load_corpus(tidy[2])
    other = {**case, "config": {**case["config"], "device_frames": 9_999}}
    other["id"] = case_id(other)
    save_case(other, tmp_path / "odd")
    result, _ = run(tmp_path / "cases", "OTHER_TIDY", "CAREFUL", "TIDY", corpus=tmp_path / "odd")
    assert any(other["id"] in note and "device_frames" in note for note in result.report["notes"])


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Filing, *given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Filing, "settle", stop)
    result, heard = run(tmp_path, "TIDY")
    assert (result.exit_code, result.report["outcome"]) == (130, "interrupted")
    failures = result.report["failures"]
    assert failures and {f["case_id"] for f in failures} == {case["id"] for case in load_corpus(tmp_path)}
    assert problems(tmp_path) == [] and isinstance(heard[-1], ev.GateFinished)


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_loses_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result, heard = run(tmp_path / "file" / "cases", "TIDY")
    failure = result.report["failures"][0]
    assert result.exit_code == 1 and failure["path"] == failure["explain"] == "" and failure["case_id"]
    assert any(isinstance(event, ev.WarningRaised) and "is not filed" in event.text for event in heard)


def test_the_time_bounds_the_search(tmp_path: Path) -> None:
    result, _ = run(tmp_path, "REPAIRED", max_examples=10_000, max_time=1e-9)
    assert row(result.report, "hunt", "careful", "repaired")["schedules"] == 2_500
    assert "Time was up after 2,500 of 10,000 schedules." in result.report["notes"]


@pytest.mark.parametrize(
    ("candidate", "against", "words"),
    [
        ("ofload", ("quant",), r"FKV001: 'ofload': .* Did you mean 'offload'"),
        ("evict", ("quant", "evict"), "FKV002: 'evict': is both the candidate and among --against"),
        ("tests.gated:MY_EVICT", ("evict",), r"FKV007: --against evict: are all of .* own kind \(evict\)"),
        ("tests.gated:IDLE", ("quant", "evict", "offload", "tests.gated:TIDY"), "FKV007: .* are 4 policies"),
        ("evict", ("tests.gated:RAISES",), "FKV007: 'raises': its rule fails: ValueError"),
        ("tests.broken:NO_POLICY", ("quant",), "FKV004"),
    ],
)
def test_wrong_sides_are_told_before_anything_starts(
    candidate: str, against: tuple[str, ...], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        choose(GateOptions(candidate=candidate, against=against))


@pytest.mark.slow
def test_the_default_policies_make_room_for_one_of_them() -> None:
    sides = choose(GateOptions(candidate="evict"))
    assert [policy.name for policy in sides.others] == ["offload", "quant"] and sides.replaced == ()


def test_a_text_is_made_one_line() -> None:
    assert one_line("a\n\tb \x00\u202e") == r"a b \x00\u202e"


@pytest.mark.slow
def test_a_default_policy_under_another_name_breaks_what_it_breaks(
    compiled: BulkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reuse(policies: Sequence[Policy], config: Config) -> BulkEngine:
        # The rules, slot by slot, are those that are compiled already.
        other = copy.copy(compiled)
        other.policies, other.config = tuple(policies), config
        other.names = tuple(policy.name for policy in policies)
        return other.again(seed=0)

    monkeypatch.setattr("fuzzkv.gate.checks.BulkEngine", reuse)
    options = GateOptions(
        candidate="tests.gated:MY_EVICT", max_examples=30_000, corpus=ROOT / "corpus", report_dir=tmp_path
    )
    result = gate(options)
    report = result.report
    assert result.exit_code == 1 and report["replaced"] == ["evict"]
    replayed = [r for r in report["checks"] if r["check"] == "corpus"]
    cases = load_corpus(ROOT / "corpus")
    with_evict = [case["id"] for case in cases if "evict" in case["class"]["policies"]]
    assert sum(r["replayed"] for r in replayed) == sum(r["failing"] for r in replayed) == len(with_evict)
    shown = {ident for failure in report["failures"] for ident in failure["corpus"]}
    assert shown == set(with_evict)
    assert all("my-evict" in failure["policies"] and failure["clause"] for failure in report["failures"])
    assert {"evict", "offload", "quant"} & {p for f in report["failures"] for p in f["policies"]} == {
        "offload",
        "quant",
    }
