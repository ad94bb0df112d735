"""A temporary folder of child processes, which is gone when they are.

Engines leave sockets, logs and lock files in the temporary folder; workers of fuzzkv get one of their
own (``TMPDIR``).  Its owner holds a lock on it, so that what a killed process has left can be told from
what is in use, and is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from tempfile import gettempdir, mkdtemp, mkstemp
from typing import Final

PREFIX: Final = "fuzzkv-scratch-"
YOUNG: Final = 60.0
"""Seconds in which a folder may not have its lock yet."""


class Scratch:
    """A folder that is removed by :meth:`remove`, or by a later process if this one is killed."""

    def __init__(self) -> None:
        _sweep(Path(gettempdir()))
        self.folder = Path(mkdtemp(prefix=PREFIX))
        self._lock = _locked(self.folder)

    def environment(self) -> dict[str, str]:
        """What makes a child put its temporary files here."""
        return {"TMPDIR": str(self.folder)}

    def leave(self, file: Path) -> Path:
        """A copy of a file in here, beside the folder, that stays for the user to read."""
        descriptor, name = mkstemp(prefix="fuzzkv-", suffix=f"-{file.name}", dir=self.folder.parent)
        os.close(descriptor)
        shutil.copyfile(file, name)
        return Path(name)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock; None if another process has it, or there are no such locks."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _sweep(parent: Path) -> None:
    """Remove the folders of processes that are gone."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            if time.time() - folder.stat().st_mtime > YOUNG and (lock := _locked(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
