"""Child processes: answers, death, hang, signals, groups; small Python programs stand for workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from fuzzkv.core.childproc import Child, ChildDied, ChildHung

ECHO = "import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"


def child(tmp_path: Path, text: str, **more: object) -> Child:
    return Child([sys.executable, "-S", "-c", text], log=tmp_path / "log", **more)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for yet doesn't."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_lines_there_and_back_on_standard_output(tmp_path: Path) -> None:
    with child(tmp_path, ECHO, stdin=True, answers="stdout") as echo:
        echo.send(b"abc")
        echo.send(b"de")
        assert (echo.line(20), echo.line(20)) == (b"cba", b"ed")
        assert echo.status is None
    assert echo.status is not None and not alive(echo.pid)


def test_answers_on_a_descriptor_of_their_own(tmp_path: Path) -> None:
    text = "import os, sys; print('noise'); os.write(int(sys.argv[1]), b'answer\\n')"
    with child(tmp_path, text, answers="descriptor") as one:
        assert one.line(20) == b"answer"
        assert one.wait(20) == 0
    assert (tmp_path / "log").read_text() == "noise\n"


def test_a_death_has_its_status_and_last_words(tmp_path: Path) -> None:
    text = "import sys; sys.stdin.readline(); print('first'); sys.exit('out of memory')"
    one = child(tmp_path, text, stdin=True, answers="descriptor")
    one.send(b"go")
    with pytest.raises(ChildDied, match=r"status 1: first \| out of memory") as death:
        one.line(20)
    assert death.value.status == 1
    one.send(b"anybody there?")
    with pytest.raises(ChildDied):
        one.line(20)


def test_a_hang_says_where_and_takes_the_whole_group(tmp_path: Path) -> None:
    text = (
        "import faulthandler, os, signal, subprocess, sys, time\n"
        "faulthandler.register(signal.SIGUSR1)\n"
        "other = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        "os.write(int(sys.argv[1]), b'%d\\n' % other.pid)\n"
        "def waits_here(): time.sleep(60)\n"
        "waits_here()\n"
    )
    one = child(tmp_path, text, answers="descriptor")
    other = int(one.line(20))
    with pytest.raises(ChildHung, match=r"no answer in 0.05 s.*waits_here"):
        one.line(0.05)
    assert not alive(one.pid) and not alive(other)


def test_waiting_is_bounded_told_and_ends_with_the_child(tmp_path: Path) -> None:
    ticks: list[int] = []
    with child(tmp_path, "import time; time.sleep(0.3); raise SystemExit(7)") as one:
        assert one.wait(20, tell=lambda: ticks.append(1)) == 7
    assert ticks
    with pytest.raises(ChildHung), child(tmp_path, "import time; time.sleep(60)") as two:
        two.wait(0.05)
    assert not alive(two.pid)


def test_what_is_raised_while_waiting_ends_the_child(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    one = child(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(KeyboardInterrupt):
        one.wait(tell=interrupt)
    assert not alive(one.pid)


def test_files_in_the_place_of_streams() -> None:
    with TemporaryFile() as given, TemporaryFile() as told:
        given.write(b"question")
        given.seek(0)
        text = "import sys; print(sys.stdin.read() + '?'); print('unheard', file=sys.stderr)"
        with Child([sys.executable, "-S", "-c", text], stdin=given, stdout=told) as one:
            assert one.wait(20) == 0
        told.seek(0)
        assert told.read() == b"question?\n"


def test_a_program_that_there_isnt_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(FileNotFoundError):
        Child([str(tmp_path / "nothing")], answers="descriptor", log=tmp_path / "log")
    assert len(os.listdir("/dev/fd")) == before


def test_a_process_that_ends_takes_its_children_along(tmp_path: Path) -> None:
    text = (
        "import sys\nfrom fuzzkv.core.childproc import Child\n"
        "print(Child([sys.executable, '-S', '-c', 'import time; time.sleep(60)']).pid)\n"
    )
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    end = time.monotonic() + 5
    while alive(int(told.stdout)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not alive(int(told.stdout))
