"""The hunt over engines, on a toy engine: it finds a planted interplay fault, blames the smallest set, shrinks it, files one
case, and is silent on the repaired twin.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuzzkv import events as ev
from fuzzkv.cases.corpus import load_case, load_corpus, problems, save_case
from fuzzkv.core.results import Failure
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.search.live.hunt import LiveHunt, LiveOptions, LiveResult
from fuzzkv.search.live.loop import LiveSearch
from fuzzkv.search.live.rows import SetRow
from fuzzkv.search.replaying import replay_on
from fuzzkv.targets.arms import judged
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import TIE, LiveHistory
from fuzzkv.targets.vllm.policies import resolve
from fuzzkv.targets.vllm.pool.engine_pool import EngineDied, EngineInstance
from fuzzkv.targets.vllm.schedule import LiveSchedule
from fuzzkv.targets.vllm.session import EngineSession
from fuzzkv.targets.vllm.target import EngineTarget
from tests.targets.vllm.toy import ToyLife

PAIR = ("vllm:offload-lru", "vllm:prefix-cache")
FOUR = (*PAIR, "vllm:preempt", "vllm:chunked-prefill")


def judge(policies: object, schedule: object, history: LiveHistory) -> tuple[Failure, ...]:
    return history.failures


def hunt(
    folder: Path,
    start: Callable[[EngineConfig], EngineInstance],
    names: tuple[str, ...] = (*PAIR, "vllm:preempt"),
    **options: Any,
) -> tuple[LiveResult, list[ev.Event]]:
    heard: list[ev.Event] = []
    given = {"max_examples": 40, "max_time": None, "alone": 12, "corpus": folder, **options}
    run = LiveHunt(LiveOptions(policies=resolve(names), **given), target(start), [heard.append])
    return run.run(), heard


def target(start: Callable[[EngineConfig], EngineInstance]) -> EngineTarget:
    return EngineTarget(start, judge, "toy 1")


def toy(**faults: bool) -> Callable[[EngineConfig], ToyLife]:
    return lambda config: ToyLife(config, **faults)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
def test_a_planted_fault_is_found_blamed_shrunk_and_filed_once(tmp_path: Path, seed: int) -> None:
    result, heard = hunt(tmp_path, toy(fault=True), FOUR, seed=seed, max_examples=120)
    assert result.exit_code == 1 and result.outcome == "conflict"
    (case,) = result.cases
    assert case["class"] == {"policies": list(PAIR), "invariant": "I4", "action": "foreign", "actor": ""}
    assert sum(event[0] in ("arrive", "fork") for event in case["schedule"]) == 2
    assert len(case["schedule"]) <= 6 and case["minimality"] == "1-minimal"
    assert load_corpus(tmp_path) == [case] and problems(tmp_path) == []
    assert [arm["verdict"] for arm in case["arms"]] == ["pass", "pass", "pass", "fail"]
    filed = [e for e in heard if isinstance(e, ev.CaseFiled)]
    assert len(filed) == 2, "at once as it is, then shrunk"
    again = replay_on(target(toy(fault=True)), case)
    assert again.fails and again.verdict == "fails" and "3 of 3 subsets pass" in again.detail
    mended = replay_on(target(toy()), case)
    assert mended.fails is False and "not shown any more" in mended.detail


@pytest.mark.slow
def test_the_clean_twin_is_silent(tmp_path: Path) -> None:
    result, heard = hunt(tmp_path, toy(), FOUR, max_examples=120)
    assert result.exit_code == 0 and result.outcome == "clean" and not result.cases
    assert list(tmp_path.iterdir()) == []
    report = result.report
    assert (report["pairs"], report["of_pairs"], report["triples"], report["of_triples"]) == (6, 6, 4, 4)
    assert all(row["all_acted"] > 0 and row["verdicts"] == {"clean": 120} for row in report["rows"])
    assert report["states"] > 10 and report["schedules"] == 1200 and report["engines"] >= 8
    json.dumps(report)
    assert isinstance(heard[0], ev.HuntStarted) and isinstance(heard[-1], ev.HuntFinished)


def test_a_life_that_dies_is_a_result(tmp_path: Path) -> None:
    result, _ = hunt(tmp_path, toy(deadly=True), PAIR, max_examples=240)
    (case,) = result.cases
    assert case["class"]["invariant"] == "I13" and case["class"]["action"] == "died"
    assert case["violation"]["text"] == "exit status -11" and case["exercised"] == {name: {} for name in PAIR}


def test_a_policy_that_fails_alone_is_said_and_left_out(tmp_path: Path) -> None:
    result, heard = hunt(tmp_path, toy(alone=True), (*PAIR, "vllm:preempt"), max_examples=10)
    assert result.exit_code == 0 and not result.cases
    alone = {row["policy"]: row for row in result.report["alone"]}
    assert alone[PAIR[0]]["standing"] == "fails" and alone[PAIR[0]]["reason"].startswith("I16 short")
    assert [event[0] for event in alone[PAIR[0]]["witness"]["events"]] == ["arrive", "step", "arrive"]
    assert alone["plain engine"]["standing"] == "passes"
    done = [e for e in heard if isinstance(e, ev.AcceptanceDone)]
    assert [e.passed for e in done] == [True, False, True, True]
    (step,) = [e for e in heard if isinstance(e, ev.ShrinkStep)]
    assert step.policies == PAIR[:1] and step.invariant == "I16" and step.after == 3 < step.before
    assert [row["policies"] for row in result.report["rows"]] == [["vllm:preempt", "vllm:prefix-cache"]]
    assert "vllm:offload-lru (fails)" in heard[-1].text  # type: ignore[attr-defined]


def test_the_plain_engine_runs_a_few_schedules_alone(tmp_path: Path) -> None:
    result, _ = hunt(tmp_path, toy(), PAIR, max_examples=1, alone=60)
    assert [row["schedules"] for row in result.report["alone"]] == [12, 60, 60]


def test_a_tier_that_never_serves_is_said_and_takes_part(tmp_path: Path) -> None:
    for inert in (True, False):
        result, heard = hunt(tmp_path, toy(inert=inert), PAIR, max_examples=10)
        told = [e for e in heard if isinstance(e, ev.WarningRaised) and e.code == "FKV104"]
        assert [PAIR[0] in e.text for e in told] == [True] * inert
        alone = {row["policy"]: row for row in result.report["alone"]}[PAIR[0]]
        assert alone["standing"] == "passes" and alone["reason"].startswith("I15 inert") == inert
        assert result.exit_code == 0 and result.report["rows"][0]["schedules"] == 10


def test_too_few_are_left(tmp_path: Path) -> None:
    result, _ = hunt(tmp_path, toy(alone=True), PAIR, max_examples=5)
    assert result.exit_code == 3 and result.outcome == "failed"


class Refusing(ToyLife):
    def __init__(self, config: EngineConfig) -> None:
        if config.prefix_cache:
            raise EnvironmentFailure(code="FKV103", value="x", reason="not on this build", cure="None.")
        super().__init__(config)


def test_what_this_build_refuses_is_said(tmp_path: Path) -> None:
    result, heard = hunt(tmp_path, Refusing, (*PAIR, "vllm:preempt"), max_examples=12)
    (warning,) = [e for e in heard if isinstance(e, ev.WarningRaised)]
    assert warning.text == "vllm:prefix-cache is left out (unsupported): not on this build"
    alone = {row["policy"]: (row["standing"], row["reason"]) for row in result.report["alone"]}
    assert alone["vllm:prefix-cache"] == ("unsupported", "not on this build")
    assert len(result.report["rows"]) == 1 and result.exit_code == 0


class RefusingPairs(ToyLife):
    def __init__(self, config: EngineConfig) -> None:
        if config.prefix_cache and config.tier:
            raise EnvironmentFailure(code="FKV103", value="x", reason="not together", cure="None.")
        super().__init__(config)


def test_a_set_that_this_build_refuses_does_not_end_the_hunt(tmp_path: Path) -> None:
    result, heard = hunt(tmp_path, RefusingPairs, max_examples=5)
    notes = [row["note"] for row in result.report["rows"]]
    assert sorted(notes) == ["", "", "not supported by this build: not together"]
    (warning,) = [e for e in heard if isinstance(e, ev.WarningRaised)]
    assert warning.text == f"this build refuses {' + '.join(PAIR)}: not together"
    report = result.report
    assert report["refused"] == [list(PAIR)] and (report["pairs"], report["of_pairs"]) == (2, 2)
    assert (report["triples"], report["of_triples"]) == (0, 0)


def test_of_a_large_set_the_refused_part_is_found(tmp_path: Path) -> None:
    names = (*FOUR, "vllm:lora", "vllm:ngram", "vllm:offload-outputs")
    # So little time that the sets are large ones.
    result, _ = hunt(tmp_path, RefusingPairs, names, max_examples=1, alone=1, max_time=60.0)
    refused = result.report["refused"]
    assert {tuple(part) for part in refused} == {PAIR, ("vllm:offload-outputs", "vllm:prefix-cache")}
    assert result.report["pairs"] == result.report["of_pairs"] > 10


class Broken(ToyLife):
    def run(self, schedule: LiveSchedule) -> LiveHistory:
        raise EngineDied("hung", "no answer in 60 s")


def test_a_plain_engine_that_fails_ends_it(tmp_path: Path) -> None:
    result, _ = hunt(tmp_path, Broken)
    assert result.exit_code == 3 and result.report["alone"][0]["standing"] == "control-fails"
    assert len(result.report["alone"]) == 1


class Moody(ToyLife):
    """Fails once in an engine, the first time both are on."""

    failed = False

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        history = super().run(schedule)
        if (
            self.config.tier
            and self.config.prefix_cache
            and not Moody.failed
            and history.counters.get("stores")
        ):
            Moody.failed = True
            return LiveHistory(counters=history.counters, log=history.log, failures=(Failure("I3", "token"),))
        return history


def test_what_a_fresh_engine_does_not_repeat_is_no_case(tmp_path: Path) -> None:
    Moody.failed = False
    result, _ = hunt(tmp_path, Moody, PAIR)
    assert not result.cases and result.report["rows"][0]["verdicts"]["not-repeated"] == 1


class Idle(ToyLife):
    """Fails where both are on, though no load and no store is counted."""

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        history = super().run(schedule)
        if self.config.tier and self.config.prefix_cache:
            return LiveHistory(counters={"hits": 1}, failures=(Failure("I3", "token"),))
        return history


def test_what_no_counter_shows_is_not_exercised(tmp_path: Path) -> None:
    result, _ = hunt(tmp_path, Idle, PAIR)
    words = result.report["rows"][0]["verdicts"]
    assert not result.cases and words == {"not-exercised": 2, "as before": 38}
    assert result.outcome == "vacuous" and result.exit_code == 3


class Tied(ToyLife):
    def run(self, schedule: LiveSchedule) -> LiveHistory:
        history = super().run(schedule)
        tie = Failure("I5", TIE)
        return LiveHistory(counters=history.counters, log=history.log, failures=(tie,), steps=history.steps)


def test_ties_are_counted_and_no_failures(tmp_path: Path) -> None:
    result, _ = hunt(tmp_path, Tied, PAIR, max_examples=5)
    assert result.exit_code == 0 and result.report["rows"][0]["verdicts"] == {"numeric-tie": 5}


def test_same_seed_same_schedules_whatever_the_other_sets_had(tmp_path: Path) -> None:
    def drawn(names: tuple[str, ...], seed: int) -> list[LiveSchedule]:
        ran: list[tuple[EngineConfig, LiveSchedule]] = []

        class Noting(ToyLife):
            def run(self, schedule: LiveSchedule) -> LiveHistory:
                ran.append((self.config, schedule))
                return super().run(schedule)

        hunt(tmp_path, Noting, names, seed=seed, max_examples=15)
        return [s for config, s in ran if config.tier and config.prefix_cache and not config.chunked]

    pair = drawn(PAIR, 5)
    assert pair == drawn(PAIR, 5) != drawn(PAIR, 6)
    assert pair == drawn((*PAIR, "vllm:chunked-prefill"), 5)


def test_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    class Stopping(ToyLife):
        runs = 0

        def run(self, schedule: LiveSchedule) -> LiveHistory:
            # While the first conflict is shrunk.
            if list(tmp_path.glob("fkv-*.json")):
                Stopping.runs += 1
                if Stopping.runs > 5:
                    raise KeyboardInterrupt
            return super().run(schedule)

    result, heard = hunt(tmp_path, lambda config: Stopping(config, fault=True), PAIR, max_examples=240)
    assert result.exit_code == 130 and result.outcome == "interrupted"
    (case,) = load_corpus(tmp_path)
    assert case["minimality"] == "not-minimal" and problems(tmp_path) == []
    assert heard[-1].outcome == "interrupted"  # type: ignore[attr-defined]


def test_time_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 100)
    for module in ("hunt", "loop", "admission"):
        monkeypatch.setattr(f"fuzzkv.search.live.{module}.time", clock)
    result, _ = hunt(tmp_path, toy(), max_examples=None, max_time=5.0, alone=1000)
    assert result.outcome == "clean" and next(ticks) < 600
    assert [len(row["policies"]) for row in result.report["rows"]] == [3], "so little time is one set of all"
    assert all(row["schedules"] < 200 for row in result.report["alone"])


def test_what_is_left_when_the_time_is_over_is_one_more_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(self: LiveSearch, row: SetRow, until: float) -> None:
        row.schedules = 1
        self.left = lambda: 0.0

    monkeypatch.setattr(LiveSearch, "_look_at", look)
    result, _ = hunt(tmp_path, toy(), max_examples=None, max_time=600.0, alone=1)
    first, last = (len(row["policies"]) for row in result.report["rows"])
    assert first == 2 and last == 3, (
        "pairs one by one while there was time, then one set of all that was left"
    )
    assert result.report["pairs"] == result.report["of_pairs"] > 1


def test_few_engines_are_open_at_once(tmp_path: Path) -> None:
    made: list[ToyLife] = []

    def start(config: EngineConfig) -> ToyLife:
        made.append(ToyLife(config))
        return made[-1]

    instances = EngineSession(start, EngineConfig(), judge, keep=2)
    for names in ([], PAIR[:1], PAIR[1:], PAIR[1:]):
        instances.run(resolve(names) if names else (), LiveSchedule())
    assert [instance.closed for instance in made] == [True, False, False] and instances.runs == 4
    instances.run(resolve(PAIR[1:]), LiveSchedule(), fresh=True)
    assert len(made) == 4 and made[2].closed
    instances.close()
    assert all(instance.closed for instance in made)


def test_a_large_set_is_reduced_before_its_subsets_run() -> None:
    def start(config: EngineConfig) -> ToyLife:
        return ToyLife(config, fault=True)

    names = [*FOUR, "vllm:lora", "vllm:ngram"]
    schedule = LiveSchedule(
        48,
        256,
        (("hold", 1, 0, 0), ("arrive", 0, 4, 2), ("step", 1, 0, 0), ("abort", 0, 0, 0), ("arrive", 0, 0, 1)),
    )
    session = EngineSession(start, EngineConfig(), judge, keep=2)
    verdict = judged(session, session.run(resolve(names), schedule), schedule)
    assert verdict.word == "conflict" and verdict.whole.names == PAIR
    assert len(verdict.arms) == 4 and not any(arm.failed for arm in verdict.arms[:-1])
    assert session.runs < 2 ** len(names)


def test_a_case_is_as_it_was_filed(tmp_path: Path) -> None:
    result, _ = hunt(tmp_path, toy(fault=True), PAIR, max_examples=240)
    path = tmp_path / f"{result.cases[0]['id']}.json"
    assert load_case(path) == result.cases[0]


def test_what_is_no_use_alone_is_left_out(tmp_path: Path) -> None:
    options = LiveOptions(policies=resolve(PAIR), max_examples=3, max_time=None, alone=3, corpus=tmp_path)
    useless = replace(target(toy()), unsound_by=lambda policies: "garbage" if len(policies) else "")
    result = LiveHunt(options, useless).run()
    assert [row["reason"] for row in result.report["alone"]] == ["", "garbage", "garbage"]
    assert result.exit_code == 3


class Rarely(ToyLife):
    """The tier fails alone where the cache is reset twice in a row; with the prefix cache it fails otherwise too."""

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        history = super().run(schedule)
        ops = [event[0] for event in schedule.events]
        found = ()
        if self.config.tier and "reset reset" in " ".join(ops):
            found = (Failure("I13", "died", text=f"assertion of line {len(ops)}"),)
        elif self.config.tier and self.config.prefix_cache and "abort" in ops and "fork" in ops:
            found = (Failure("I3", "stale", text="x"),)
        return replace(history, failures=found)


def test_what_fails_alone_now_and_then_takes_part(tmp_path: Path) -> None:
    result, heard = hunt(tmp_path, Rarely, PAIR, alone=60)
    alone = {row["policy"]: row for row in result.report["alone"]}[PAIR[0]]
    assert alone["standing"] == "sometimes" and 1 <= alone["failing"] < 15
    assert [event[0] for event in alone["witness"]["events"]].count("reset") == 2
    (case,) = result.cases
    assert case["class"]["invariant"] == "I3" and case["class"]["policies"] == list(PAIR)
    assert "some schedules" in heard[-1].text  # type: ignore[attr-defined]


def test_what_fails_alone_in_the_search_first_is_said(tmp_path: Path) -> None:
    result, heard = hunt(tmp_path, Rarely, PAIR, alone=1, max_examples=80)
    assert any(isinstance(e, ev.WarningRaised) and e.code == "FKV102" for e in heard)
    (row,) = result.report["rows"]
    assert row["verdicts"]["single-policy"] == 1 and row["verdicts"]["conflict"] == 1


class Shifted(ToyLife):
    """The tier fails at its fifth step event, with the prefix cache at its fourth: only its time is another."""

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        history = super().run(schedule)
        steps = sum(event[0] == "step" for event in schedule.events)
        late = 4 if self.config.prefix_cache else 5
        if self.config.tier and history.counters.get("stores") and steps == late:
            return replace(history, failures=(Failure("I13", "died", text=f"step {steps}"),))
        return history


def test_what_fewer_show_at_another_time_is_no_conflict(tmp_path: Path) -> None:
    result, heard = hunt(tmp_path, Shifted, PAIR, alone=1, max_examples=60)
    (row,) = result.report["rows"]
    assert row["verdicts"]["conflict"] == row["verdicts"]["then single-policy"] == 1
    assert not result.cases and not list(tmp_path.glob("fkv-*.json")) and result.exit_code == 0
    assert any(isinstance(e, ev.WarningRaised) and e.code == "FKV102" for e in heard)
    filed = {e.case_id for e in heard if isinstance(e, ev.CaseFiled)}
    assert filed and filed == {e.case_id for e in heard if isinstance(e, ev.CaseWithdrawn)}


def test_what_was_in_the_corpus_before_is_not_taken_away(tmp_path: Path) -> None:
    _, heard = hunt(tmp_path, Shifted, PAIR, alone=1, max_examples=60)
    quick = next(e.case for e in heard if isinstance(e, ev.CaseFiled))
    path = save_case(dict(quick), tmp_path).path
    hunt(tmp_path, Shifted, PAIR, alone=1, max_examples=60)
    assert path.exists()
