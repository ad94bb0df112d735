"""The isolated control: what a request generates alone on a fresh engine.

A plain engine in a process of its own (vLLM's KV connector is one for a whole process), one request at a
time, no prefix cache, whole prompts. Answers depend on the model, the engine's version, the KV number format,
the adapter and the prompt alone, so they are kept, in memory and in the user's cache folder; a longer answer
serves shorter questions.

``python -m fuzzkv.targets.vllm.content.control CONFIG.json``: the process. Questions and answers are lines of
JSON on its standard input and output.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from fuzzkv.core.cache import cache_root
from fuzzkv.core.childproc import Child, ChildDied, ChildHung
from fuzzkv.core.interpreter import HERE, Interpreter
from fuzzkv.core.scratch import Scratch
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.vllm.content.oracles import Answer
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.engine.internals import environment
from fuzzkv.targets.vllm.engine.models import adapter_digest, model_digest
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.replay.engine import installed

RECIPE: Final = "1"
"""Raise it whenever answers may come out otherwise."""

PATIENCE: Final = 300.0
"""Seconds for one batch of questions, the engine's start included."""


@dataclass(frozen=True)
class ControlPrompt:
    """A prompt, how many greedy tokens are wanted, and the adapter (0: none)."""

    prompt: tuple[int, ...]
    tokens: int
    adapter: int = 0


@dataclass
class Control:
    """Answers of one model at one KV number format. ``folder`` keeps answers (None: the user's cache folder). ``engine`` (name and
    version; by default that of this environment) is what ``interpreter`` has; ``command`` replaces the process. Close it when done;
    its processes start when a question has no kept answer.
    """

    model: str = "tiny"
    kv_dtype: str = "auto"
    device: str = "cpu"
    folder: Path | None = None
    engine: str = ""
    interpreter: Interpreter = HERE
    command: Sequence[str] = ()
    asked: int = 0
    computed: int = 0
    _kept: dict[int, dict[str, Answer]] = field(default_factory=dict, repr=False)
    _workers: dict[bool, _Worker] = field(default_factory=dict, repr=False)

    def answers(self, questions: Sequence[ControlPrompt]) -> list[Answer]:
        """One answer a question. Raises FKV052 (the control died) and FKV053 (it didn't answer)."""
        self.asked += len(questions)
        longest: dict[tuple[int, tuple[int, ...]], ControlPrompt] = {}
        for q in questions:
            if self._known(q) is None and q.tokens > getattr(longest.get((q.adapter, q.prompt)), "tokens", 0):
                longest[q.adapter, q.prompt] = q
        missing = list(longest.values())
        for adapted in (False, True):
            todo = [q for q in missing if bool(q.adapter) == adapted]
            if todo:
                for question, answer in zip(todo, self._worker(adapted).ask(todo), strict=True):
                    self._keep(question, answer)
                self.computed += len(todo)
        found = []
        for question in questions:
            known = self._known(question) or Answer((), ())
            found.append(Answer(known.tokens[: question.tokens], known.gaps[: question.tokens]))
        return found

    def for_history(self, history: LiveHistory) -> list[Answer | None]:
        """Answers to every request of a run, as far as each came; None where it generated nothing."""
        adapters = history.adapters or (0,) * len(history.prompts)
        rows = [
            ControlPrompt(prompt, len(made) - (made[-1:] == (-1,)), number)
            for prompt, made, number in zip(history.prompts, history.tokens, adapters, strict=True)
        ]
        wanted = [q for q in rows if q.tokens]
        answers: dict[ControlPrompt, Answer] = dict(zip(wanted, self.answers(wanted), strict=True))
        return [answers.get(q) for q in rows]

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _worker(self, adapted: bool) -> _Worker:
        # An adapter's rows are asked of an engine that never meets the base model: on some builds a batch mixes them up.
        if adapted not in self._workers:
            config = EngineConfig(
                model=self.model,
                requests=1,
                step_tokens=512,
                kv_dtype=self.kv_dtype,
                device=self.device,
                adapters=2 if adapted else 0,
            )
            command = self.command or self.interpreter.command("fuzzkv.targets.vllm.content.control")
            self._workers[adapted] = _Worker(config, command, self.interpreter)
        return self._workers[adapted]

    def _known(self, question: ControlPrompt) -> Answer | None:
        kept = self._kept.get(question.adapter)
        if kept is None:
            kept = self._kept[question.adapter] = _read(self._file(question.adapter))
        answer = kept.get(_name(question.prompt))
        return answer if answer is not None and len(answer.tokens) >= question.tokens else None

    def _keep(self, question: ControlPrompt, answer: Answer) -> None:
        name = _name(question.prompt)
        self._kept[question.adapter][name] = answer
        line = json.dumps([name, answer.tokens, answer.gaps], separators=(",", ":")) + "\n"
        file = self._file(question.adapter)
        with contextlib.suppress(OSError):  # without a cache folder answers are only computed again
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as f:
                f.write(line)

    def _file(self, number: int) -> Path:
        parts = [RECIPE, self.engine or installed(), model_digest(self.model), self.kv_dtype, self.device]
        # A request's adapter 1 is the first of them.
        parts.append(f"adapter {adapter_digest(number - 1)}" if number else "")
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
        return (self.folder or cache_root() / "live") / f"control-{digest}.ndjson"


def _name(prompt: Sequence[int]) -> str:
    return hashlib.sha256(",".join(map(str, prompt)).encode()).hexdigest()[:24]


def _read(file: Path) -> dict[str, Answer]:
    kept: dict[str, Answer] = {}
    with contextlib.suppress(OSError), file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):  # a line cut short by a kill
                name, tokens, gaps = json.loads(line)
                if len(tokens) == len(gaps) and len(tokens) > len(kept.get(name, Answer((), ())).tokens):
                    kept[name] = Answer(tuple(map(int, tokens)), tuple(map(float, gaps)))
    return kept


class _Worker:
    """The process, as its parent sees it."""

    def __init__(self, config: EngineConfig, command: Sequence[str], interpreter: Interpreter = HERE) -> None:
        self._scratch = Scratch()
        self.child = Child(
            [*command, json.dumps(config.as_json())],
            environment=interpreter.environment(environment(), self._scratch),
            log=self._scratch.folder / "control.log",
            stdin=True,
            answers="stdout",
        )

    def ask(self, questions: Sequence[ControlPrompt]) -> list[Answer]:
        """Answers, in order."""
        self.child.send(json.dumps([[q.prompt, q.tokens, q.adapter] for q in questions]).encode())
        try:
            reply = json.loads(self.child.line(PATIENCE))
        except ChildHung as hang:
            raise _failure("FKV053", f"no answer in {hang.seconds:g} s") from hang
        except ChildDied as death:
            last = death.words.rpartition(" | ")[2]
            raise _failure("FKV052", f"exit status {death.status} {last}".strip()) from death
        if "error" in reply:
            raise _failure("FKV052", reply["error"])
        return [Answer(tuple(tokens), tuple(gaps)) for tokens, gaps in reply["answers"]]

    def close(self) -> None:
        """Kill its process group."""
        self.child.kill()
        self._scratch.remove()


def _failure(code: str, reason: str) -> EnvironmentFailure:
    return EnvironmentFailure(
        code=code,
        value="the control engine",
        reason=reason[:500],
        cure="Run 'fuzzkv policies --target vllm' to see what this build can do.",
    )


def main(argv: list[str]) -> int:
    """Answer questions until the input ends."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the engine prints is no answer
    try:
        from fuzzkv.targets.vllm.engine.internals import LiveEngine

        engine = LiveEngine(EngineConfig.from_json(json.loads(argv[0])))
    except Exception as e:
        _say(channel, {"error": f"{type(e).__name__}: {e}"})
        return 1
    for line in sys.stdin:
        answers = []
        for prompt, tokens, number in json.loads(line):
            answers.append(_alone(engine, tuple(prompt), tokens, number))
        _say(channel, {"answers": answers})
    return 0


def _alone(engine: Any, prompt: tuple[int, ...], tokens: int, number: int) -> list[list[Any]]:
    at = engine.add(prompt, tokens, 0, number)
    while engine.busy():
        engine.step()
    request = engine.requests[at]
    return [list(request.tokens), [round(x, 6) for x in request.margins]]


def _say(channel: TextIO, data: dict[str, Any]) -> None:
    channel.write(json.dumps(data, separators=(",", ":")) + "\n")
    channel.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
