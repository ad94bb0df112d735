"""Thresholds are registered in a file, exact, hashed, and refused where they are not valid."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from fuzzkv.errors import UsageError
from fuzzkv.oracles.thresholds import DEFAULT_PATH, default_thresholds, load_thresholds


def test_the_shipped_file_loads_and_has_a_digest() -> None:
    found = default_thresholds()
    assert found.dq > 0 and found.alpha == Decimal("0.05") and found.min_requests >= 300
    assert len(found.digest) == 64 and found.as_dict()["digest"] == found.digest
    assert not any(isinstance(value, float) for value in found.as_dict().values())


def test_the_digest_follows_values_not_layout(tmp_path: Path) -> None:
    raw = json.loads(DEFAULT_PATH.read_text(encoding="utf-8"))
    same, other = tmp_path / "same.json", tmp_path / "other.json"
    same.write_text(json.dumps(dict(reversed(raw.items())), indent=7), encoding="utf-8")
    other.write_text(json.dumps({**raw, "dq": "0.10"}), encoding="utf-8")
    assert load_thresholds(same).digest == default_thresholds().digest != load_thresholds(other).digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dq": 0.15}, "dq is 0.15"),
        ({"dq": "1.5"}, "dq is '1.5'"),
        ({"alpha": "much"}, "alpha is 'much'"),
        ({"looks": 0}, "looks is 0"),
        ({"looks": True}, "looks is True"),
        ({"lookz": 3}, "Did you mean 'looks'"),
        ({"power": None}, "power is None"),
        ({"schema_version": 2}, "schema_version 1"),
    ],
)
def test_bad_values_are_named(tmp_path: Path, change: dict[str, object], words: str) -> None:
    raw = json.loads(DEFAULT_PATH.read_text(encoding="utf-8"))
    path = tmp_path / "thresholds.json"
    path.write_text(json.dumps({**raw, **change}), encoding="utf-8")
    with pytest.raises(UsageError, match="FKV071") as caught:
        load_thresholds(path)
    assert words in str(caught.value) and str(path) in str(caught.value)


def test_missing_entries_and_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "thresholds.json"
    for text, words in (("{", "Expecting"), ("[]", "not an object"), ('{"schema_version": 1}', "is missing")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=words):
            load_thresholds(path)
    with pytest.raises(UsageError, match="FKV071"):
        load_thresholds(tmp_path / "none.json")
