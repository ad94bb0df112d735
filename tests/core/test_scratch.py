"""Temporary folders: gone with their owner, and removed by the next one if the owner was killed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from fuzzkv.core.scratch import YOUNG, Scratch


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def old(folder: Path) -> Path:
    os.utime(folder, (0, 0))
    return folder


def test_it_is_what_children_have_as_temporary_folder_and_goes(tmp_path: Path) -> None:
    scratch = Scratch()
    assert scratch.environment() == {"TMPDIR": str(scratch.folder)} and scratch.folder.parent == tmp_path
    (scratch.folder / "below").mkdir()
    (scratch.folder / "below" / "file").touch()
    scratch.remove()
    scratch.remove()
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_has_left_is_removed_and_what_is_in_use_stays(tmp_path: Path) -> None:
    used, dead, young = Scratch(), tmp_path / "fuzzkv-scratch-dead", tmp_path / "fuzzkv-scratch-young"
    dead.mkdir()
    (dead / "socket").touch()
    young.mkdir()
    other = tmp_path / "fuzzkv-of-somebody"
    other.mkdir()
    for folder in (used.folder, dead, other):
        old(folder)
    Scratch().remove()
    assert used.folder.is_dir() and young.is_dir() and other.is_dir() and not dead.exists()
    assert YOUNG > 1
    used.remove()


def test_a_link_is_no_folder_of_ours(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "fuzzkv-scratch-link").symlink_to(kept)
    old(kept)
    Scratch().remove()
    assert kept.is_dir()


def test_a_log_can_be_left_behind(tmp_path: Path) -> None:
    scratch = Scratch()
    (scratch.folder / "engine.log").write_text("why")
    left = scratch.leave(scratch.folder / "engine.log")
    scratch.remove()
    assert left.read_text() == "why" and left.parent == tmp_path and left.name.endswith("engine.log")
