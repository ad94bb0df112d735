"""Writing files so that a kill, a full disk or a second process never leaves a torn one."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fuzzkv.errors import EnvironmentFailure

_NO_SPACE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
_STALE_AFTER: Final = 3600.0


def atomic_write(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data``: after this returns the new file is on disk, before that the old one is.

    The bytes go to a temporary file in the same folder, which is flushed and then renamed over the target.
    On any failure the temporary file is removed and the old file is untouched. FKV060: full disk or no
    permission; FKV018: any other failure.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise write_failure(path, error) from error
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def write_failure(path: Path, error: OSError) -> EnvironmentFailure:
    """The error for a file that could not be written."""
    why = error.strerror or str(error)
    if error.errno in _NO_SPACE:
        return EnvironmentFailure(
            code="FKV060",
            value=path,
            reason=f"it could not be written ({why}); nothing was changed",
            cure="Free space or choose a folder that you may write, with --corpus or --report-dir.",
        )
    return EnvironmentFailure(
        code="FKV018",
        value=path,
        reason=f"it could not be written ({why}); nothing was changed",
        cure="Check the path and the file system.",
    )


def remove_stale(folder: Path) -> None:
    """Remove temporary files that a killed process left here more than an hour ago."""
    for path in folder.glob(".*.json.*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_AFTER:
                path.unlink()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold an advisory lock on a folder, so that read-merge-write of two processes does not interleave.

    Where the platform or the file system has no such lock, nothing is held; single writes stay atomic.
    """
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
