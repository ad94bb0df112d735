"""Live schedules as data, as Hypothesis draws them, and as the portfolio does."""

from __future__ import annotations

import random

import pytest
from hypothesis import Phase, find, settings

from fuzzkv.errors import UsageError
from fuzzkv.strategies.numbers import Numbers
from fuzzkv.strategies.ways import as_choices, plain
from fuzzkv.targets.vllm.portfolio import EnginePortfolio, Form
from fuzzkv.targets.vllm.schedule import (
    BLOCK,
    BOUNDS,
    LONGEST,
    OPS,
    PROMPTS,
    SHARED,
    LiveSchedule,
    blocks,
    fits,
    prompt,
    schedule_from_json,
    size,
    tail,
)
from fuzzkv.targets.vllm.strategy import LIVE, WEIGHTS, live_schedules, live_space, returns
from tests.drawn import drawn, drawn_from


def test_prompts_share_their_beginnings_and_nothing_else() -> None:
    whole = [prompt(a, 6 * BLOCK) for a in range(PROMPTS)]
    for a in range(PROMPTS):
        for b in range(a):
            base, count = SHARED.get(a, (-1, 0))
            shared = count * BLOCK if base == b else 0
            assert whole[a][:shared] == whole[b][:shared]
            assert not set(whole[a][shared:]) & set(whole[b][shared:] if shared else whole[b])
    assert all(16 <= token < 512 for tokens in whole for token in tokens)
    assert prompt(3, 40) == prompt(3, 200)[:40]


def test_tails_are_of_their_request() -> None:
    assert tail(1, 40) == tail(1, 64)[:40] and tail(1, 40) != tail(9, 40)
    assert set(tail(1, 64)) <= set(prompt(1, 2000)[3 * BLOCK :])


@pytest.mark.parametrize(("code", "tokens"), [(0, 1), (3, 1), (4, 32), (5, 33), (6, 48), (7, 31), (27, 191)])
def test_sizes(code: int, tokens: int) -> None:
    assert size(code) == tokens


def test_what_could_not_finish_alone_does_not_fit() -> None:
    assert blocks(32) == 1 and blocks(33) == 2
    assert fits(64, 32, pool=4, context=512) and not fits(64, 33, pool=4, context=512)
    assert not fits(500, 13, pool=99, context=512)
    assert fits(64, 32, pool=8, context=512, groups=2) and not fits(64, 32, pool=7, context=512, groups=2)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"pool": 3, "chunk": 64, "events": []}, "FKV032"),
        ({"pool": 9, "chunk": 7, "events": []}, "FKV032"),
        ({"pool": True, "chunk": 64, "events": []}, "FKV032"),
        ({"pool": 9, "chunk": 64, "events": [], "adapter": 4}, "FKV032"),
        ({"pool": 9, "events": []}, "FKV033"),
        ({"pool": 9, "chunk": 64, "events": [["step", 1, 0]]}, "FKV033"),
        ({"pool": 9, "chunk": 64, "events": [["step", 0, 0, 0]]}, "FKV033"),
        ({"pool": 9, "chunk": 64, "events": [["arrive", 0, 28, 1]]}, "FKV033"),
        ({"pool": 9, "chunk": 64, "events": [["arrive", 0, 4, True]]}, "FKV033"),
        ({"pool": 9, "chunk": 64, "events": [["sleep", 0, 0, 0]]}, "FKV034"),
        ({"pool": 9, "chunk": 64, "events": [["step", 1, 0, 0]] * 1001}, "FKV033"),
    ],
)
def test_what_is_no_schedule(data: dict[str, object], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        schedule_from_json(data)
    assert caught.value.code == code


def test_an_adapter_is_told_where_there_is_one() -> None:
    assert "adapter" not in LiveSchedule(9, 64).as_json()
    assert schedule_from_json(LiveSchedule(9, 64, (), 2).as_json()).adapter == 2


def test_every_drawn_schedule_has_its_choices() -> None:
    for schedule in drawn(live_schedules(), 60):
        assert len(schedule.events) <= LONGEST
        assert schedule_from_json(schedule.as_json()) == schedule
        assert drawn_from(plain(LIVE), choices(schedule)) == schedule
    assert set(WEIGHTS) == set(OPS) == set(BOUNDS) == set(LIVE.names)


def choices(schedule: LiveSchedule) -> bytes:
    return as_choices(LIVE, schedule)


def test_what_has_no_choices() -> None:
    with pytest.raises(ValueError, match="not in"):
        choices(LiveSchedule(47, 256, ()))
    with pytest.raises(ValueError, match="more than"):
        choices(LiveSchedule(48, 256, (("step", 1, 0, 0),) * (LONGEST + 1)))
    with pytest.raises(ValueError, match="adapter 1"):
        choices(LiveSchedule(48, 256, (), 1))
    with pytest.raises(ValueError, match="next: 2 is not from 0 to 1"):
        as_choices(live_space(adapters=1), LiveSchedule(48, 256, (("next", 0, 2, 0),)))


def test_with_a_tier_a_prompt_comes_again() -> None:
    for seed in range(20):
        rows = returns(LIVE, Numbers(random.Random(seed).randbytes(120)))
        assert [name for name, _ in rows[:2]] == ["arrive", "step"] and ("hold", (1, 0, 0)) in rows
        prompt, size, _ = rows[0][1]
        held = rows.index(("hold", (1, 0, 0)))
        again = [numbers for name, numbers in rows[held:] if name == "arrive" and numbers[0] == prompt]
        assert any(size <= numbers[1] <= size + 3 for numbers in again)
        schedule_from_json(LIVE.make((48, 256), rows).as_json())
    assert live_space().ways == (returns,) and live_space(tier=False).ways == ()


def test_hypothesis_shrinks_to_the_smallest() -> None:
    def two_forks_of_an_abort(schedule: LiveSchedule) -> bool:
        ops = [event[0] for event in schedule.events]
        return "abort" in ops and "fork" in ops[ops.index("abort") :]

    found = find(
        live_schedules(),
        two_forks_of_an_abort,
        settings=settings(max_examples=2000, database=None, phases=[Phase.generate, Phase.shrink]),
    )
    assert found == LiveSchedule(48, 256, (("abort", 0, 0, 0), ("fork", 0, 0, 1)))


def test_a_portfolio_draws_the_same_from_the_same_seed() -> None:
    def made(seed: str, keep: bool) -> list[LiveSchedule]:
        portfolio = EnginePortfolio(Form(adapters=2), seed)
        rows = []
        for number in range(60):
            rows.append(portfolio.draw())
            if keep and number % 3 == 0:
                portfolio.keep(rows[-1])
        return rows

    assert made("1", True) == made("1", True) != made("2", True)
    assert made("1", True) != made("1", False)
    assert all(8 <= s.pool <= 48 and len(s.events) <= LONGEST for s in made("1", True))


def test_a_numbered_schedule_stays_the_same() -> None:
    portfolio = EnginePortfolio(Form(adapters=2), "1")
    first = [portfolio.numbered(number) for number in (5, 0, 7)]
    for schedule in first:
        portfolio.keep(schedule)
    later = portfolio.numbered(8)
    assert [portfolio.numbered(number) for number in (5, 0, 7, 8)] == [*first, later]
    assert len({*first, later}) == 4 and EnginePortfolio(Form(adapters=2), "1").numbered(0) == first[1]


def test_a_form_leaves_out_what_means_nothing() -> None:
    def ops(form: Form) -> set[str]:
        portfolio = EnginePortfolio(form, "0")
        rows = [portfolio.draw() for _ in range(100)]
        for row in rows[:5]:
            portfolio.keep(row)
        rows += [portfolio.draw() for _ in range(100)]
        assert all(event[2] <= form.adapters for row in rows for event in row.events if event[0] == "next")
        return {event[0] for row in rows for event in row.events}

    assert ops(Form(adapters=1)) == set(OPS)
    assert ops(Form(tier=False)) == set(OPS) - {"hold", "complete", "fail", "short"}


def test_few_schedules_are_kept() -> None:
    portfolio = EnginePortfolio(Form(), "0")
    for _ in range(300):
        portfolio.keep(portfolio.draw())
    assert len(portfolio.kept) == 200
