"""The audited ways of aborting a branch on a cache object, over a small protocol.

``Sessions`` is what a library's cache objects can do; tests plant faulty ones. A way that is meant to be safe
promises that the decision is that of the committed tokens; as they are, retained caches don't.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from fuzzkv.targets.vllm.audit.compare import LogitRow
from fuzzkv.targets.vllm.audit.scenarios import Scenario

FORCED: Final = 8
"""Tokens after the decision over which two runs are compared."""
CHUNKS: Final = (16, 5)
"""A cache is rebuilt in one go, and again in chunks of these sizes: their difference is the noise."""
Role = Literal["safe", "unsafe", "twin", "control"]


class Refused(Exception):
    """The library refused to do it, aloud."""


class Sessions(Protocol):
    """Cache objects of one library and model. ``kind`` names a class of cache."""

    def new(self, kind: str) -> Any:
        """An empty cache."""

    def feed(self, cache: Any, tokens: Sequence[int]) -> LogitRow:
        """Run tokens on a cache, as a session's next turn does; logits after the last."""

    def follow(self, cache: Any, tokens: Sequence[int]) -> list[LogitRow]:
        """The same in one go; logits after each token."""

    def generate(self, cache: Any, tokens: Sequence[int]) -> LogitRow:
        """Hand over the whole transcript with the cache, and let the library find what is new."""

    def lengths(self, cache: Any) -> list[int]:
        """Tokens that each layer holds."""

    def crop(self, cache: Any, count: int) -> None:
        """Take the last ``count`` tokens out. Raises Refused."""

    def record(self, cache: Any) -> None:
        """Say that tokens will be taken out. Raises Refused."""

    def snapshot(self, cache: Any) -> Any:
        """A copy."""

    def reset(self, cache: Any) -> None:
        """Empty the cache in place."""


@dataclass
class Reached:
    """Where a way came: the cache, what its layers held just before the decision step, and the logits."""

    cache: Any
    before: list[int]
    row: LogitRow


@dataclass(frozen=True)
class Way:
    """A way of going on after an abort."""

    name: str
    role: Role
    run: Callable[[Sessions, str, Scenario], Reached]


def rebuild(sessions: Sessions, kind: str, tokens: Sequence[int], chunk: int = 0) -> Reached:
    """A cache computed from these tokens alone; in one go, or in chunks."""
    cache = sessions.new(kind)
    row: LogitRow = None
    size = chunk or len(tokens)
    for start in range(0, len(tokens), size):
        before = sessions.lengths(cache)
        row = sessions.feed(cache, tokens[start : start + size])
    return Reached(cache, before, row)


def decide(sessions: Sessions, reached: Reached, forced: Sequence[int]) -> list[LogitRow]:
    """The row of the decision and those after each of the forced tokens."""
    return [reached.row, *sessions.follow(reached.cache, forced)]


def greedy(sessions: Sessions, reached: Reached, count: int) -> tuple[list[int], list[LogitRow]]:
    """The next tokens that the model itself would choose, and the rows from which it does, one more of them."""
    rows = [reached.row]
    tokens = [int(reached.row.argmax())]
    while len(rows) <= count:
        rows.append(sessions.feed(reached.cache, tokens[-1:]))
        tokens.append(int(rows[-1].argmax()))
    return tokens[:count], rows


def _until_branch(s: Sessions, kind: str, sc: Scenario) -> Any:
    cache = s.new(kind)
    s.feed(cache, sc.keep[: len(sc.keep) - sc.accepted])
    return cache


def _branch(s: Sessions, cache: Any, sc: Scenario) -> None:
    tokens = (*sc.keep[len(sc.keep) - sc.accepted :], *sc.branch)
    for part in _parts(tokens, 1 if sc.stepwise else len(tokens)):
        s.feed(cache, part)


def _parts(tokens: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(tokens), size):
        yield tokens[start : start + size]


def _go_on(s: Sessions, cache: Any, tokens: Sequence[int]) -> Reached:
    before = s.lengths(cache)
    return Reached(cache, before, s.feed(cache, tokens))


def _as_it_is(s: Sessions, kind: str, sc: Scenario) -> Reached:
    cache = _until_branch(s, kind, sc)
    _branch(s, cache, sc)
    return _go_on(s, cache, sc.step)


def _whole_transcript(s: Sessions, kind: str, sc: Scenario) -> Reached:
    cache = _until_branch(s, kind, sc)
    _branch(s, cache, sc)
    before = s.lengths(cache)
    return Reached(cache, before, s.generate(cache, sc.committed))


def _crop(s: Sessions, kind: str, sc: Scenario) -> Reached:
    cache = _until_branch(s, kind, sc)
    _branch(s, cache, sc)
    s.crop(cache, len(sc.branch))
    return _go_on(s, cache, sc.step)


def _recorded_crop(s: Sessions, kind: str, sc: Scenario) -> Reached:
    cache = _until_branch(s, kind, sc)
    s.record(cache)
    _branch(s, cache, sc)
    s.crop(cache, len(sc.branch))
    return _go_on(s, cache, sc.step)


def _snapshot(s: Sessions, kind: str, sc: Scenario) -> Reached:
    cache = _until_branch(s, kind, sc)
    copy = s.snapshot(cache)
    _branch(s, cache, sc)
    return _go_on(s, copy, sc.committed[len(sc.keep) - sc.accepted :])


def _reset(s: Sessions, kind: str, sc: Scenario) -> Reached:
    cache = _until_branch(s, kind, sc)
    _branch(s, cache, sc)
    s.reset(cache)
    return _go_on(s, cache, sc.committed)


def _turns(s: Sessions, kind: str, sc: Scenario) -> Reached:
    """Rebuilt turn by turn: in the chunks of the retained cache, without the branch."""
    return _go_on(s, _go_on(s, s.new(kind), sc.keep).cache, sc.step)


def _chunked(chunk: int) -> Callable[[Sessions, str, Scenario], Reached]:
    return lambda s, kind, sc: rebuild(s, kind, sc.committed, chunk)


WAYS: Final[tuple[Way, ...]] = (
    Way("rebuilt, turn by turn", "twin", _turns),
    *(Way(f"rebuilt, chunks of {n}", "twin", _chunked(n)) for n in CHUNKS),
    Way(
        "branch in the text",
        "control",
        lambda s, kind, sc: rebuild(s, kind, (*sc.keep, *sc.branch, *sc.step)),
    ),
    Way("as it is", "unsafe", _as_it_is),
    Way("as it is, generate()", "unsafe", _whole_transcript),
    Way("crop", "safe", _crop),
    Way("recorded, crop", "safe", _recorded_crop),
    Way("snapshot", "safe", _snapshot),
    Way("reset, fed again", "safe", _reset),
)
"""All ways; every cache class has all of them, and refuses those that it can't do."""
