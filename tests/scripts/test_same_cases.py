"""The comparison of two commits' case files sees each difference and is silent where there is none."""

from __future__ import annotations

import pytest

from scripts.same_cases import ROOT, differences, main

FILES = {"fkv-1.json": b"{}", "fkv-2.json": b"[]"}


def test_the_same_files_are_the_same() -> None:
    assert differences(FILES, dict(FILES)) == []


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({"fkv-1.json": b"{}"}, ["fkv-2.json: only before"]),
        ({**FILES, "fkv-3.json": b""}, ["fkv-3.json: only after"]),
        ({**FILES, "fkv-2.json": b"[ ]"}, ["fkv-2.json: another content"]),
    ],
)
def test_each_difference_is_named(after: dict[str, bytes], told: list[str]) -> None:
    assert differences(FILES, after) == told


def test_it_wants_a_commit() -> None:
    assert (ROOT / "scripts" / "same_cases.py").exists()
    with pytest.raises(SystemExit, match="BEFORE"):
        main([])
