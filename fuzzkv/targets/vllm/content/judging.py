"""What is wrong with a run of a set on a real engine: what the engine saw itself, and tokens that an isolated control doesn't make.

The control of a set is a plain engine with one request at a time, in the set's number format (a lossy format is compared
with itself alone) and with its model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.content.control import ControlPrompt
from fuzzkv.targets.vllm.content.oracles import Answer, token_violations
from fuzzkv.targets.vllm.engine.probe import NEAR
from fuzzkv.targets.vllm.history import TIE, LiveHistory
from fuzzkv.targets.vllm.policies import LivePolicy, compose
from fuzzkv.targets.vllm.schedule import BLOCK, OUTPUTS, PROMPTS, LiveSchedule, prompt

NEARLY: Final = ("garbled", "context")
"""Words of the content oracle for values that are near the right ones or nobody's."""


class Answers(Protocol):
    """An isolated control."""

    def answers(self, questions: Sequence[ControlPrompt]) -> list[Answer]:
        """One answer a question."""
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass
class TokenJudge:
    """Judges runs with controls that ``control`` makes of a model's name and a number format, each made once.

    ``compared`` counts requests and tokens that were compared, numeric ties, and what was uncertain in a lossy format.
    """

    control: Callable[[str, str], Answers]
    compared: Counter[str] = field(default_factory=Counter)
    _controls: dict[tuple[str, str], Answers] = field(default_factory=dict)

    def __call__(
        self, policies: Sequence[LivePolicy], schedule: LiveSchedule, history: LiveHistory
    ) -> tuple[Failure, ...]:
        """What is wrong with a run.  Raises ``EnvironmentFailure`` if the control fails."""
        if any(violation.action in ("died", "hung") for violation in history.failures):
            return history.failures
        compared = token_violations(history, self._answers(policies, history))
        self.compared["requests"] += compared.requests
        self.compared["tokens"] += compared.tokens
        self.compared["ties"] += compared.ties
        after = len(schedule.events)
        tokens = [replace(v, event=after, stamp=history.steps) for v in compared.failures]
        ties = [Failure("I5", TIE, event=after, stamp=history.steps)] * compared.ties
        return (*self._sure(policies, history, {v.request for v in tokens}), *tokens, *ties)

    def _sure(
        self, policies: Sequence[LivePolicy], history: LiveHistory, differ: set[int]
    ) -> tuple[Failure, ...]:
        """What the engine saw, less what a lossy format alone may come to.

        What deeper layers hold follows from what attention read of the rounded pages below, and one rounding there can change
        all of a page: where a set has a lossy format, values that are nobody's count only if the request's tokens differ too.
        """
        if all(policy.exact for policy in policies):
            return history.failures
        kept = tuple(v for v in history.failures if v.action not in NEARLY or v.request in differ)
        self.compared["uncertain"] += len(history.failures) - len(kept)
        return kept

    def too_far(self, policies: Sequence[LivePolicy]) -> str:
        """Why a lossy policy is no use by itself, or nothing: too few of its first tokens are those of the plain engine.

        (It is compared with itself alone after that, where garbage would agree with garbage.)
        """
        config = compose(policies)
        if all(policy.exact for policy in policies):
            return ""
        asked = [
            ControlPrompt(prompt(a, blocks * BLOCK + 5), 1) for a in range(PROMPTS) for blocks in (1, 3, 5)
        ]
        exact, lossy = (
            self._control(config.model, kv_dtype).answers(asked) for kv_dtype in ("auto", config.kv_dtype)
        )
        same = sum(a.tokens == b.tokens for a, b in zip(exact, lossy, strict=True))
        return (
            "" if same >= NEAR * len(asked) else f"{same} of {len(asked)} first tokens are the plain engine's"
        )

    def close(self) -> None:
        """End the controls."""
        for control in self._controls.values():
            control.close()
        self._controls.clear()

    def _control(self, model: str, kv_dtype: str) -> Answers:
        key = (model, kv_dtype)
        if key not in self._controls:
            self._controls[key] = self.control(*key)
        return self._controls[key]

    def _answers(self, policies: Sequence[LivePolicy], history: LiveHistory) -> list[Answer | None]:
        config = compose(policies)
        control = self._control(config.model, config.kv_dtype)
        adapters = history.adapters or (0,) * len(history.prompts)
        rows = [
            ControlPrompt(tokens, _asked(tokens, made, config.context), adapter) if made else None
            for tokens, made, adapter in zip(history.prompts, history.tokens, adapters, strict=True)
        ]
        asked = list(dict.fromkeys(q for q in rows if q is not None))
        known = dict(zip(asked, control.answers(asked), strict=True)) if asked else {}
        answers: list[Answer | None] = []
        for row, made in zip(rows, history.tokens, strict=True):
            count = len(made) - (made[-1:] == (-1,))
            answer = known.get(row) if row is not None else None
            answers.append(answer and Answer(answer.tokens[:count], answer.gaps[:count]))
        return answers


def _asked(tokens: tuple[int, ...], made: tuple[int, ...], context: int) -> int:
    """How many tokens to ask the control for.  Prompts of arrivals come again, so that one answer serves every schedule; a
    fork's is its own.
    """
    arrived = any(prompt(a, len(tokens)) == tokens for a in range(PROMPTS))
    return max(1, min(OUTPUTS, context - len(tokens)) if arrived else len(made))
