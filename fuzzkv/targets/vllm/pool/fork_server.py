"""Engines that start in a third of the time: a process that has imported the engine once, and forks for every engine.

Importing vLLM costs more than making an engine of it.  The fork server does that once, before it has threads or a device, and
then waits; :meth:`ForkServer.command` is what is started in the place of a worker (or a control): a small process that hands
its own streams over, stands for the engine (its exit is the engine's exit, its death is the engine's death), and passes signals
on.  Both are :mod:`fuzzkv.targets.vllm.pool.fork_server_main`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from fuzzkv.core.childproc import Child, ChildHung
from fuzzkv.core.interpreter import HERE, Interpreter
from fuzzkv.core.scratch import Scratch
from fuzzkv.targets.vllm.engine.internals import environment

PATIENCE: Final = 240.0
"""Seconds in which a fork server has to be ready."""
ENDS: Final = 5.0
"""Seconds in which it has to end when it is told to."""
SERVER: Final = Path(__file__).with_name("fork_server_main.py")


class ForkServer:
    """A fork server of this process, in ``interpreter``.  It ends with :meth:`close`, and when this process is gone."""

    def __init__(self, interpreter: Interpreter = HERE) -> None:
        self._scratch = Scratch()
        self.folder, self._python = self._scratch.folder, interpreter.python or sys.executable
        self.socket = self.folder / "s"
        self._child = Child(
            [*interpreter.command("fuzzkv.targets.vllm.pool.fork_server_main"), str(self.socket)],
            environment=interpreter.environment(environment(), self._scratch),
            log=self.folder / "log",
            stdin=True,
        )

    def ready(self) -> bool:
        """Wait until it takes engines; False if it died or took too long, and workers have to start by themselves."""
        end = time.monotonic() + PATIENCE
        while not self.socket.exists():
            if self._child.status is not None or time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def command(self, module: str = "fuzzkv.targets.vllm.engine.worker") -> tuple[str, ...]:
        """What to start in the place of ``python -m MODULE``; its argument follows, and a descriptor that it needs."""
        return (self._python, "-S", "-E", "-P", str(SERVER), str(self.socket), module)

    def close(self) -> None:
        """End it, the engines that are left, and what they have left in the temporary folder."""
        self._child.end_input()
        try:
            self._child.wait(ENDS)
        except ChildHung:
            pass
        finally:
            self._child.kill()
            self._scratch.remove()
