"""Real engines for a hunt or a replay: engine instances in processes of their own, watched from inside, and isolated
controls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fuzzkv.core.results import Failure, class_of
from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.targets.base import Arm, SessionRecipe
from fuzzkv.targets.environments import Environment
from fuzzkv.targets.vllm.content.control import Control
from fuzzkv.targets.vllm.content.judging import TokenJudge
from fuzzkv.targets.vllm.content.oracles import inert_tier
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.kept_log import history_of
from fuzzkv.targets.vllm.language import EngineLanguage
from fuzzkv.targets.vllm.policies import LivePolicy, resolve
from fuzzkv.targets.vllm.pool.engine_pool import Start
from fuzzkv.targets.vllm.pool.fork_server import ForkServer
from fuzzkv.targets.vllm.pool.process import EngineProcess
from fuzzkv.targets.vllm.schedule import LiveSchedule, schedule_from_json
from fuzzkv.targets.vllm.session import EngineSession, Judge

BASE: Final = EngineConfig(pages=128)
"""The plain engine: eight requests of the longest context fit side by side."""

CONTENT: Final = "fuzzkv.targets.vllm.content.oracles:watch_content"
"""What looks on inside an engine: the bytes of every page that a request may read."""
BOUNDARY: Final = "fuzzkv.targets.vllm.plugin.watcher:watch"
"""The same where a user's own code plugs in: vLLM's rules for it."""
UNREADABLE: Final = "FKV110"
"""Pages of some number formats can't be read as numbers; their engines go unwatched, and tokens still tell."""


CAN: Final = frozenset({"hunt", "replay", "explain", "shrink", "gate"})


@dataclass
class EngineTarget:
    """A vLLM, or what stands in for one: ``start`` starts engine instances over ``base``, ``judge`` judges runs, ``unsound_by``
    tells why policies are no use by themselves; ``engine`` is name and version.
    """

    start: Start
    judge: Judge
    engine: str
    base: EngineConfig = BASE
    unsound_by: Callable[[Sequence[LivePolicy]], str] = lambda policies: ""
    name: str = "vllm"
    can: frozenset[str] = CAN
    language: EngineLanguage = field(default_factory=EngineLanguage)

    @property
    def device(self) -> str:
        """ "cpu" or "cuda"."""
        return self.base.device

    @property
    def model(self) -> str:
        """The model that runs where no policy says another."""
        return self.base.model

    def session(self, *, keep: int) -> EngineSession:
        """A session with at most so many engines open."""
        return EngineSession(self.start, self.base, self.judge, keep=keep)

    def unsound(self, policies: Sequence[LivePolicy]) -> str:
        """Why a lossy policy is no use by itself; nothing if it is."""
        return self.unsound_by(policies)

    def remarks(self, arms: Sequence[Arm[LivePolicy]]) -> Failure | None:
        """A host tier that stored pages and never served one, though prompts came back."""
        return inert_tier([arm.history for arm in arms])

    def as_json(self) -> Mapping[str, Any]:
        """The plain engine's configuration."""
        return self.base.as_json()

    def config_of(self, schedule: LiveSchedule) -> Mapping[str, Any]:
        """The plain engine's configuration (the policies say what they change of it), the schedule's pool and chunk."""
        given = schedule.as_json()
        return {"engine": self.base.as_json(), "pool": given["pool"], "chunk": given["chunk"]}

    def kept_history(self, arms: Sequence[Arm[LivePolicy]]) -> Mapping[str, Any] | None:
        """The page-event log of the whole set, and what each arm came to."""
        return history_of(arms)

    def configured_as(self, case: Mapping[str, Any]) -> EngineTarget:
        """These engines over the plain configuration of a case."""
        return replace(self, base=EngineConfig.from_json(case["config"]["engine"]))

    def read(
        self, case: Mapping[str, Any], allowed: Mapping[str, LivePolicy] | None = None
    ) -> SessionRecipe[LiveSchedule, LivePolicy]:
        """The recipe of a case: see :func:`read_engine_case`."""
        return read_engine_case(case, allowed=allowed)


def read_engine_case(
    case: Mapping[str, Any], *, allowed: Mapping[str, LivePolicy] | None = None
) -> SessionRecipe[LiveSchedule, LivePolicy]:
    """What a case says to run; its policies are the engine's own or in ``allowed``: a case never imports code.

    Raises ``UsageError``: FKV001 for a policy that there isn't, FKV006 for another version of one, FKV030 to FKV034 for a
    configuration or event that isn't understood.
    """
    target = case.get("target", "model")
    if target != "vllm":
        cure = "Run it from Python, on its target: docs/adding-a-target.md."
        raise UsageError(
            code="FKV101",
            value=str(case["id"]),
            reason=f"its target is {target}, and this runs cases of vllm",
            cure="Leave --target out." if target == "model" else cure,
        )
    own = allowed or {}
    policies = tuple(
        own[entry["name"]] if entry["name"] in own else resolve([entry["name"]])[0]
        for entry in case["policies"]
    )
    for policy, entry in zip(policies, case["policies"], strict=True):
        if policy.version != entry["version"]:
            raise UsageError(
                code="FKV006",
                value=f"{case['id']}: {policy.name} {entry['version']}",
                reason=f"version {policy.version} is installed",
                cure="Hunt again, or install that release of fuzzkv.",
            )
    config = case["config"]
    schedule = schedule_from_json(
        {"pool": config["pool"], "chunk": config["chunk"], "events": case["schedule"]}
    )
    EngineConfig.from_json(config["engine"])
    return SessionRecipe(schedule, policies, class_of(case))


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
        self._fork_server = ForkServer(self.interpreter)

    def target(self, base: EngineConfig) -> EngineTarget:
        """These engines over a plain configuration."""
        return EngineTarget(self.start, self.judge, self.name, base, self.judge.too_far)

    def start(self, config: EngineConfig) -> EngineProcess:
        """An engine of this configuration.  Raises ``EnvironmentFailure`` with what the engine said."""
        command = self._fork_server.command() if self._fork_server.ready() else None
        foreign = config.tier is not None and bool(config.tier.module or config.tier.spec)
        boundary = (BOUNDARY,) if foreign else ()
        if config.kv_dtype not in self.unwatched:
            try:
                return self._instance(config, (CONTENT, *boundary), command)
            except EnvironmentFailure as error:
                if error.code != UNREADABLE:
                    raise
                self.unwatched.add(config.kv_dtype)
        return self._instance(config, boundary, command)

    def _instance(
        self, config: EngineConfig, watchers: Sequence[str], command: Sequence[str] | None
    ) -> EngineProcess:
        return EngineProcess(config, watchers=watchers, interpreter=self.interpreter, command=command)

    def _control(self, model: str, kv_dtype: str) -> Control:
        command = (
            self._fork_server.command("fuzzkv.targets.vllm.content.control")
            if self._fork_server.ready()
            else ()
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
        self._fork_server.close()
