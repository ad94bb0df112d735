"""Every page action is real: each test fails if the worker only pretended. Runs on the exactness model."""

from __future__ import annotations

from typing import Any

import pytest

from fuzzkv.errors import FuzzkvError
from fuzzkv.targets.vllm.replay.task import Context, random_context

pytestmark = pytest.mark.engine


@pytest.fixture
def opened(tiny: Any) -> Any:
    """Two sessions of four pages, and their contexts; released afterwards."""
    contexts = [random_context(tiny.vocabulary, 4, seed) for seed in (11, 12)]
    sessions = tiny.open([c.tokens for c in contexts])
    yield sessions, contexts
    tiny.release(sessions)
    assert not tiny.absent.any()


def answers(tiny: Any, opened: tuple[list[Any], list[Context]]) -> list[list[int]]:
    sessions, contexts = opened
    rows = tiny.decode([(s, c.questions[1][0].cue) for s, c in zip(sessions, contexts, strict=True)], 8)
    return [[token for token, _ in row] for row in rows]


def finite(tiny: Any, blocks: list[int]) -> bool:
    return all(bool(t.isfinite().all()) for t in tiny.copy_out(blocks))


def test_forced_scores_agree_with_greedy_decoding(tiny: Any, opened: Any) -> None:
    sessions, contexts = opened
    cue, gold = contexts[0].questions[1][0].cue, answers(tiny, opened)[0]
    other = (gold[2] + 1) % tiny.vocabulary
    good, bad = tiny.score([(sessions[0], cue, gold), (sessions[0], cue, [*gold[:2], other])])
    assert [s.rank for s in good] == [1] * 8 and all(s.gap == 0 for s in good)
    assert [s.rank for s in bad[:2]] == [1, 1] and bad[2].rank > 1 and bad[2].gap > 0
    assert bad[2].logprob == pytest.approx(good[2].logprob - bad[2].gap, abs=1e-4)
    single = tiny.score([(sessions[0], (*cue, *gold[:3]), gold[3:4])])[0][0]
    assert single.logprob == pytest.approx(good[3].logprob, abs=1e-3)


def test_offload_and_restore_is_token_identical(tiny: Any, opened: Any) -> None:
    before, blocks = answers(tiny, opened), [s.blocks[2] for s in opened[0]]
    data = tiny.copy_out(blocks)
    tiny.poison(blocks)
    tiny.mark(blocks, absent=True)
    assert not finite(tiny, blocks)
    tiny.copy_in(blocks, data)
    tiny.mark(blocks, absent=False)
    assert answers(tiny, opened) == before


def test_restoring_stale_bytes_is_seen(tiny: Any, opened: Any) -> None:
    before, sessions = answers(tiny, opened), opened[0]
    data = tiny.copy_out([sessions[0].blocks[1]])
    tiny.copy_in([sessions[0].blocks[2]], data)
    after = answers(tiny, opened)
    assert after[0] != before[0] and after[1] == before[1]


def test_poison_that_is_read_breaks_the_answer(tiny: Any, opened: Any) -> None:
    sessions, contexts = opened
    tiny.poison([sessions[0].blocks[2]])  # and not left out
    broken, healthy = tiny.score(
        [(s, c.questions[1][0].cue, [7]) for s, c in zip(sessions, contexts, strict=True)]
    )
    assert broken[0].logprob != broken[0].logprob
    assert healthy[0].logprob == healthy[0].logprob


def test_an_absent_page_is_not_read(tiny: Any, opened: Any) -> None:
    before, sessions = answers(tiny, opened), opened[0]
    builds, block = tiny.reduced_builds, sessions[0].blocks[2]
    tiny.mark([block], absent=True)
    without = answers(tiny, opened)
    assert tiny.reduced_builds > builds
    assert without[0] != before[0], "the page was still attended"
    assert without[1] == before[1], "another request lost a page"
    tiny.poison([block])
    assert answers(tiny, opened) == without, "the absent frame was read"
    tiny.mark(sessions[0].blocks[:1], absent=True)
    assert answers(tiny, opened)[0] != without[0]


def test_absent_pages_agree_with_masked_attention_elsewhere(tiny: Any, opened: Any) -> None:
    """transformers, with the page's columns masked for the question only, gives the same probabilities."""
    import torch
    from transformers import LlamaForCausalLM

    from fuzzkv.targets.vllm.replay.models import build

    reference = LlamaForCausalLM.from_pretrained(build("tiny").path, dtype=torch.float32)
    sessions, contexts = opened
    cue, gold = contexts[0].questions[1][0].cue, (7, 9, 100)
    for hidden in ((), (2,), (0, 3)):
        blocks = [sessions[0].blocks[p] for p in hidden]
        tiny.mark(blocks, absent=True)
        mine = [s.logprob for s in tiny.score([(sessions[0], cue, gold)])[0]]
        tiny.mark(blocks, absent=False)
        with torch.no_grad():
            past = reference(torch.tensor([contexts[0].tokens])).past_key_values
            tail = [*cue, *gold[:-1]]
            mask = torch.ones(1, 128 + len(tail), dtype=torch.long)
            for p in hidden:
                mask[0, 32 * p : 32 * p + 32] = 0
            positions = torch.arange(128, 128 + len(tail))[None]
            logits = reference(
                torch.tensor([tail]), past_key_values=past, attention_mask=mask, position_ids=positions
            ).logits[0]
        want = logits.log_softmax(-1)[len(cue) - 1 :][range(len(gold)), list(gold)]
        assert mine == pytest.approx(want.tolist(), abs=2e-3)


def test_release_scrubs_and_innocent_requests_survive(tiny: Any) -> None:
    context = random_context(tiny.vocabulary, 4, 21)
    first = tiny.open([context.tokens])
    want = tiny.decode([(first[0], context.questions[0][0].cue)], 8)
    blocks = first[0].blocks
    tiny.poison(blocks)
    tiny.release(first)
    assert finite(tiny, list(range(1, tiny.pages + 1))), "poison was left in a free frame"
    again = tiny.open([context.tokens])
    assert tiny.decode([(again[0], context.questions[0][0].cue)], 8) == want
    tiny.release(again)


def test_poison_left_in_free_frames_would_spoil(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: without the scrub the check of the test above goes red."""
    context = random_context(tiny.vocabulary, 4, 22)
    sessions = tiny.open([context.tokens])
    blocks = list(sessions[0].blocks)
    tiny.poison(blocks)
    with monkeypatch.context() as m:
        m.setattr(tiny, "scrub", lambda ids: None)
        tiny.release(sessions)
    assert not finite(tiny, blocks)
    tiny.scrub(blocks)


@pytest.mark.parametrize("bits", [8, 5, 4, 3, 2])
def test_quantisation(tiny: Any, opened: Any, bits: int) -> None:
    block = opened[0][0].blocks[2]
    before = tiny.copy_out([block])
    tiny.quantise([block], bits)
    after = tiny.copy_out([block])
    top = 2 ** (bits - 1) - 1
    for x, y in zip(before, after, strict=True):
        rows, made = (t.reshape(-1, tiny.head_size) for t in (x, y))  # a token's K or V of one head
        scale = (rows.abs().amax(1, keepdim=True) / top).clamp_min(1e-6)
        assert ((rows - made).abs() <= scale * 0.5001).all()
        levels = (made / scale).round()
        assert (levels.abs() <= top).all() and ((made / scale - levels).abs() < 1e-3).all()
        assert not x.equal(y)
    tiny.quantise([block], bits)
    for y, z in zip(after, tiny.copy_out([block]), strict=True):
        assert (y - z).abs().max() < 1e-5 * y.abs().max()


def test_block_ids_hold_and_a_lost_prefix_is_an_error(tiny: Any) -> None:
    context = random_context(tiny.vocabulary, 2, 31)
    sessions = tiny.open([context.tokens])
    for seed in range(40, 48):  # churn through the pool
        others = tiny.open([random_context(tiny.vocabulary, 8, seed * 10 + i).tokens for i in range(8)])
        tiny.release(others)
    tiny.decode([(sessions[0], context.questions[0][0].cue)], 2)
    tiny._manager.block_pool.evict_blocks(set(sessions[0].blocks))
    with pytest.raises(FuzzkvError, match="FKV132"):
        tiny.decode([(sessions[0], context.questions[0][0].cue)], 2)
    tiny.release(sessions)


def test_the_same_twice(tiny: Any, opened: Any) -> None:
    assert answers(tiny, opened) == answers(tiny, opened)
