"""The task of a quality replay: exact recall of a made-up sentence, cued by its first three words.

A page of 32 tokens holds four whole sentences of eight tokens each (" The red wagon sings behind the
church."), every word one token of SmolLM2's vocabulary, so no sentence straddles two pages. Page 0 begins
with an instruction of eight tokens and holds three sentences. Inside a context every adjective, noun, verb
and place occurs once. A question closes the context ("As written above: "), gives the cue "The red wagon"
and wants exactly " sings behind". Contexts follow from a seed by SHA-256, so they are frozen across Python
versions and machines.

The word lists are ours. Standard library only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fuzzkv.errors import UsageError

PAGE_TOKENS: Final = 32
SENTENCES: Final = 4
"""Sentences in a page; page 0 holds one less."""
CUE: Final = 3
GOLD: Final = 2
HEAD: Final = ("<|im_start|>", "user", "\u010a", "Repeat", "\u0120these", "\u0120sentences", ".", "\u010a")
TAIL: Final = (
    "<|im_end|>",
    "\u010a",
    "<|im_start|>",
    "ass",
    "istant",
    "\u010a",
    "As",
    "\u0120written",
    "\u0120above",
    ":",
    '\u0120"',
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADJECTIVES: Final = _words("""
    red blue green old young tall small big brave quiet happy sad strong weak rich poor clean dark
    bright cold warm soft hard heavy light wild calm proud clever lazy kind gentle angry hungry tiny
    giant golden silver wooden round broken busy careful curious famous fresh honest lonely modern
    narrow royal silent simple sleepy smooth thick thin wise yellow white black brown gray
""")
NOUNS: Final = _words("""
    wagon river doctor bird horse king queen farmer teacher child dragon lion tiger bear wolf fox rabbit
    cat dog fish boat ship train car truck clock lamp chair table door window tree flower mountain cloud
    star moon robot soldier sailor baker singer dancer painter writer poet pilot driver hunter priest
    judge guard nurse student worker engineer artist captain monkey elephant snake frog turtle whale
    eagle owl duck sheep goat cow pig mouse bee spider
""")
VERBS: Final = _words("""
    sings jumps reads runs walks dances flies writes talks cries waits works plays eats drinks cooks
    paints builds falls sits stands speaks listens dreams thinks moves turns grows shines burns breaks
    hides fights travels smiles calls looks rests
""")
PREPOSITIONS: Final = _words("""
    near behind under beside above below beyond inside outside around past
""")
PLACES: Final = _words("""
    home school town work church bridge castle garden forest lake river market station hospital library
    museum theater kitchen tower wall fence road beach island village palace prison temple harbor
    factory farm hill valley desert cave field park street corner
""")

MAX_PAGES: Final = 8


@dataclass(frozen=True)
class RecallQuestion:
    """A cue (the tokens that follow the context: closing words, then three of the sentence) and its gold
    answer (2)."""

    cue: tuple[int, ...]
    gold: tuple[int, ...]


@dataclass(frozen=True)
class Context:
    """A frozen context: ``tokens`` (n x 32), its ``text``, and the questions of each page."""

    tokens: tuple[int, ...]
    text: str
    questions: tuple[tuple[RecallQuestion, ...], ...]


def shuffled(words: Sequence[str], seed: int, salt: str) -> list[str]:
    """The words in an order that only the seed and the salt decide."""
    return sorted(words, key=lambda w: hashlib.sha256(f"{seed}:{salt}:{w}".encode()).digest())


def build_context(vocab: Mapping[str, int], pages: int, seed: int) -> Context:
    """A context of ``pages`` (1 to 8) full pages. Raises FKV059 for another size, FKV130 for a vocabulary
    without the words."""
    if not 1 <= pages <= MAX_PAGES:
        raise UsageError(
            code="FKV059", value=pages, reason="a replayed context has 1 to 8 pages", cure="shrink the case"
        )
    columns = [
        shuffled(words, seed, salt)
        for salt, words in (("a", ADJECTIVES), ("n", NOUNS), ("v", VERBS), ("p", PLACES))
    ]
    tokens = [_id(vocab, t) for t in HEAD]
    tail = tuple(_id(vocab, t) for t in TAIL)
    lines: list[str] = []
    questions: list[list[RecallQuestion]] = [[] for _ in range(pages)]
    while len(tokens) < pages * PAGE_TOKENS:
        i = len(lines)
        adjective, noun, verb, place = (c[i] for c in columns)
        preposition = shuffled(PREPOSITIONS, seed, f"r{i}")[0]
        words = ("The", adjective, noun, verb, preposition, "the", place)
        ids = (*(_id(vocab, "\u0120" + w) for w in words), _id(vocab, "."))
        cue = (*tail, _id(vocab, "The"), *ids[1:CUE])
        questions[len(tokens) // PAGE_TOKENS].append(RecallQuestion(cue, ids[CUE : CUE + GOLD]))
        tokens += ids
        lines.append(" ".join(words) + ".")
    return Context(tuple(tokens), "\n".join(lines), tuple(map(tuple, questions)))


def random_context(vocabulary: int, pages: int, seed: int) -> Context:
    """A context of random tokens for the exactness model; a page's one question is cued by its first three
    tokens."""
    tokens: list[int] = []
    while len(tokens) < pages * PAGE_TOKENS:
        block = hashlib.sha256(f"{seed}:{len(tokens)}".encode()).digest()
        tokens += [3 + int.from_bytes(block[i : i + 2]) % (vocabulary - 3) for i in range(0, 32, 2)]
    tokens = tokens[: pages * PAGE_TOKENS]
    starts = range(0, len(tokens), PAGE_TOKENS)
    return Context(
        tuple(tokens), "", tuple((RecallQuestion(tuple(tokens[s : s + CUE]), ()),) for s in starts)
    )


def _id(vocab: Mapping[str, int], token: str) -> int:
    if token not in vocab:
        raise UsageError(
            code="FKV130",
            value=token,
            reason="the model's vocabulary lacks this as one token",
            cure="replay with the smollm2 model",
        )
    return vocab[token]
