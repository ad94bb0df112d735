"""``fuzzkv verify``: what it finds, what it believes of the corpus, and what it says and exits with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fuzzkv.cases.casebook import make_case
from fuzzkv.cases.corpus import Case, save_case
from fuzzkv.cli import app
from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, ARRIVE, FAIL, FINISH, LATE, STEP, Config, Event, Schedule
from fuzzkv.simulator.interpreters import text_digest
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver import seeds
from fuzzkv.solver import verify as way
from fuzzkv.solver.ascent import Ascent, Climb
from fuzzkv.solver.asking import SolverQuestion
from fuzzkv.solver.verify import Refuted, SetVerdict, Verification, Verified
from fuzzkv.targets.model.recipe import Recipe
from tests.field import vllm_48412
from tests.solver.test_ordinary_python import Squeezes
from tests.solver.tiny import PROMISES, SHRINKS, STORES

POLICIES, TWINS = vllm_48412.REPORT.policies, vllm_48412.REPORT.twins
NAMES = tuple(policy.name for policy in POLICIES)
TRACE = vllm_48412.REPORT.trace
LAYOUT = ("I5", "per-head-quant", "write_scale")
SMALL = Config(device_frames=3, host_frames=2)
WINDOW = Window(requests=1, pages=1, device=3, host=2)
PART = {
    "requests": 1,
    "pages": 1,
    "device": 1,
    "kinds": ["tick", "arrive", "step", "act", "fade"],
    "idle_first": False,
}


def verification(policies: tuple[Policy, ...] = POLICIES, **options: Any) -> Verification:
    return Verification(policies, SMALL, WINDOW, **options)


@pytest.fixture
def shallow(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Bound the depth, so that nothing here depends on time."""

    def bound(depth: int) -> None:
        class Bounded(Ascent):
            def __init__(self, *given: Any, **named: Any) -> None:
                super().__init__(*given, **{**named, "workers": 1})

            def run(self, seconds: float, deepest: int = 64) -> None:
                super().run(seconds, min(depth, deepest))

        monkeypatch.setattr(way, "Ascent", Bounded)
        monkeypatch.setattr(seeds, "SCHEDULES", 20_000)

    return bound


def case_of(events: tuple[Event, ...] = TRACE, config: Config = SMALL, **changes: Any) -> Case:
    case = make_case(Recipe(Schedule(NAMES, events), POLICIES, config), "I5", seed=1, schedules=2)
    assert case is not None
    return {**case, **changes}


def certificate_of(events: int, *, text: str = "", verdict: str = "certified", **more: Any) -> dict[str, Any]:
    return {
        **more,
        "events": events,
        "verdict": verdict,
        "reason": "a test",
        "text": text or text_digest(POLICIES),
        "window": dict(vars(WINDOW)),
    }


@pytest.mark.slow
def test_every_set_is_searched_and_the_shortest_found(shallow: Callable[[int], None]) -> None:
    shallow(4)
    heard: list[Climb] = []
    result = verification(climbed=heard.append).run(300)
    assert [(each.policies, each.verdict, each.depth, each.ending) for each in result.sets] == [
        (NAMES[:1], "bounded(4)", 4, "depth"),
        (NAMES[1:], "bounded(4)", 4, "depth"),
        (NAMES, "refuted", 4, "depth"),
    ]
    [found] = result.conflicts
    assert (found.target, found.shortest, found.case) == (LAYOUT, "proved", "")
    assert sorted(found.events) == sorted(TRACE) and result.exit_code == 1
    assert max(climb.depth for climb in heard) == 4


@pytest.mark.slow
def test_who_breaks_something_alone_is_refuted_alone(shallow: Callable[[int], None]) -> None:
    shallow(4)
    result = verification((PROMISES, SHRINKS, STORES)).run(300)
    assert {each.policies: [(f.target[0], len(f.events)) for f in each.refuted] for each in result.sets} == {
        ("promises",): [],
        ("shrinks",): [],
        ("stores",): [],
        ("promises", "shrinks"): [("I1", 3), ("I12", 3)],
        ("promises", "stores"): [],
        ("shrinks", "stores"): [("I4", 4)],
        ("promises", "shrinks", "stores"): [],
    }


@pytest.mark.slow
def test_a_repaired_set_is_bounded(shallow: Callable[[int], None]) -> None:
    shallow(3)
    result = verification(TWINS).run(300)
    assert {each.verdict for each in result.sets} == {"bounded(3)"}
    assert result.exit_code == 3 and not result.conflicts


@pytest.mark.slow
def test_what_the_corpus_has_is_run_and_not_looked_for(
    shallow: Callable[[int], None], tmp_path: Path
) -> None:
    shallow(3)
    case = save_case(case_of(certificate=certificate_of(3), minimality="certified"), tmp_path).case
    longer = (TRACE[0], (STEP, 0, 0), *TRACE[1:])
    save_case(case_of(longer), tmp_path)
    save_case(case_of(config=replace(SMALL, host_frames=1)), tmp_path)
    result = verification().run(300, tmp_path)
    assert result.conflicts == [Refuted(NAMES, LAYOUT, TRACE, "certified", case["id"])]
    assert result.sets[-1].depth == 3 and result.exit_code == 1


@pytest.mark.slow
def test_a_short_search_gives_the_classes_and_the_solver_their_lengths(
    shallow: Callable[[int], None], tmp_path: Path
) -> None:
    shallow(2)
    said: list[str] = []
    policies = (PROMISES, SHRINKS, STORES)
    ours = verification(policies, tell=said.append)
    assert not ours.run(300).conflicts
    result = ours.run(300, seeded=True)
    assert {(f.policies, f.target[0], len(f.events), f.shortest) for f in result.conflicts} == {
        (("promises", "shrinks"), "I1", 3, "proved"),
        (("promises", "shrinks"), "I12", 3, "proved"),
        (("shrinks", "stores"), "I4", 4, "proved"),
    }
    assert "shrinks + stores: I4, none shorter than 4 events" in said


@pytest.mark.slow
def test_a_longer_case_than_the_search_finds_gives_way(
    shallow: Callable[[int], None], tmp_path: Path
) -> None:
    shallow(1)
    longer = (TRACE[0], (STEP, 0, 0), *TRACE[1:])
    ident = save_case(case_of(longer), tmp_path).case["id"]
    [kept] = verification().run(300, tmp_path).conflicts
    assert (len(kept.events), kept.shortest, kept.case) == (4, "known", ident)
    [found] = verification().run(300, tmp_path, seeded=True).conflicts
    assert (len(found.events), found.shortest, found.case) == (3, "proved", "")


@pytest.mark.parametrize(
    ("certificate", "standing"),
    [
        (None, "known"),
        (certificate_of(3), "certified"),
        (certificate_of(3, verdict="open"), "known"),
        (certificate_of(3, text="0123456789abcdef"), "known"),
        (certificate_of(3, verdict="open", shortest_in=PART), "kept"),
        (certificate_of(3, verdict="open", shortest_in={**PART, "kinds": ["tick"]}), "known"),
        (certificate_of(4, verdict="open", shortest_in=PART), "known"),
    ],
    ids=["none", "certified", "open", "stale", "in the window", "without acts", "another length"],
)
def test_a_certificate_counts_for_its_text_only(
    tmp_path: Path, certificate: dict[str, Any] | None, standing: str
) -> None:
    more = {} if certificate is None else {"certificate": certificate}
    case = save_case(case_of(**more), tmp_path).case
    assert verification().filed(tmp_path) == {
        3: {LAYOUT: Refuted(NAMES, LAYOUT, TRACE, standing, case["id"])}
    }


@pytest.mark.slow
def test_what_is_shown_is_told_at_once(shallow: Callable[[int], None]) -> None:
    shallow(1)
    heard: list[Refuted] = []
    verification(settled=heard.append).run(300, seeded=True)
    assert heard[-1] == Refuted(NAMES, LAYOUT, heard[-1].events, "proved") and len(heard[-1].events) == 3


def test_an_interrupt_ends_it_with_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    ident = save_case(case_of(), tmp_path).case["id"]
    monkeypatch.setattr(Ascent, "run", stop)
    result = verification().run(300, tmp_path)
    assert result.interrupted and result.exit_code == 130
    assert result.conflicts == [Refuted(NAMES, LAYOUT, TRACE, "known", ident)]
    assert {each.ending for each in result.sets} == {"interrupt"}


def test_cases_of_others_are_left_alone(tmp_path: Path) -> None:
    ours = verification()
    assert ours.filed(tmp_path / "nowhere") == {}
    save_case(case_of(config=replace(SMALL, host_frames=1)), tmp_path)
    assert ours.filed(tmp_path) == {}
    save_case(case_of(), tmp_path)
    assert verification((PROMISES, SHRINKS)).filed(tmp_path) == {}
    # The repaired one has another version, so the case isn't about it.
    assert verification(TWINS).filed(tmp_path) == {}
    assert list(ours.filed(tmp_path)) == [3]


def test_a_case_that_fails_no_more_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_case(case_of(), tmp_path)
    monkeypatch.setattr(Verification, "judge", lambda *_: way.Judged())
    assert verification().filed(tmp_path) == {}


def test_the_machine_judges() -> None:
    ours = verification()
    assert ours.judge(3, TRACE).shown == (LAYOUT,)
    assert ours.judge(3, TRACE[:2]) == way.Judged()
    alone = Verification((PROMISES, SHRINKS), SMALL, WINDOW)
    assert alone.judge(2, ((ARRIVE, 0, 1), (ACT, 0, 0))).shown == ()


def test_faults_are_asked_for() -> None:
    assert not {FAIL, LATE, FINISH} & set(verification().codes)
    assert {FAIL, LATE, FINISH} <= set(verification(faults=True).codes)


def test_ordinary_python_is_known_by_its_manifest(shallow: Callable[[int], None]) -> None:
    shallow(2)
    result = verification((Squeezes.as_policy(),)).run(60)
    assert [(each.policies, each.refuted) for each in result.sets] == [(("Squeezes",), ())]


def test_a_machine_that_denies_is_an_error(
    shallow: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow(3)
    monkeypatch.setattr(Verification, "judge", lambda *_: way.Judged())
    with pytest.raises(EnvironmentFailure, match=r"FKV073: promises \+ shrinks"):
        verification((PROMISES, SHRINKS)).run(300)


def test_nothing_is_claimed_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SolverQuestion, "answer", lambda self: None)
    result = verification().run(300)
    assert {each.verdict for each in result.sets} == {"unknown"} and result.exit_code == 3


def test_an_interrupt_ends_the_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    cancel = SolverQuestion.cancel

    def counted(self: SolverQuestion) -> None:
        ended.append(self.depth)
        cancel(self)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SolverQuestion, "cancel", counted)
    monkeypatch.setattr(SolverQuestion, "running", True)
    monkeypatch.setattr("fuzzkv.solver.ascent.time.sleep", interrupted)
    ascent = Ascent({3: verification()._space(3)}, verification().judge, workers=1)
    with pytest.raises(KeyboardInterrupt):
        ascent.run(300)
    assert ended == [1] and not ascent._running


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Result]:
    """``fuzzkv verify`` beside a corpus of its own."""

    def call(policies: str, *arguments: str) -> Result:
        named = ",".join(f"tests.field.vllm_48412:{name}" for name in policies.split(","))
        where = ("--corpus", str(tmp_path), "--no-color", "--pages", "1")
        return CliRunner().invoke(app, ["verify", "--policies", named, *where, *arguments])

    return call


@pytest.mark.slow
def test_it_says_what_it_found(command: Callable[..., Result], shallow: Callable[[int], None]) -> None:
    shallow(3)
    result = command("OFFLOAD,QUANT", "--max-time", "5m")
    assert result.exit_code == 1, result.output
    told = result.output.partition("window: ")[2]
    assert told.startswith("1 x 1 pages, ") and told.count("\n") == 7
    assert "no idle time before the first act or session\n" in result.output
    assert "cross-layer-offload: bounded(3): nothing found; ended by the depth\n" in result.output
    assert (
        "cross-layer-offload + per-head-quant: refuted: every schedule of up to 3 events holds nothing else; "
        "ended by the depth\n  I5 "
    ) in result.output
    assert "by per-head-quant, write_scale: 3 events, the shortest in this window\n" in result.output
    written = re.search(r"^    (.*; act per-head-quant 0)$", result.output, flags=re.MULTILINE)
    assert written is not None
    assert sorted(written[1].split("; "))[1:] == ["act per-head-quant 0", "arrive 0 1"]
    assert "1 class of conflict, 1 of them shown to be at their shortest (" in result.output


@pytest.mark.slow
def test_it_says_which_case_it_knows(
    command: Callable[..., Result], shallow: Callable[[int], None], tmp_path: Path
) -> None:
    shallow(3)
    stale = case_of(config=Config(), certificate=certificate_of(3, text="0123456789abcdef"))
    ident = save_case(stale, tmp_path).case["id"]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = command("OFFLOAD,QUANT", "--max-time", "5m")
    assert result.exit_code == 1
    # The certificate counts no more, but every schedule of two events was looked at.
    assert f"3 events, the shortest in this window ({ident})\n" in result.output
    assert "1 class of conflict, 1 of them shown to be at their shortest (" in result.output
    fresh = command("OFFLOAD,QUANT", "--max-time", "5m", "--fresh")
    assert ident not in fresh.output and "the shortest in this window" in fresh.output
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_without_a_class_it_is_inconclusive(command: Callable[..., Result]) -> None:
    result = command("OFFLOAD,QUANT_REPAIRED", "--max-time", "0.1s")
    assert result.exit_code == 3, result.output
    assert "cross-layer-offload + per-head-quant: " in result.output and "ended by the time" in result.output
    assert "0 classes of conflict, 0 of them shown" in result.output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--max-time", "soon"), "FKV030"),
        (("--max-time", "0s"), "FKV030"),
        (("--contract", "enforce", "--keep"), "FKV030"),
    ],
)
def test_what_it_is_told_is_checked(
    command: Callable[..., Result], arguments: tuple[str, ...], code: str
) -> None:
    result = command("OFFLOAD,QUANT", *arguments)
    assert isinstance(result.exception, UsageError) and result.exception.code == code


def test_words_for_what_is_known_of_a_set() -> None:
    found = Refuted(NAMES, LAYOUT, TRACE, "proved")
    sets = [
        SetVerdict(NAMES[:1], (), 0, "time", 0, 1),
        SetVerdict(NAMES[:1], (), 7, "time", 0, 8),
        SetVerdict(NAMES, (found,), 7, "time", 2, 9),
    ]
    assert [each.verdict for each in sets] == ["unknown", "bounded(7)", "refuted"]
    assert Verified(WINDOW, sets[:2]).exit_code == 3
    assert Verified(WINDOW, sets).exit_code == 1 and Verified(WINDOW, sets).conflicts == [found]
