"""Real engines for a hunt or a replay: engine instances in processes of their own, watched from inside, and isolated
controls.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.environments import Environment
from fuzzkv.targets.vllm.content.control import Control
from fuzzkv.targets.vllm.content.judging import TokenJudge
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.pool.fork_server import Nursery
from fuzzkv.targets.vllm.pool.process import ProcessLife

CONTENT: Final = "fuzzkv.targets.vllm.content.oracles:watch_content"
"""What looks on inside a life: the bytes of every page that a request may read."""
BOUNDARY: Final = "fuzzkv.targets.vllm.plugin.watcher:watch"
"""The same where a user's own code plugs in: vLLM's rules for it."""
UNREADABLE: Final = "FKV110"
"""Pages of some number formats can't be read as numbers; their lives go unwatched, and tokens still tell."""


class Engines:
    """Starts engine instances on a device in an environment and judges their runs.  ``name`` is the engine's name and
    version; ``unwatched`` the number formats whose pages can't be read.

    Raises ``EnvironmentFailure``: FKV050 where no engine is installed, FKV051 for a version that was never tried.
    """

    def __init__(self, device: str, environment: Environment) -> None:
        # The n-gram proposer is compiled for several threads, and its pool widens torch's own, where small steps then wait.
        os.environ.setdefault("NUMBA_NUM_THREADS", "1")
        self.device = device
        self.name = environment.required(device)
        self.interpreter = environment.interpreter
        self.judge = TokenJudge(self._control)
        self.unwatched: set[str] = set()
        self._nursery = Nursery(self.interpreter)

    def start(self, config: EngineConfig) -> ProcessLife:
        """A life of this configuration.  Raises ``EnvironmentFailure`` with what the engine said."""
        command = self._nursery.command() if self._nursery.ready() else None
        foreign = config.tier is not None and bool(config.tier.module or config.tier.spec)
        boundary = (BOUNDARY,) if foreign else ()
        if config.kv_dtype not in self.unwatched:
            try:
                return self._life(config, (CONTENT, *boundary), command)
            except EnvironmentFailure as error:
                if error.code != UNREADABLE:
                    raise
                self.unwatched.add(config.kv_dtype)
        return self._life(config, boundary, command)

    def _life(
        self, config: EngineConfig, watchers: Sequence[str], command: Sequence[str] | None
    ) -> ProcessLife:
        return ProcessLife(config, watchers=watchers, interpreter=self.interpreter, command=command)

    def _control(self, model: str, kv_dtype: str) -> Control:
        command = (
            self._nursery.command("fuzzkv.targets.vllm.content.control") if self._nursery.ready() else ()
        )
        return Control(
            model,
            kv_dtype,
            self.device,
            engine=self.name,
            interpreter=self.interpreter,
            command=command,
        )

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, *_: object) -> None:
        self.judge.close()
        self._nursery.close()
