"""``[targets.NAME]``: where it is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzkv.errors import UsageError
from fuzzkv.targets.configured import BYTES, configured

ENTRY = '[{}targets."vllm@nightly"]\npython = "{}"\n'


def test_nothing_is_said(tmp_path: Path) -> None:
    assert configured(tmp_path) == {}
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert configured(tmp_path) == {}


def test_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    (tmp_path / "pyproject.toml").write_text(ENTRY.format("tool.fuzzkv.", "~/v/bin/python"))
    assert configured(tmp_path) == {"vllm@nightly": Path("/home/me/v/bin/python")}
    (tmp_path / "fuzzkv.toml").write_text(ENTRY.format("", "v/bin/python"))
    assert configured(tmp_path) == {"vllm@nightly": tmp_path / "v/bin/python"}, "its own file is taken first"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[targets", "fuzzkv.toml: it is not valid TOML"),
        ('a = "\\ud800"', "not valid TOML"),
        (
            "[target.x]\npython = 'p'",
            "fuzzkv.toml: target: it is a key that there isn't. Did you mean 'targets'?",
        ),
        ("targets = 3", "fuzzkv.toml: targets: it is not a table. Write [targets]"),
        ("targets.x = 3", "fuzzkv.toml: targets.x: it is not a table"),
        ("[targets.x]\npyton = 'p'", "targets.x.pyton: it is a key that there isn't. Did you mean 'python'?"),
        ("[targets.x]", "targets.x.python: it is not a path"),
        ("[targets.x]\npython = 3", "targets.x.python: it is not a path"),
        ("[targets.vllm]\npython = 'p'", "targets.vllm: it is no name for a target"),
        ("[targets.'a b']\npython = 'p'", "targets.a b: it is no name for a target"),
        ("x = 1\n" + "#" * BYTES, "it has more than"),
        ("x = " + "[" * 100_000, "not valid TOML"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "fuzzkv.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        configured(tmp_path)
    assert caught.value.code == "FKV136" and words in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "fuzzkv.toml").mkdir()
    with pytest.raises(UsageError, match="FKV136"):
        configured(tmp_path)
    (tmp_path / "fuzzkv.toml").rmdir()
    (tmp_path / "fuzzkv.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="FKV136"):
        configured(tmp_path)
