"""Frozen contexts: whole sentences in whole pages, distinct cues, the same for ever."""

from __future__ import annotations

import hashlib
import json

import pytest

from fuzzkv.errors import FuzzkvError
from fuzzkv.targets.vllm.replay import task

WORDS = {*task.HEAD, *task.TAIL, ".", "The", "\u0120The", "\u0120the"} | {
    "\u0120" + w
    for words in (task.ADJECTIVES, task.NOUNS, task.VERBS, task.PREPOSITIONS, task.PLACES)
    for w in words
}
VOCAB = {w: i for i, w in enumerate(sorted(WORDS))}


@pytest.mark.parametrize("pages", range(1, 9))
def test_pages_hold_whole_sentences(pages: int) -> None:
    context = task.build_context(VOCAB, pages, 5)
    names = sorted(VOCAB, key=VOCAB.__getitem__)
    assert len(context.tokens) == pages * task.PAGE_TOKENS
    assert [len(q) for q in context.questions] == [task.SENTENCES - (p == 0) for p in range(pages)]
    for p in range(pages):
        page = [names[t] for t in context.tokens[p * 32 : p * 32 + 32]]
        start = 8 if p == 0 else 0
        for i, question in enumerate(context.questions[p]):
            sentence = page[start + 8 * i : start + 8 * i + 8]
            assert sentence[0] == "\u0120The" and sentence[-1] == "."
            assert [names[t] for t in question.cue[-2:]] == sentence[1:3]
            assert [names[t] for t in question.gold] == sentence[3:5]
    cues = [q.cue for page in context.questions for q in page]
    assert len(set(cues)) == len(cues)


def test_frozen() -> None:
    text = "\n".join(task.build_context(VOCAB, 8, seed).text for seed in range(3))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "c57e8e6408879a79"
    tokens = json.dumps(task.random_context(512, 3, 1).tokens)
    assert hashlib.sha256(tokens.encode()).hexdigest()[:16] == "7bf50967f1900f0a"


def test_seeds_differ_and_repeat() -> None:
    assert task.build_context(VOCAB, 4, 1) == task.build_context(VOCAB, 4, 1)
    assert task.build_context(VOCAB, 4, 1).tokens != task.build_context(VOCAB, 4, 2).tokens


def test_errors() -> None:
    with pytest.raises(FuzzkvError, match="FKV059"):
        task.build_context(VOCAB, 9, 1)
    with pytest.raises(FuzzkvError, match="FKV130"):
        task.build_context({}, 1, 1)
