"""The control's bookkeeping, with a process of ours in the place of the engine's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.core.interpreter import Interpreter
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.targets.vllm.content import control as module
from fuzzkv.targets.vllm.content.control import Control, ControlPrompt
from fuzzkv.targets.vllm.content.oracles import Answer
from fuzzkv.targets.vllm.engine.config import EngineConfig
from fuzzkv.targets.vllm.history import LiveHistory


class Fake:
    """Generates the prompt's sum, counting upwards."""

    def __init__(self, config: EngineConfig, command: Sequence[str], interpreter: Interpreter) -> None:
        self.config, self.asked, self.closed = config, 0, False

    def ask(self, questions: Sequence[ControlPrompt]) -> list[Answer]:
        self.asked += len(questions)
        return [
            Answer(tuple(sum(q.prompt) + q.adapter + i for i in range(q.tokens)), (0.5,) * q.tokens)
            for q in questions
        ]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "_Worker", Fake)
    return tmp_path


def test_answers_are_kept_in_memory_and_on_disk(kept: Path) -> None:
    with Control(folder=kept) as control:
        (answer,) = control.answers([ControlPrompt((1, 2), 3)])
        assert answer == Answer((3, 4, 5), (0.5,) * 3)
        assert control.answers([ControlPrompt((1, 2), 2)]) == [Answer((3, 4), (0.5,) * 2)]
        assert (control.asked, control.computed) == (2, 1)
    with Control(folder=kept) as control:
        assert control.answers([ControlPrompt((1, 2), 3)]) == [answer]
        assert control.computed == 0
        assert control.answers([ControlPrompt((1, 2), 4)])[0].tokens == (3, 4, 5, 6), (
            "a longer one is asked for"
        )
        assert control.computed == 1


def test_the_longest_of_several_questions_is_asked(kept: Path) -> None:
    with Control(folder=kept) as control:
        rows = control.answers([ControlPrompt((1, 2), 1), ControlPrompt((1, 2), 3), ControlPrompt((1, 2), 2)])
        assert [len(a.tokens) for a in rows] == [1, 3, 2] and control.computed == 1


def test_adapters_and_formats_have_answers_of_their_own(kept: Path) -> None:
    with Control(folder=kept) as control:
        rows = control.answers(
            [ControlPrompt((1, 2), 1), ControlPrompt((1, 2), 1, 1), ControlPrompt((1, 2), 1, 2)]
        )
        assert [a.tokens for a in rows] == [(3,), (4,), (5,)]
        configs = {adapted: w.config.adapters for adapted, w in control._workers.items()}  # type: ignore[attr-defined]
        assert configs == {False: 0, True: 2}, "the base model is asked where no adapter is loaded"
    with Control(folder=kept, kv_dtype="fp8") as control:
        control.answers([ControlPrompt((1, 2), 1)])
        assert control.computed == 1


def test_a_line_cut_short_is_passed_over(kept: Path) -> None:
    with Control(folder=kept) as control:
        control.answers([ControlPrompt((1, 2), 1)])
    (file,) = kept.glob("*.ndjson")
    file.write_text(file.read_text() + '["abc", [1, 2', encoding="utf-8")
    with Control(folder=kept) as control:
        control.answers([ControlPrompt((1, 2), 1)])
        assert control.computed == 0


def test_a_whole_run_is_asked_as_far_as_it_came(kept: Path) -> None:
    history = LiveHistory(tokens=((3, 4), (7, -1), (-1,)), prompts=((1, 2), (3, 4), (5, 6)))
    with Control(folder=kept) as control:
        answers = control.for_history(history)
    assert answers == [Answer((3, 4), (0.5, 0.5)), Answer((7,), (0.5,)), None]


def test_without_a_folder_answers_are_computed_all_the_same(kept: Path) -> None:
    (kept / "taken").write_text("")
    with Control(folder=kept / "taken") as control:
        assert control.answers([ControlPrompt((1, 2), 1)])[0].tokens == (3,)


def process(text: str) -> Any:
    """A control whose process runs ``text``."""
    return module._Worker(EngineConfig(), (sys.executable, "-c", text))


def test_a_process_that_dies_is_an_error_with_its_last_words() -> None:
    worker = process("import sys; sys.stdin.readline(); sys.exit('out of memory')")
    with pytest.raises(EnvironmentFailure, match=r"FKV052.*out of memory"):
        worker.ask([ControlPrompt((1,), 1)])
    worker.close()


def test_a_process_that_reports_an_error() -> None:
    worker = process("""print('{"error": "ValueError: no"}')""")
    with pytest.raises(EnvironmentFailure, match=r"FKV052.*(ValueError: no|exit status 0)"):
        worker.ask([ControlPrompt((1,), 1)])
    worker.close()


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    worker = process("import time; time.sleep(60)")
    with pytest.raises(EnvironmentFailure, match="FKV053"):
        worker.ask([ControlPrompt((1,), 1)])
    assert worker.child.status is not None
