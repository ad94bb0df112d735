"""Case files: canonical, content-addressed, checked, and never torn or lost."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzkv.cases import corpus
from fuzzkv.core.canonical import canonical_bytes, file_bytes, parse_json
from fuzzkv.errors import EnvironmentFailure, FuzzkvError, UsageError
from tests.samples import confirmation, make_case

JSON_DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=6), JSON_DATA, max_size=4))
def test_both_forms_keep_the_value_and_ignore_key_order(value: dict[str, Any]) -> None:
    assert parse_json(canonical_bytes(value), "x") == value == parse_json(file_bytes(value), "x")
    turned = dict(reversed(value.items()))
    assert canonical_bytes(turned) == canonical_bytes(value) and file_bytes(turned) == file_bytes(value)


def test_the_id_can_be_computed_without_fuzzkv() -> None:
    case = make_case()
    semantic = {key: case[key] for key in ("class", "policies", "config", "schedule")}
    text = json.dumps(semantic, sort_keys=True, separators=(",", ":"))
    assert case["id"] == "fkv-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def test_the_id_covers_the_semantic_part_only() -> None:
    assert (
        make_case(status="fixed", title="x", found={"seed": 9, "fuzzkv": "9", "schedules": 1})["id"]
        == make_case()["id"]
    )
    assert make_case(1)["id"] != make_case()["id"] != make_case(config={"device_frames": 5})["id"]


def test_a_case_survives_the_disk(tmp_path: Path) -> None:
    case = make_case()
    saved = corpus.save_case(case, tmp_path / "new" / "folder")
    assert saved.new and saved.changed and saved.path.name == f"{case['id']}.json"
    assert corpus.load_case(saved.path) == case and saved.path.read_bytes().endswith(b"}\n")
    again = corpus.save_case(case, saved.path.parent)
    assert not again.new and not again.changed


def test_merging_keeps_status_discovery_and_confirmations(tmp_path: Path) -> None:
    first = make_case(status="reported", confirmations=[confirmation()], title="ours")
    corpus.save_case(first, tmp_path)
    later = make_case(found={"seed": 7, "fuzzkv": "0.2.0", "schedules": 3}, title="")
    saved = corpus.save_case(later, tmp_path)
    assert saved.case == first and not saved.changed


def test_merging_adds_new_confirmations_once(tmp_path: Path) -> None:
    corpus.save_case(make_case(), tmp_path)
    new = make_case(status="confirmed", confirmations=[confirmation()])
    for _ in range(2):
        saved = corpus.save_case(new, tmp_path)
    assert saved.case["status"] == "confirmed" and len(saved.case["confirmations"]) == 1
    gpu = make_case(
        status="confirmed", confirmations=[confirmation(device="cuda"), confirmation(reason="again")]
    )
    merged = corpus.save_case(gpu, tmp_path).case["confirmations"]
    assert [item.get("device") for item in merged] == [None, "cuda"]


@pytest.mark.parametrize("status", ["reported", "fixed", "invalid", "dup"])
def test_a_status_that_a_person_set_stays(tmp_path: Path, status: str) -> None:
    corpus.save_case(make_case(status=status), tmp_path)
    saved = corpus.save_case(make_case(status="confirmed", confirmations=[confirmation()]), tmp_path)
    assert saved.case["status"] == status and saved.case["confirmations"]


def test_an_entry_has_no_times_or_paths_of_one_run() -> None:
    entry = corpus.confirmation_entry(confirmation(seconds="3.1", log="/x/worker.log", case_id="fkv-0"))
    assert entry == confirmation() and corpus.validate(make_case(confirmations=[entry]), "x")


def broken_files() -> dict[str, tuple[bytes, str, str]]:
    good = file_bytes(make_case())
    return {
        "empty": (b"", "FKV012", "not valid JSON"),
        "half": (good[: len(good) // 2], "FKV012", "not valid JSON"),
        "not utf-8": (b'{"a": "\xff"}', "FKV012", "not valid JSON"),
        "key twice": (good.replace(b'"label"', b'"title"'), "FKV012", "'title' occurs twice"),
        "large": (good + b" " * (1 << 20), "FKV011", "limit"),
        "deep": (b'{"a":' * 40 + b"1" + b"}" * 40, "FKV013", "24 levels"),
        "deeper than the parser": (b"[" * 200_000, "FKV013", "24 levels"),
        "float": (good.replace(b'"seed":1', b'"seed":1.5'), "FKV022", "1.5"),
        "nan": (good.replace(b'"seed":1', b'"seed":NaN'), "FKV022", "NaN"),
        "long number": (good.replace(b'"seed":1', b'"seed":' + b"9" * 5000), "FKV012", "not valid JSON"),
        "large number": (good.replace(b'"seed":1', b'"seed":' + b"9" * 30), "FKV014", "found.seed"),
        "list": (b"[]", "FKV014", "object"),
        "future": (good.replace(b'"schema_version": 1', b'"schema_version": 2'), "FKV020", "Update fuzzkv"),
        "missing": (
            good.replace(b'"title": "the evictor drops the only exact copy",\n ', b""),
            "FKV014",
            "'title'",
        ),
        "unknown key": (good.replace(b'"label"', b'"labell": "x", "label"'), "FKV014", "labell"),
        "bad event": (good.replace(b'["arrive",0,2]', b'["arrive",0]'), "FKV014", "schedule[0]"),
        "bad operation": (
            good.replace(b'["arrive",0,2]', b"[\"__import__('os')\",0,2]"),
            "FKV014",
            "schedule[0]",
        ),
        "bad status": (good.replace(b"candidate", b"certain"), "FKV014", "certain"),
        "edited": (good.replace(b'["arrive",0,2]', b'["arrive",0,3]'), "FKV015", "hashes to"),
        "unsorted": (
            file_bytes(make_case(**{"class": {**make_case()["class"], "policies": ["b", "a"]}})),
            "FKV014",
            "sorted",
        ),
    }


@pytest.mark.parametrize("kind", sorted(broken_files()))
def test_a_broken_file_is_named_and_left_as_it_was(tmp_path: Path, kind: str) -> None:
    data, code, words = broken_files()[kind]
    path = tmp_path / f"{make_case()['id']}.json"
    path.write_bytes(data)
    for action in (lambda: corpus.load_case(path), lambda: corpus.save_case(make_case(), tmp_path)):
        with pytest.raises(FuzzkvError) as caught:
            action()
        assert caught.value.code == code and str(path) in str(caught.value) and words in str(caught.value)
        assert len(str(caught.value)) < 600 + len(str(path))
    assert path.read_bytes() == data and sorted(tmp_path.iterdir()) == [path]


def test_a_case_that_is_not_valid_is_not_written(tmp_path: Path) -> None:
    for case in (
        make_case(status="certain"),
        make_case(violation={"time": 0.5}),
        make_case(id="fkv-000000000000"),
    ):
        with pytest.raises(UsageError):
            corpus.save_case(case, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "FKV060"), (errno.EIO, "FKV018")])
def test_a_full_disk_damages_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, code: str
) -> None:
    path = corpus.save_case(make_case(), tmp_path).path
    before = path.read_bytes()

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(EnvironmentFailure, match=code) as caught:
        corpus.save_case(make_case(status="confirmed", confirmations=[confirmation()]), tmp_path)
    assert "nothing was changed" in str(caught.value) and caught.value.exit_code == 3
    with pytest.raises(EnvironmentFailure, match=code):
        corpus.save_case(make_case(1), tmp_path)
    monkeypatch.undo()
    assert path.read_bytes() == before and sorted(tmp_path.iterdir()) == [path]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:7])))
    path = corpus.save_case(make_case(), tmp_path).path
    assert path.read_bytes() == file_bytes(make_case())


KILLED = """
import itertools, sys
from fuzzkv.cases import corpus
from tests.samples import make_case, confirmation
corpus.save_case(make_case(0), sys.argv[1])
print("go", flush=True)
for n in itertools.count():
    corpus.save_case(make_case(n % 7, confirmations=[confirmation(engine=f"e{n % 90}")]), sys.argv[1])
    corpus.write_index(sys.argv[1])
"""


@pytest.mark.slow
def test_a_kill_in_the_middle_leaves_no_torn_file(tmp_path: Path) -> None:
    for delay in (0.02, 0.05):
        command = [sys.executable, "-c", KILLED, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None and process.stdout.readline() == b"go\n"
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        cases = corpus.load_corpus(tmp_path)
        assert cases and make_case(0)["id"] in {case["id"] for case in cases}
        assert all(
            path.read_bytes() == file_bytes(corpus.load_case(path)) for path in tmp_path.glob("fkv-*.json")
        )


def test_index_is_sorted_deterministic_and_checked(tmp_path: Path) -> None:
    for seed in (3, 1, 2):
        corpus.save_case(make_case(seed), tmp_path)
    assert [error.code for error in corpus.problems(tmp_path)] == ["FKV021"]
    first = corpus.write_index(tmp_path).read_bytes()
    assert corpus.write_index(tmp_path).read_bytes() == first and not corpus.problems(tmp_path)
    index = json.loads(first)
    assert [row["id"] for row in index["cases"]] == sorted(make_case(seed)["id"] for seed in (1, 2, 3))
    for row in index["cases"]:
        assert row["sha256"] == hashlib.sha256((tmp_path / f"{row['id']}.json").read_bytes()).hexdigest()
    corpus.save_case(make_case(4), tmp_path)
    assert json.loads(corpus.write_index(tmp_path).read_bytes())["sha256"] != index["sha256"]


def test_problems_name_misnamed_broken_and_edited_files(tmp_path: Path) -> None:
    corpus.save_case(make_case(), tmp_path)
    corpus.write_index(tmp_path)
    (tmp_path / "fkv-aaaaaaaaaaaa.json").write_bytes(file_bytes(make_case()))
    (tmp_path / "fkv-bbbbbbbbbbbb.json").write_text("{", encoding="utf-8")
    path = tmp_path / f"{make_case()['id']}.json"
    path.write_text(json.dumps(make_case(), indent=4), encoding="utf-8")
    assert sorted({error.code for error in corpus.problems(tmp_path)}) == ["FKV012", "FKV021", "FKV023"]
    cases, errors = corpus.scan_corpus(tmp_path)
    assert len(cases) == 2 and len(errors) == 1
    with pytest.raises(UsageError, match="FKV012"):
        corpus.load_corpus(tmp_path)


def test_cases_are_found_by_id_prefix_label_and_path(tmp_path: Path) -> None:
    path = corpus.save_case(make_case(), tmp_path).path
    corpus.save_case(make_case(1, label="S7"), tmp_path)
    for name in (path.stem, path.stem[:9], path.stem[4:10], "S1", str(path)):
        assert corpus.find_case(name, tmp_path) == make_case()


def test_of_several_cases_with_a_label_the_confirmed_one_is_meant(tmp_path: Path) -> None:
    corpus.save_case(make_case(status="candidate"), tmp_path)
    confirmed = make_case(1, status="confirmed")
    corpus.save_case(confirmed, tmp_path)
    assert corpus.find_case("S1", tmp_path) == confirmed
    corpus.save_case(make_case(2, status="confirmed"), tmp_path)
    with pytest.raises(UsageError, match="FKV017"):
        corpus.find_case("S1", tmp_path)


def test_every_label_of_our_corpus_names_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[2] / "corpus"
    read = corpus.scan_corpus(folder)
    assert read[1] == []
    # Each look-up of a label reads the folder; here it is read once for all of them.
    monkeypatch.setattr(corpus, "scan_corpus", lambda _: read)
    cases = read[0]
    for label in {case["label"] for case in cases} - {""}:
        mine = [case for case in cases if case["label"] == label]
        confirmed = [case for case in mine if case["status"] == "confirmed"]
        # Somebody's own hunts may have confirmed a second one here: then the id has to be given.
        if len(mine) == 1 or len(confirmed) == 1:
            assert corpus.find_case(label, folder) == (confirmed or mine)[0]


def test_a_case_that_is_not_there_gets_a_cure(tmp_path: Path) -> None:
    stem = corpus.save_case(make_case(), tmp_path).path.stem
    corpus.save_case(make_case(1), tmp_path)
    typo = stem[:-1] + ("0" if stem[-1] != "0" else "1")
    for name, code, words in (
        (typo, "FKV016", f"Did you mean '{stem}'?"),
        ("fkv-", "FKV017", "fits 2 cases"),
        ("S1", "FKV017", "fits 2 cases"),
        (str(tmp_path / "x.json"), "FKV010", "x.json"),
    ):
        with pytest.raises(UsageError) as caught:
            corpus.find_case(name, tmp_path)
        assert caught.value.code == code and words in str(caught.value)
    with pytest.raises(UsageError, match="FKV016"):
        corpus.find_case("fkv-1", tmp_path / "none")
    with pytest.raises(UsageError, match="FKV019"):
        corpus.load_corpus(tmp_path / "none")


def test_temporary_files_of_killed_processes_are_removed_when_old(tmp_path: Path) -> None:
    corpus.save_case(make_case(), tmp_path)
    old, young = tmp_path / ".fkv-1.json.7.tmp", tmp_path / ".fkv-2.json.8.tmp"
    for path in (old, young):
        path.write_text("{", encoding="utf-8")
    os.utime(old, (1, 1))
    corpus.write_index(tmp_path)
    assert not old.exists() and young.exists()


def changed_class(**changes: Any) -> dict[str, Any]:
    return {**make_case()["class"], **changes}


def entry(name: str) -> dict[str, Any]:
    return {"name": name, "version": "1", "parameters": {}}


FIVE = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"class": changed_class(invariant="I19")}, "class.invariant"),
        ({"class": changed_class(invariant="I1\n")}, "class.invariant"),
        ({"class": changed_class(actor="a\x1b[2J")}, "class.actor"),
        ({"class": changed_class(policies=FIVE), "policies": [entry(n) for n in FIVE]}, "policies"),
        ({"class": changed_class(policies=["evict", "quant"])}, "not the same"),
        ({"policies": [entry("evict\n"), entry("offload")]}, "policies[0].name"),
        ({"title": "two\nlines"}, "title"),
        ({"title": "\ud800"}, "title"),
        ({"title": "\u202edrawkcab"}, "title"),
        ({"label": "S1\x07"}, "label"),
        ({"replay": "fuzzkv replay x\nrm"}, "replay"),
        ({"config": {"a\x1b": 1}}, "config"),
        ({"violation": {}}, "violation"),
        ({"violation": {**make_case()["violation"], "invariant": "I0"}}, "violation.invariant"),
        ({"violation": {**make_case()["violation"], "event": -1}}, "violation.event"),
        ({"violation": {**make_case()["violation"], "request": 2}}, "violation.request"),
        ({"violation": {**make_case()["violation"], "page": 8}}, "violation.page"),
        ({"violation": {**make_case()["violation"], "primitive": 3}}, "violation.primitive"),
    ],
)
def test_what_the_schema_refuses(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match="FKV014") as caught:
        corpus.validate(make_case(**changes), "x")
    assert words in str(caught.value)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    corpus.save_case(make_case(), tmp_path)
    os.mkfifo(tmp_path / "fkv-x.json")
    (tmp_path / "fkv-y.json").mkdir()
    cases, errors = corpus.scan_corpus(tmp_path)
    assert len(cases) == 1 and [error.code for error in errors] == ["FKV010", "FKV010"]
    assert all("not a regular file" in error.reason for error in errors)


def test_names_that_are_too_long_for_the_system(tmp_path: Path) -> None:
    long = "x" * 5000
    for call, code in (
        (lambda: corpus.load_case(tmp_path / f"{long}.json"), "FKV010"),
        (lambda: corpus.load_case("a\0b.json"), "FKV010"),
        (lambda: corpus.find_case(long, tmp_path), "FKV016"),
        (lambda: corpus.find_case("S1", tmp_path / long), "FKV016"),
        (lambda: corpus.scan_corpus(tmp_path / long), "FKV019"),
        (lambda: corpus.problems(tmp_path / long), "FKV019"),
        (lambda: corpus.write_index(tmp_path / long), "FKV019"),
        (lambda: corpus.save_case(make_case(), tmp_path / long), "FKV018"),
        (lambda: corpus.find_case(" ", tmp_path), "FKV016"),
    ):
        with pytest.raises(FuzzkvError) as caught:
            call()
        assert caught.value.code == code


def test_a_broken_stranger_does_not_stop_the_index(tmp_path: Path) -> None:
    corpus.save_case(make_case(), tmp_path)
    (tmp_path / "fkv-bbbbbbbbbbbb.json").write_text("{", encoding="utf-8")
    rows = json.loads(corpus.write_index(tmp_path).read_bytes())["cases"]
    assert [row["id"] for row in rows] == [make_case()["id"]]
    assert [error.code for error in corpus.problems(tmp_path)] == ["FKV012"]
    with pytest.raises(UsageError, match="FKV012"):
        corpus.write_index(tmp_path, strict=True)
