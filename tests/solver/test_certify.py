"""Certificates: what they say, how a case keeps them, and that nothing is claimed that wasn't shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fuzzkv.cases.casebook import make_case
from fuzzkv.cases.corpus import (
    Case,
    covers,
    load_case,
    load_corpus,
    merge,
    problems,
    save_case,
    validate,
    write_index,
)
from fuzzkv.cli import app
from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.semantics.schedule import ACT, ARRIVE, FADE, OPS, QUEUE, STEP, TICK, Config, Event, Schedule
from fuzzkv.simulator.interpreters import text_digest
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver import certify as way
from fuzzkv.solver.asking import SolverQuestion
from fuzzkv.solver.certify import Certificate, Part, certify, filed, shortest_in, shown, shrunk, used, whole
from fuzzkv.strategies.covering_arrays import enabled
from fuzzkv.targets.model.recipe import Recipe, read_case
from tests.field import vllm_48412, vllm_53505
from tests.field.reports import REPORTS
from tests.samples import confirmation
from tests.solver.test_ordinary_python import Squeezes

POLICIES = vllm_48412.REPORT.policies
ALLOW = "tests.field.vllm_48412:OFFLOAD,tests.field.vllm_48412:QUANT"
TRACE = vllm_48412.REPORT.trace
LONGER = (TRACE[0], (STEP, 0, 0), TRACE[1], (TICK, 8, 0), TRACE[2])
SMALL = Config(device_frames=2, host_frames=1)
KINDS = {OPS[code] for code in enabled(POLICIES)}


def case_of(events: tuple[Event, ...] = TRACE, **changes: Any) -> Case:
    """The case of the report's class under these events, on a machine that is soon looked through."""
    names = tuple(policy.name for policy in POLICIES)
    found = make_case(Recipe(Schedule(names, events), POLICIES, SMALL), "I5", seed=1, schedules=2)
    assert found is not None
    return {**found, **changes}


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    """The certificate of the longer case."""
    return certify(case_of(LONGER), POLICIES, seconds=300)


@pytest.mark.slow
def test_a_longer_case_is_made_the_shortest_and_certified(certificate: Certificate) -> None:
    assert certificate.certified and certificate.spurious == 0 and len(certificate.events) == 3
    assert certificate.window == whole(Recipe(Schedule((), TRACE), POLICIES, SMALL))
    assert certificate.reason.startswith("no schedule of fewer than 3 events shows the class, and no smaller")
    old = case_of(LONGER, label="vllm#48412", title="ours", status="reported", confirmations=[confirmation()])
    new = filed(old, certificate, POLICIES)
    validate(new, "the certified case")
    assert new["id"] != old["id"] and len(new["schedule"]) == 3 and new["minimality"] == "certified"
    assert new["certificate"] == {
        "events": 3,
        "verdict": "certified",
        "reason": certificate.reason,
        "text": text_digest(POLICIES),
        "window": dict(vars(certificate.window)),
        "shortest_in": {
            "requests": 2,
            "pages": 8,
            "device": SMALL.device_frames,
            "idle_first": True,
            "kinds": sorted(KINDS, key=OPS.index),
        },
    }
    # What people wrote goes over; what an engine saw was another schedule.
    assert (new["label"], new["title"], new["status"]) == ("vllm#48412", "ours", "reported")
    assert new["confirmations"] == [] and new["replay"] == f"fuzzkv replay {new['id']}"
    assert filed(old, certificate, POLICIES) == new and "certificate" not in old


@pytest.mark.slow
def test_a_certificate_is_kept_with_what_others_added(certificate: Certificate, tmp_path: Path) -> None:
    seen = case_of(certificate.events, confirmations=[confirmation()], status="confirmed")
    save_case(seen, tmp_path)
    saved = save_case(filed(case_of(certificate.events), certificate, POLICIES), tmp_path).case
    assert saved["minimality"] == "certified" and saved["confirmations"] == [confirmation()]
    assert saved["status"] == "confirmed"
    # A hunt that finds it again knows of no certificate, and an attempt in less time takes none away.
    hasty = replace(certificate, certified=False, reason="no answer in time")
    for again in (case_of(certificate.events), filed(case_of(certificate.events), hasty, POLICIES)):
        kept = save_case(again, tmp_path).case
        assert kept["minimality"] == "certified" and kept["certificate"] == saved["certificate"]
    # About another text it says nothing.
    other = filed(case_of(certificate.events), replace(hasty, text="0" * 16), POLICIES)
    told = save_case(other, tmp_path).case
    assert told["minimality"] == "1-minimal" and told["certificate"]["verdict"] == "open"
    assert save_case(filed(seen, certificate, POLICIES), tmp_path).case["minimality"] == "certified"


def test_a_shorter_case_than_the_machine_sees_is_an_error() -> None:
    made_up = Certificate(
        TRACE[:2], True, "", whole(Recipe(Schedule((), TRACE), POLICIES, SMALL)), "", 0, 0.0
    )
    with pytest.raises(EnvironmentFailure, match="FKV073"):
        filed(case_of(), made_up, POLICIES)


@pytest.mark.slow
def test_a_machine_that_denies_the_solver_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way, "judge_of", lambda *_: lambda _: None)
    with pytest.raises(EnvironmentFailure, match="FKV073"):
        certify(case_of((TRACE[0], (STEP, 0, 0), *TRACE[1:])), POLICIES, seconds=300)


def test_without_an_answer_it_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(SolverQuestion, "answer", lambda self: None)
    found = certify(case_of(), POLICIES, seconds=300, tell=heard.append)
    assert not found.certified and found.events == TRACE
    assert found.reason == "no answer in time about fewer than 3 events in 1 x 1 pages"
    assert heard == ["2 events, 1 x 1 pages"]
    new = filed(case_of(), found, POLICIES)
    validate(new, "the open case")
    assert new["minimality"] == "1-minimal" and new["certificate"]["verdict"] == "open"
    late = certify(case_of(), POLICIES, seconds=0)
    assert not late.certified and "no answer in time" in late.reason


def test_a_smaller_set_that_is_not_shown_to_be_safe_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [False, False, False, False, None]
    monkeypatch.setattr(SolverQuestion, "__init__", lambda self, *args, **options: None)
    monkeypatch.setattr(SolverQuestion, "answer", lambda self: answers.pop(0))
    found = certify(case_of(), POLICIES, seconds=300)
    assert not found.certified and not answers
    assert found.reason == (
        "none of fewer events on the whole machine; no answer in time whether per-head-quant alone shows it in 3 events"
    )
    answers = [False, False, False, False, TRACE]
    found = certify(case_of(), POLICIES, seconds=300)
    assert not found.certified
    assert found.reason == "per-head-quant alone shows it in 3 events as well"


def test_ordinary_python_is_not_certified() -> None:
    policies = (Squeezes.as_policy(), POLICIES[1])
    names = tuple(policy.name for policy in policies)
    case = {**case_of(), "class": {**case_of()["class"], "policies": list(names)}}
    case["policies"] = [{"name": p.name, "version": p.version, "parameters": {}} for p in policies]
    case["schedule"] = Schedule(names, TRACE).as_json()
    found = certify(case, policies, seconds=300)
    assert not found.certified and found.reason == "a policy in ordinary Python can't be read by the solver"


def test_a_case_that_fails_no_more_is_not_shrunk() -> None:
    twins = vllm_48412.REPORT.twins
    case = case_of()
    case["policies"] = [{"name": p.name, "version": p.version, "parameters": {}} for p in twins]
    with pytest.raises(UsageError, match="FKV024"):
        shrunk(case, twins)


def test_a_window_holds_what_a_schedule_uses() -> None:
    def window(*events: Event) -> tuple[int, int]:
        found = used(Recipe(Schedule((), events), vllm_53505.REPORT.policies, Config()))
        return found.requests, found.pages

    assert window((ARRIVE, 0, 3), (STEP, 0, 1)) == (1, 3)
    assert window((ARRIVE, 1, 4), (FADE, 1, 0)) == (2, 4)
    # A session grows, and a queued one's output may run on.
    assert window((ARRIVE, 0, 2), *[(ACT, 0, 0)], (10, 0, 4), (10, 0, 4)) == (1, 4)
    assert window((QUEUE, 0, 2)) == (1, 4)
    assert window((QUEUE, 0, 8)) == (1, 8)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """``fuzzkv shrink`` in a folder of its own; the solver's own word is the fixture's."""

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(
            app, ["shrink", *arguments, "--corpus", str(tmp_path), "--policies", ALLOW, "--no-color"]
        )

    return call


@pytest.mark.slow
def test_shrink_files_the_shortest_beside_the_old_one(
    command: Callable[..., Result],
    certificate: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = save_case(case_of(LONGER), tmp_path)
    monkeypatch.setattr(way, "shrunk", lambda case, policies: dict(case))
    monkeypatch.setattr(way, "certify", lambda *_, **__: certificate)
    result = command(old.case["id"], "--certify")
    assert result.exit_code == 0, result.output
    new = filed(old.case, certificate, POLICIES)
    assert f"{new['id']}: 3 events, filed beside {old.case['id']} with its 5" in result.output
    assert "certified (" in result.output and "not certified" not in result.output
    assert load_case(tmp_path / f"{new['id']}.json") == new
    # The old one is what it was, and says which one is shorter.
    told = load_case(old.path)
    assert told["certificate"]["reason"] == f"{new['id']} shows the class in 3 events"
    assert told["certificate"]["verdict"] == "open" and told["certificate"]["events"] == 3
    assert {**told, "certificate": None} == {**old.case, "certificate": None} and problems(tmp_path) == []
    # Again, with an answer that comes too late.
    late = replace(certificate, certified=False, reason="no answer in time")
    monkeypatch.setattr(way, "certify", lambda *_, **__: late)
    result = command(new["id"], "--certify")
    assert (
        result.exit_code == 3 and "not certified (" in result.output and "no answer in time" in result.output
    )
    assert load_case(tmp_path / f"{new['id']}.json") == new


@pytest.mark.slow
def test_shrink_asks_the_solver(command: Callable[..., Result], tmp_path: Path) -> None:
    case = save_case(case_of(), tmp_path).case
    result = command(case["id"], "--certify", "--max-time", "5m")
    assert result.exit_code == 0, result.output
    assert f"{case['id']}: 3 events; none of our passes makes it shorter\ncertified (" in result.output
    assert load_case(tmp_path / f"{case['id']}.json")["minimality"] == "certified"


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), MemoryError()])
def test_an_interrupt_leaves_the_corpus_as_it_was(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    case = save_case(case_of(), tmp_path).case
    write_index(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def interrupted(self: SolverQuestion) -> None:
        raise fault

    monkeypatch.setattr(way, "shrunk", lambda case, policies: dict(case))
    monkeypatch.setattr(SolverQuestion, "answer", interrupted)
    result = command(case["id"], "--certify")
    assert result.exit_code != 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "code"), [(("fkv-000000000000",), "FKV016"), (("--max-time", "soon"), "FKV030")]
)
def test_what_shrink_is_told_is_checked(
    command: Callable[..., Result], tmp_path: Path, arguments: tuple[str, ...], code: str
) -> None:
    case = save_case(case_of(), tmp_path).case
    arguments = arguments if arguments[0].startswith("fkv") else (case["id"], "--certify", *arguments)
    result = command(*arguments)
    assert isinstance(result.exception, UsageError) and result.exception.code == code


def test_a_part_of_the_machine_covers_what_is_in_it() -> None:
    part = Part.of(Window(requests=1, pages=6, device=6), (ACT, ARRIVE, TICK), idle_first=False)
    assert part == Part(1, 6, 6, ("tick", "arrive", "act"), False)
    told = part.as_json()
    assert covers(told, told) and covers(told, {**told, "pages": 4, "kinds": ["arrive", "tick"]})
    more = ({"requests": 2}, {"pages": 7}, {"device": 7}, {"kinds": ["step"]}, {"idle_first": True})
    assert not any(covers(told, {**told, **other}) for other in more)
    assert covers({**told, "idle_first": True}, told) and not covers(None, told)


def test_what_was_shown_of_a_part_counts_for_its_text_and_length(tmp_path: Path) -> None:
    part, less = Part(1, 2, 2, ("tick", "arrive"), False), Part(1, 1, 1, ("arrive",), False)
    recipe = Recipe(Schedule(tuple(p.name for p in POLICIES), TRACE), POLICIES, SMALL)
    text = text_digest(POLICIES)
    case = shown(case_of(), recipe, part)
    validate(case, "the case")
    assert case["minimality"] == "1-minimal" and case["certificate"]["verdict"] == "open"
    words = "none of fewer than 3 events in 1 x 2 pages with 2 device frames (tick, arrive, none that begins with idle time)"
    assert words in case["certificate"]["reason"] and case["certificate"]["window"]["device"] == 2
    assert shortest_in(case, part, text) and shortest_in(case, less, text)
    assert not shortest_in(case, replace(part, requests=2), text)
    assert not shortest_in(case, part, "0123456789abcdef")
    assert not shortest_in({**case, "schedule": case["schedule"][:2]}, part, text)
    assert not shortest_in(case_of(), part, text)
    # It outlasts a later certificate that says less, and gives way to one that says all.
    save_case(case, tmp_path)
    told = {key: value for key, value in case["certificate"].items() if key != "shortest_in"}
    assert save_case({**case, "certificate": told}, tmp_path).case["certificate"] == case["certificate"]
    assert save_case(shown(case, recipe, less), tmp_path).case["certificate"] == case["certificate"]
    larger = shown(case, recipe, replace(part, pages=4))
    assert save_case(larger, tmp_path).case["certificate"] == larger["certificate"]
    # That a shorter one is known says more than any part.
    short = {**told, "events": 2, "reason": "fkv-000000000000 shows the class in 2 events"}
    assert save_case({**case, "certificate": short}, tmp_path / "other").new
    assert merge(larger, {**case, "certificate": short})["certificate"] == short
    assert merge({**case, "certificate": short}, larger)["certificate"] == short
    certified = {**told, "verdict": "certified"}
    saved = save_case({**case, "certificate": certified, "minimality": "certified"}, tmp_path).case
    assert (saved["certificate"], saved["minimality"]) == (certified, "certified")


@pytest.mark.slow
def test_kept_certificates_are_about_the_semantics_as_they_are() -> None:
    """A change of the semantics makes them void: certify the cases again then."""
    allowed = {policy.name: policy for report in REPORTS for policy in report.policies}
    told, digests = {}, dict[tuple[str, ...], str]()
    for case in load_corpus(Path(__file__).parents[2] / "corpus"):
        if "certificate" in case:
            policies = read_case(case, allowed=allowed).policies
            # Many cases are of the same policies, and a digest takes a third of a second; parameters aren't in it.
            names = tuple(policy.name for policy in policies)
            if names not in digests:
                digests[names] = text_digest(policies)
            told[str(case["id"])] = (case["certificate"]["text"], digests[names])
    assert len(told) >= 57 and {ident for ident, (kept, now) in told.items() if kept != now} == set()
