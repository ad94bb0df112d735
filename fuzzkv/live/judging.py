"""What is wrong with a run of a set on a real engine: what the life saw itself, and tokens that an isolated control doesn't make.

The control of a set is a plain engine with one request at a time, in the set's number format (a lossy format is compared
with itself alone) and with its model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from fuzzkv.live.arms import TIE
from fuzzkv.live.control import Question
from fuzzkv.live.history import LiveHistory, LiveViolation
from fuzzkv.live.oracles import Answer, token_violations
from fuzzkv.live.policies import LivePolicy, compose
from fuzzkv.live.schedule import OUTPUTS, LiveSchedule


class Answers(Protocol):
    """An isolated control."""

    def answers(self, questions: Sequence[Question]) -> list[Answer]:
        """One answer a question."""
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass
class TokenJudge:
    """Judges runs with controls that ``control`` makes of a model's name and a number format, each made once.

    ``compared`` counts requests and tokens that were compared, and numeric ties.
    """

    control: Callable[[str, str], Answers]
    compared: dict[str, int] = field(default_factory=lambda: {"requests": 0, "tokens": 0, "ties": 0})
    _controls: dict[tuple[str, str], Answers] = field(default_factory=dict)

    def __call__(
        self, policies: Sequence[LivePolicy], schedule: LiveSchedule, history: LiveHistory
    ) -> tuple[LiveViolation, ...]:
        """What is wrong with a run.  Raises ``EnvironmentFailure`` if the control fails."""
        if any(violation.what in ("died", "hung") for violation in history.violations):
            return history.violations
        compared = token_violations(history, self._answers(policies, history))
        self.compared["requests"] += compared.requests
        self.compared["tokens"] += compared.tokens
        self.compared["ties"] += compared.ties
        after = len(schedule.events)
        tokens = [replace(v, event=after, step=history.steps) for v in compared.violations]
        ties = [LiveViolation("I5", TIE, after, history.steps)] * compared.ties
        return (*history.violations, *tokens, *ties)

    def close(self) -> None:
        """End the controls."""
        for control in self._controls.values():
            control.close()
        self._controls.clear()

    def _answers(self, policies: Sequence[LivePolicy], history: LiveHistory) -> list[Answer | None]:
        config = compose(policies)
        key = (config.model, config.kv_dtype)
        if key not in self._controls:
            self._controls[key] = self.control(*key)
        adapters = history.adapters or (0,) * len(history.prompts)
        # As many tokens as a request can ever be asked for: the answer then serves every schedule.
        rows = [
            Question(prompt, max(1, min(OUTPUTS, config.context - len(prompt))), adapter) if made else None
            for prompt, made, adapter in zip(history.prompts, history.tokens, adapters, strict=True)
        ]
        asked = list(dict.fromkeys(q for q in rows if q is not None))
        known = dict(zip(asked, self._controls[key].answers(asked), strict=True)) if asked else {}
        answers: list[Answer | None] = []
        for row, made in zip(rows, history.tokens, strict=True):
            count = len(made) - (made[-1:] == (-1,))
            answer = known.get(row) if row is not None else None
            answers.append(answer and Answer(answer.tokens[:count], answer.gaps[:count]))
        return answers
