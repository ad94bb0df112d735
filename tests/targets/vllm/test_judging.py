"""Judging a run by an isolated control: whom it asks, and what becomes of differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.content.control import ControlPrompt
from fuzzkv.targets.vllm.content.judging import TokenJudge
from fuzzkv.targets.vllm.content.oracles import NOISE, Answer
from fuzzkv.targets.vllm.history import TIE, LiveHistory
from fuzzkv.targets.vllm.policies import resolve
from fuzzkv.targets.vllm.schedule import LiveSchedule, prompt

EXACT = resolve(["vllm:prefix-cache"])
LOSSY = resolve(["vllm:kv-fp8", "vllm:sliding-window"])


class Control:
    """Says 100, 101, 102 ... with a gap of ``gap``."""

    def __init__(self, gap: float) -> None:
        self.gap, self.asked, self.closed = gap, [], False  # type: ignore[var-annotated]

    def answers(self, questions: Sequence[ControlPrompt]) -> list[Answer]:
        self.asked += questions
        return [Answer(tuple(range(100, 100 + q.tokens)), (self.gap,) * q.tokens) for q in questions]

    def close(self) -> None:
        self.closed = True


def judged(history: LiveHistory, gap: float = 1.0) -> tuple[tuple[Failure, ...], Control]:
    control = Control(gap)
    judge = TokenJudge(lambda model, kv_dtype: control)
    found = judge(EXACT, LiveSchedule(events=(("step", 1, 0, 0),)), history)
    judge.close()
    assert control.closed or not control.asked
    return found, control


def run(*tokens: tuple[int, ...], failures: tuple[Failure, ...] = ()) -> LiveHistory:
    prompts = (prompt(0, 40), (5, 6, 7), prompt(0, 40))[: len(tokens)]
    return LiveHistory(tokens=tokens, prompts=prompts, steps=7, failures=failures)


def test_same_tokens_are_no_violation() -> None:
    found, control = judged(run((100, 101), (100, -1), (100, 101, 102)))
    assert found == ()
    # An arrival's prompt is asked for once and for all; a fork's own one as far as it came.
    assert [(len(q.prompt), q.tokens) for q in control.asked] == [(40, 40), (3, 2)]


def test_other_tokens_are_one() -> None:
    (violation,), _ = judged(run((100, 7)))
    assert (violation.action, violation.request, violation.event, violation.stamp) == ("token", 0, 1, 7)
    assert "alone it is 101" in violation.text


def test_a_near_tie_is_none() -> None:
    (tie,), _ = judged(run((100, 7)), gap=NOISE / 2)
    assert tie.action == TIE


def test_what_the_life_saw_comes_first() -> None:
    own = Failure("I2", "foreign", event=0, stamp=3, request=0, page=5)
    found, _ = judged(run((100, 7), failures=(own,)))
    assert found[0] == own and found[1].action == "token" and found[1].invariant == "I2"


def test_a_dead_life_is_asked_nothing() -> None:
    death = Failure("I13", "died")
    found, control = judged(run((1,), failures=(death,)))
    assert found == (death,) and not control.asked


def test_requests_without_tokens_are_not_asked_about() -> None:
    assert judged(run(()))[1].asked == []


def test_the_control_has_the_sets_model_and_number_format() -> None:
    made: list[tuple[str, str]] = []

    def control(model: str, kv_dtype: str) -> Control:
        made.append((model, kv_dtype))
        return Control(1.0)

    judge = TokenJudge(control)
    for policies in (EXACT, LOSSY, (), LOSSY):
        judge(policies, LiveSchedule(), run((100,)))
    assert made == [("tiny", "auto"), ("hybrid", "fp8")]
    assert judge.compared == Counter(requests=4, tokens=4)


def test_garbage_that_agrees_with_itself_is_found() -> None:
    class Off(Control):
        def answers(self, questions: Sequence[ControlPrompt]) -> list[Answer]:
            return [Answer((7,), (1.0,)) for _ in questions]

    judge = TokenJudge(lambda model, kv_dtype: Control(1.0) if kv_dtype == "auto" else Off(1.0))
    assert judge.too_far(LOSSY) == "0 of 24 first tokens are the plain engine's"
    assert judge.too_far(EXACT) == "" == TokenJudge(lambda model, kv_dtype: Control(1.0)).too_far(LOSSY)


def test_in_a_lossy_format_values_alone_are_uncertain() -> None:
    seen = tuple(
        Failure("I5", what, event=0, stamp=1, request=0, page=3) for what in ("garbled", "context", "foreign")
    )
    judge = TokenJudge(lambda model, kv_dtype: Control(1.0))
    same, other = run((100, 101), failures=seen), run((100, 7), failures=seen)
    assert [v.action for v in judge(LOSSY, LiveSchedule(), same)] == ["foreign"]
    assert judge.compared["uncertain"] == 2
    assert [v.action for v in judge(LOSSY, LiveSchedule(), other)] == [
        "garbled",
        "context",
        "foreign",
        "token",
    ]
    assert [v.action for v in judge(EXACT, LiveSchedule(), same)] == ["garbled", "context", "foreign"]
