"""The fork server of engines, and the small process that stands for each engine.

``python -m fuzzkv.targets.vllm.pool.fork_server_main SOCKET``: the server.
``python fork_server_main.py SOCKET MODULE ARGUMENT [FD]``: the stand-in.

:mod:`fuzzkv.targets.vllm.pool.fork_server` starts both.  Standard library only at the top: a stand-in is run as a file,
without the package on its path.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Final

FDS: Final = 4
WORD: Final = b"U"
"""A stand-in's word for SIGUSR1: write down where you are."""


def stand_in(argv: Sequence[str]) -> int:
    """Hand this process's streams to the fork server, wait for the engine's end, and end in the same way."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(argv[0])
    signal.signal(signal.SIGUSR1, lambda number, frame: link.sendall(WORD))
    streams = array.array("i", [0, 1, 2, *map(int, argv[3:])])
    word = "\n".join(argv[1:3]).encode()
    link.sendmsg([word], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams.tobytes())])
    for stream in streams:
        # The other ends have to see when the engine closes them.
        os.close(stream)
    said = b""
    while data := link.recv(64):
        said += data
    status = int(said or b"1")
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def main(argv: Sequence[str]) -> int:
    """Import the engine, then fork an engine for every stand-in, until the standard input ends."""
    gc.disable()
    _import_engine()
    gc.collect()
    gc.freeze()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(f"{argv[0]}.new")
    server.listen(16)
    os.rename(f"{argv[0]}.new", argv[0])
    instances: dict[int, socket.socket] = {}
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _nothing)
    with selectors.DefaultSelector() as selector:
        for source in (server, waker, sys.stdin.fileno()):
            selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is server:
                    _adopt(server, instances, selector)
                elif key.fd == sys.stdin.fileno():
                    for pid in instances:
                        _kill(pid, signal.SIGKILL)
                    return 0
                elif key.fd == waker:
                    os.read(waker, 4096)
                    _bury(instances, selector)
                else:
                    _heed(key.data, instances)


def _import_engine() -> None:
    from vllm import SamplingParams  # noqa: F401
    from vllm.engine.arg_utils import EngineArgs  # noqa: F401
    from vllm.v1.engine.core import EngineCore  # noqa: F401
    from vllm.v1.executor import Executor  # noqa: F401

    import fuzzkv.targets.vllm.content.control
    import fuzzkv.targets.vllm.content.oracles
    import fuzzkv.targets.vllm.engine.worker  # noqa: F401


def _adopt(
    server: socket.socket, instances: dict[int, socket.socket], selector: selectors.BaseSelector
) -> None:
    link, _ = server.accept()
    word, ancillary, _, _ = link.recvmsg(1 << 16, socket.CMSG_SPACE(FDS * array.array("i").itemsize))
    streams = array.array("i")
    for _, _, data in ancillary:
        streams.frombytes(data[: len(data) - len(data) % streams.itemsize])
    pid = os.fork()
    if pid == 0:
        _live(word.decode().split("\n", 1), streams.tolist(), [server.fileno(), link.fileno()])
    for stream in streams:
        os.close(stream)
    instances[pid] = link
    selector.register(link, selectors.EVENT_READ, pid)


def _live(word: Sequence[str], streams: Sequence[int], others: Sequence[int]) -> None:
    """The engine, in the child: ``word`` is its module and argument.  It never returns."""
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in enumerate(streams[:3]):
            os.dup2(stream, number)
        for other in (*others, *streams[:3]):
            os.close(other)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        gc.enable()
        work = importlib.import_module(word[0]).main
        status = work([word[1], *map(str, streams[3:])])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _bury(instances: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        if (link := instances.pop(pid, None)) is not None:
            selector.unregister(link)
            with contextlib.suppress(OSError):
                link.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            link.close()


def _heed(pid: int, instances: dict[int, socket.socket]) -> None:
    if pid in instances:
        with contextlib.suppress(OSError):
            if instances[pid].recv(64):
                _kill(pid, signal.SIGUSR1)
                return
        _kill(pid, signal.SIGKILL)  # nobody stands for it any more


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _nothing(number: int, frame: FrameType | None) -> None:
    """A child ended: the wake-up descriptor says so."""


if __name__ == "__main__":
    raise SystemExit(stand_in(sys.argv[1:]) if len(sys.argv) > 2 else main(sys.argv[1:]))
