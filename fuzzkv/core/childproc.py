"""Child processes: start, environment, log, one line at a time, hang, death, signals, clean-up.

The one place where fuzzkv starts a program.  A :class:`Child` leads a session of its own, so Ctrl-C
reaches its parent alone, and a kill takes everything that it has started.  Those that are left when
this process ends by itself are killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Literal

LAST_WORDS: Final = 2000
"""Bytes of a log's end that :meth:`Child.last_words` reads."""
LAST_LINES: Final = 12
NOISE: Final = ("nanobind", " - leaked")
"""Parts of lines that a library prints whenever its process ends, which are no reason for anything."""
WRITES_WHERE: Final = 0.3
"""Seconds that a hanging child gets to write into its log where it is."""
ENDS: Final = 10.0
"""Seconds in which a child that has closed its answers has to end by itself, so that its status is known."""
TICK: Final = 0.2
"""Seconds between two looks at a child that is waited for."""

Answers = Literal["none", "stdout", "descriptor"]


class ChildDied(Exception):
    """A child ended before it answered.  ``status``: its exit status, negative for a signal; ``words``: its log's end."""

    def __init__(self, status: int | None, words: str) -> None:
        super().__init__(f"the process ended with status {status}: {words}")
        self.status, self.words = status, words


class ChildHung(Exception):
    """A child gave no answer in ``seconds`` and was killed.  ``words``: its log's end."""

    def __init__(self, seconds: float, words: str) -> None:
        super().__init__(f"no answer in {seconds:g} s: {words}")
        self.seconds, self.words = seconds, words


class Child:
    """One process.

    ``environment``: all of it (None: this process's).  ``log``: the file to which standard error is
    appended, and standard output unless it goes elsewhere; None: nowhere.  ``stdin``: a file, ``True``
    for a pipe that :meth:`send` writes to, ``False`` for nothing.  ``answers``: where :meth:`line` reads:
    ``stdout``, or a pipe whose number is added to the command (``descriptor``).  ``stdout``: a file.
    ``descriptors`` stay open in the child.  Raises ``OSError`` if the program can't be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        stdin: IO[bytes] | bool = False,
        stdout: IO[bytes] | None = None,
        answers: Answers = "none",
        descriptors: Sequence[int] = (),
    ) -> None:
        self.log = log
        self._rest = b""
        self._answers, theirs = os.pipe() if answers != "none" else (-1, -1)
        command = [*command, str(theirs)] if answers == "descriptor" else command
        try:
            with contextlib.ExitStack() as stack:
                errors = stack.enter_context(log.open("ab")) if log is not None else subprocess.DEVNULL
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE if stdin is True else stdin or subprocess.DEVNULL,
                    stdout=theirs if answers == "stdout" else stdout or errors,
                    stderr=errors,
                    start_new_session=True,
                    pass_fds=(*descriptors, *((theirs,) if answers == "descriptor" else ())),
                    env=None if environment is None else dict(environment),
                )
        except BaseException:
            self._close_answers()
            raise
        finally:
            if theirs >= 0:
                os.close(theirs)
        _ALIVE[self] = os.getpid()

    @property
    def pid(self) -> int:
        """The process, and its group."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status (negative: the signal that ended it), None while it runs."""
        return self._process.poll()

    def send(self, line: bytes) -> None:
        """Write a line to its standard input.  Its death is told by the missing answer."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            if not stdin.closed:
                stdin.write(line + b"\n")
                stdin.flush()

    def end_input(self) -> None:
        """Close its standard input."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def line(self, seconds: float) -> bytes:
        """Its next line.  Raises :class:`ChildHung`, :class:`ChildDied`; the child is gone then."""
        if self._answers < 0:
            raise self._died()
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise self._hung(seconds)
                data = os.read(self._answers, 1 << 20)
                if not data:
                    raise self._died()
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def wait(self, seconds: float | None = None, tell: Callable[[], None] | None = None) -> int:
        """Its exit status when it has ended; ``tell`` is called now and then until then.

        Raises :class:`ChildHung` after ``seconds``; whatever is raised, the child is gone.
        """
        end = None if seconds is None else time.monotonic() + seconds
        try:
            while True:
                left = float("inf") if end is None else end - time.monotonic()
                if left <= 0 and self.status is None:
                    raise self._hung(seconds or 0.0)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    bounded = min(left, TICK) if tell is not None else left
                    status = self._process.wait(None if bounded == float("inf") else max(0.0, bounded))
                    _ALIVE.pop(self, None)
                    return status
                if tell is not None:
                    tell()
        except BaseException:
            self.kill()
            raise

    def last_words(self) -> str:
        """The last lines of its log on one line."""
        try:
            data = self.log.read_bytes()[-LAST_WORDS:] if self.log is not None else b""
        except OSError:
            return ""
        lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
        told = [line for line in lines if line and not any(part in line for part in NOISE)]
        return " | ".join(told[-LAST_LINES:])

    def kill(self) -> None:
        """End it and all that it has started, without asking, and close its streams."""
        self.end_input()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._close_answers()
        _ALIVE.pop(self, None)

    def _hung(self, seconds: float) -> ChildHung:
        """Let it write where it is, then end it.

        Whoever answers on a descriptor is a worker of ours that dumps its threads at SIGUSR1; others would die of it.
        """
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(WRITES_WHERE)
        words = self.last_words()
        self.kill()
        return ChildHung(seconds, words)

    def _died(self) -> ChildDied:
        """Its answers have ended; one that only closed them and goes on is ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDS)
        status, words = self.status, self.last_words()
        self.kill()
        return ChildDied(status, words)

    def _close_answers(self) -> None:
        answers, self._answers = self._answers, -1
        if answers >= 0:
            os.close(answers)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


_ALIVE: Final[dict[Child, int]] = {}
"""Children that weren't ended yet, and the process that started them (a fork of it isn't their parent)."""


@atexit.register
def _end_all() -> None:
    for child, parent in list(_ALIVE.items()):
        if parent == os.getpid():
            child.kill()
