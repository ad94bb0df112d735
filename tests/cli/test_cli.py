"""The command line as a user meets it: exit codes, errors, listings, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fuzzkv import cli
from fuzzkv import events as ev
from fuzzkv.cases.corpus import save_case, write_index
from fuzzkv.core import options
from fuzzkv.errors import EnvironmentFailure, FuzzkvError, UsageError
from fuzzkv.gate.lineup import GateOptions
from fuzzkv.policies import registry
from tests.report.test_gate_reports import report as gate_report
from tests.samples import confirmation, make_case


class Run:
    """The outcome of one command line."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def command(*args: str) -> Run:
        monkeypatch.setattr(sys, "argv", ["fuzzkv", *args])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        return Run(int(caught.value.code or 0), captured.out, captured.err)

    return command


def fake(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    for name in ("fuzzkv.search.hunt", "fuzzkv.search.confirming"):
        module = ModuleType(name)
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["hnt"], "FKV031: fuzzkv hnt: there is no such command. Did you mean 'hunt'?"),
        (["corpus", "lss"], "FKV031: fuzzkv corpus lss: there is no such command. Did you mean 'ls'?"),
        (["hunt", "--polices", "x"], "Did you mean '--policies'? See 'fuzzkv hunt --help'."),
        (["hunt", "--contract", "enforced"], "FKV030: fuzzkv hunt --contract"),
        (["hunt", "--seed", "-1"], "FKV030: fuzzkv hunt --seed"),
        (["hunt", "--max-time", "soon"], "FKV030: --max-time 'soon'"),
        (["hunt", "--policies", ","], "FKV002: --policies ','"),
        (["hunt", "--policies", "quant,quant"], "'quant' is named twice"),
        (["explain"], "FKV030: fuzzkv explain"),
        (["replay", "fkv-1"], "FKV016: fkv-1"),
        (["corpus", "show", "none.json"], "FKV010: none.json"),
        (["corpus", "ls", "--corpus", "nowhere"], "FKV019: nowhere"),
        (["gate"], "FKV030: fuzzkv gate policy"),
        (["gate", "ofload"], "FKV001: 'ofload'"),
        (["gate", "evict", "--against", ","], "FKV002: --against ','"),
        (["gate", "evict", "--max-time", "soon"], "FKV030: --max-time 'soon'"),
        (
            ["gate", "evict", "--report", "junti=x"],
            "FKV031: --report junti=x: there is no such format. Did you mean 'junit'",
        ),
        (["gate", "evict", "--report", "junit"], "FKV030: --report junit: it names no file"),
        (["gate", "evict", "--corpus", "nowhere"], "FKV019: nowhere"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(run: Any, args: list[str], words: str) -> None:
    done = run(*args)
    assert done.code == 2 and words in done.err and done.err.count("\n") == 1 and "Traceback" not in done.err


def test_help_and_version(run: Any) -> None:
    done = run("--help")
    assert done.code == 0 and all(
        name in done.out for name in ("hunt", "replay", "explain", "corpus", "doctor")
    )
    assert run("--version").out.startswith("fuzzkv, version ")


@pytest.mark.slow
def test_help_is_quick() -> None:
    times = []
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, "-m", "fuzzkv", "--help"], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        times.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
    assert min(times) < 0.15


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, fuzzkv.cli; heavy = {'numpy', 'rich', 'numba', 'scipy', 'torch'}; "
    code += "print(sorted(heavy & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), (" 5 m ", 300)]
)
def test_times(text: str, seconds: float) -> None:
    assert options.parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "m", "1d", ""])
def test_bad_times(text: str) -> None:
    with pytest.raises(UsageError, match="FKV030"):
        options.parse_seconds(text)


def test_a_hunt_gets_its_options_and_gives_its_exit_code(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[options.HuntOptions] = []

    def hunt(given: options.HuntOptions, listeners: Sequence[ev.Listener]) -> Any:
        seen.append(given)
        ev.emit(listeners, ev.HuntStarted(policies=given.policies, seed=given.seed))
        ev.emit(listeners, ev.CaseFiled(make_case()["id"], "corpus/x.json", True, make_case()))
        ev.emit(listeners, ev.HuntFinished("conflict", 1, 2.0, 10, 100, 1))
        return SimpleNamespace(exit_code=1)

    fake(monkeypatch, hunt=hunt)
    args = [
        "hunt",
        "--policies",
        "quant,evict",
        "--seed",
        "7",
        "--max-time",
        "2m",
        "--contract",
        "enforce",
        "--no-confirm",
        "--report-dir",
        "r",
    ]
    done = run(*args)
    assert done.code == 1 and f"fuzzkv replay {make_case()['id']}" in done.out
    assert seen == [
        options.HuntOptions(
            policies=("quant", "evict"),
            seed=7,
            max_time=120,
            contract="enforce",
            confirm=False,
            report_dir=Path("r"),
        )
    ]
    lines = [json.loads(line) for line in Path("r/events.ndjson").read_text(encoding="utf-8").splitlines()]
    assert [line["event"] for line in lines] == ["HuntStarted", "CaseFiled", "HuntFinished"]


def test_a_gate_gets_its_options_and_writes_its_reports(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def gate(given: Any, listeners: Sequence[ev.Listener]) -> Any:
        seen.append(given)
        ev.emit(listeners, ev.GateFinished("conflict", 1, gate_report()))
        return SimpleNamespace(exit_code=1)

    module = ModuleType("fuzzkv.gate.run")
    vars(module).update(gate=gate)
    monkeypatch.setitem(sys.modules, "fuzzkv.gate.run", module)
    reports = [f"--report={form}=out/{form}" for form in ("junit", "json", "ndjson")]
    done = run("gate", "m:P", "--against", "quant, offload", "--seed", "7", "--max-time", "2m", *reports)
    assert done.code == 1 and "fuzzkv replay gate-report/fkv-0123456789ab.json" in done.out
    assert seen == [
        GateOptions(candidate="m:P", against=("quant", "offload"), seed=7, max_time=120, corpus=None)
    ]
    assert Path("out/junit").read_bytes().startswith(b"<?xml") and json.loads(Path("out/json").read_bytes())
    assert json.loads(Path("out/ndjson").read_text(encoding="utf-8"))["event"] == "GateFinished"
    # The usual corpus is taken where it is, and only there.
    Path("corpus").mkdir()
    run("gate", "m:P")
    assert seen[-1] == GateOptions(candidate="m:P", corpus=Path("corpus"))


def test_ctrl_c_exits_130_with_what_was_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def hunt(given: options.HuntOptions, listeners: Sequence[ev.Listener]) -> Any:
        ev.emit(listeners, ev.Progress("search", 500, 1000, classes=1))
        ev.emit(listeners, ev.CaseFiled(make_case()["id"], "corpus/x.json", True, make_case()))
        raise KeyboardInterrupt

    fake(monkeypatch, hunt=hunt)
    done = run("hunt")
    assert done.code == 130 and "Interrupted. 1 class of conflict found so far" in done.out
    assert make_case()["id"] in done.out and "500 schedules" in done.out


def test_an_interrupt_that_the_hunt_reported_is_not_reported_twice(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hunt(given: options.HuntOptions, listeners: Sequence[ev.Listener]) -> Any:
        ev.emit(listeners, ev.HuntFinished("interrupted", 130, 1.0))
        raise KeyboardInterrupt

    fake(monkeypatch, hunt=hunt)
    done = run("hunt")
    assert done.code == 130 and done.out.count("Interrupted") == 1


@pytest.mark.parametrize(("kind", "code"), [(UsageError, 2), (EnvironmentFailure, 3)])
def test_errors_of_a_hunt_keep_their_exit_code(
    run: Any, monkeypatch: pytest.MonkeyPatch, kind: type[FuzzkvError], code: int
) -> None:
    def hunt(given: options.HuntOptions, listeners: Sequence[ev.Listener]) -> Any:
        ev.emit(listeners, ev.Progress("search", 500, 1000))
        raise kind(code="FKV060", value="corpus", reason="the disk is full", cure="Free space.")

    fake(monkeypatch, hunt=hunt)
    done = run("hunt")
    assert done.code == code and done.err == "FKV060: corpus: the disk is full. Free space.\n"
    assert "could not finish" in done.out


@pytest.mark.parametrize(
    ("fails", "code"), [([True], 1), ([False], 0), ([None], 3), ([None, True], 1), ([False, None], 3)]
)
def test_replay_exit_codes(
    run: Any, monkeypatch: pytest.MonkeyPatch, fails: list[bool | None], code: int
) -> None:
    for seed in range(len(fails)):
        save_case(make_case(seed), "corpus")
    left = list(fails)

    def replay_case(
        case: Any, target: str, *, device: str, policies: Sequence[Any], listeners: Sequence[ev.Listener]
    ) -> Any:
        return SimpleNamespace(verdict="confirmed", detail="as filed", fails=left.pop(0))

    fake(monkeypatch, replay_case=replay_case)
    done = run("replay", "corpus" if len(fails) > 1 else "S1", "--target", "vllm")
    assert done.code == code and "on vllm: confirmed. as filed." in done.out


def test_corpus_commands(run: Any) -> None:
    path = save_case(
        make_case(status="confirmed", confirmations=[confirmation(reason="3 of 40")]), "corpus"
    ).path
    assert run("corpus", "check").code == 2
    assert run("corpus", "index").code == 0
    done = run("corpus", "check")
    assert done.code == 0 and done.out == "corpus: 1 cases, 0 problems\n"
    listed = run("corpus", "ls")
    assert listed.code == 0 and path.stem in listed.out and "1 cases: 1 confirmed" in listed.out
    shown = run("corpus", "show", "S1")
    for words in (
        "evict + offload break I1",
        "arrive",
        "full cache: pass",
        "evict + offload: fail",
        "3 of 40",
    ):
        assert words in shown.out
    assert run("corpus", "show", path.stem, "--json").out == path.read_text(encoding="utf-8")


def test_a_broken_file_does_not_hide_the_others(run: Any) -> None:
    save_case(make_case(), "corpus")
    write_index("corpus")
    Path("corpus/fkv-000000000000.json").write_text("{", encoding="utf-8")
    done = run("corpus", "ls")
    assert (
        done.code == 2
        and make_case()["id"] in done.out
        and "FKV012: corpus/fkv-000000000000.json" in done.err
    )


def test_doctor_and_policies(run: Any) -> None:
    done = run("doctor", "--no-color")
    assert done.code in (0, 3) and "engine" in done.out and "\x1b" not in done.out
    listed = run("policies")
    assert listed.code == 0 and all(name in listed.out for name in ("offload", "quant", "evict", "evidence"))


def test_an_internal_fault_is_one_line_and_exit_3(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def hunt(given: options.HuntOptions, listeners: Sequence[ev.Listener]) -> Any:
        raise ZeroDivisionError("two\nlines")

    fake(monkeypatch, hunt=hunt)
    monkeypatch.delenv("FUZZKV_DEBUG", raising=False)
    done = run("hunt")
    assert done.code == 3 and done.err.startswith("FKV090: ZeroDivisionError at test_cli.py:")
    assert "(two lines). Please report it" in done.err and done.err.count("\n") == 1
    monkeypatch.setenv("FUZZKV_DEBUG", "1")
    debugged = run("hunt")
    assert debugged.code == 3 and "Traceback" in debugged.err and "FKV090" in debugged.err


def test_nothing_to_replay_is_said(run: Any) -> None:
    Path("empty").mkdir()
    done = run("replay", "")
    assert done.code == 2 and "FKV016: '': it names no case" in done.err
    done = run("replay", "empty")
    assert done.code == 3 and "FKV016: empty: the folder has no case to replay" in done.err
    done = run("replay", "x" * 5000)
    assert done.code == 2 and done.err.startswith("FKV016") and done.err.count("\n") == 1


def test_the_index_names_the_file_that_it_leaves_out(run: Any) -> None:
    save_case(make_case(), "corpus")
    Path("corpus/fkv-000000000000.json").write_text("{", encoding="utf-8")
    done = run("corpus", "index")
    assert done.code == 2 and "wrote corpus/index.json" in done.out and "FKV012" in done.err


def test_broken_installed_policies_are_listed(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("stranger", "tests.raises:X", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda **_: [point])
    done = run("policies")
    assert done.code == 0 and "offload" in done.out
    assert done.err.startswith("FKV003: 'stranger': ") and done.err.count("\n") == 1


def test_an_explanation_needs_an_invariant(run: Any) -> None:
    save_case(make_case(**{"class": {**make_case()["class"], "invariant": "I2"}}), "corpus")
    path = next(Path("corpus").glob("fkv-*.json"))
    path.write_text(path.read_text(encoding="utf-8").replace("I2", "I77"), encoding="utf-8")
    done = run("explain", path.stem)
    assert done.code == 2 and done.err.startswith("FKV014")


SLOW_HUNT = """
import sys, time, types
from fuzzkv import cli, events as ev
from fuzzkv.cases.corpus import save_case
from tests.samples import make_case
def hunt(options, listeners):
    saved = save_case(make_case(), options.corpus)
    ev.emit(listeners, ev.CaseFiled(saved.case["id"], str(saved.path), True, saved.case))
    print("go", flush=True)
    time.sleep(30)
module = types.ModuleType("fuzzkv.search.hunt"); module.hunt = hunt
sys.modules["fuzzkv.search.hunt"] = module
sys.argv = ["fuzzkv", "hunt", "--corpus", sys.argv[1]]
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_real_process_with_130_and_the_summary(tmp_path: Path, sent: signal.Signals) -> None:
    command = [sys.executable, "-c", SLOW_HUNT, str(tmp_path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert "go\n" in lines, "the hunt did not start"
        time.sleep(0.05)
        process.send_signal(sent)
        rest = process.stdout.read()
    assert process.returncode == 130 and "Interrupted" in rest and make_case()["id"] in rest
    assert (tmp_path / f"{make_case()['id']}.json").is_file()


def test_where_failures_are_remembered(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Path | None] = []

    def hunt(given: options.HuntOptions, listeners: object) -> Any:
        seen.append(given.database)
        return SimpleNamespace(exit_code=0)

    fake(monkeypatch, hunt=hunt)
    monkeypatch.setenv("FUZZKV_CACHE", str(tmp_path))
    monkeypatch.delenv("FUZZKV_DATABASE")
    for more in ([], ["--database", "none"], ["--database", "here"]):
        assert run("hunt", *more).code == 0
    assert seen == [tmp_path / "examples", None, Path("here")]
