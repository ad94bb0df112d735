"""Scenarios of an audit: the tokens that a session commits, tries and takes back before its decision step.

A scenario is data: tokens that are committed before the branch (``keep``), tokens of the branch, which is
aborted (``branch``), and committed tokens from there on (``step``), after the last of which the next token is
decided. So the committed text is ``keep + step``, whatever was tried in between. Standard library only.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

BLOCK: Final = 32
"""Tokens in a block of a paged cache: lengths are drawn around its multiples."""
RESIDUES: Final = (0, 1, BLOCK // 2, -1)
KINDS: Final[dict[str, str]] = {
    "tool": "a tool branch is aborted: the call was generated, its result was read, both are taken back",
    "draft": "a draft is rejected: its last tokens were verified together with the accepted ones",
    "edit": "the history is edited: the user rewrites a message that was answered already",
    "fork": "two branches from one prefix: the first is given up, the second goes on",
    "retry": "an answer is cut off and tried again from an earlier point",
}
FIRST_TOKEN: Final = 3
"""Lower ids are special in the exactness model's vocabulary."""


@dataclass(frozen=True)
class Scenario:
    """One session. ``accepted``: so many of the last tokens of ``keep`` are fed together with the branch.
    ``stepwise``: the branch is generated, token by token, and not read in one go. ``seed`` is the number of
    the draw; of what the seed of the audit makes of it, the tokens are the record."""

    kind: str
    draw: int
    keep: tuple[int, ...]
    branch: tuple[int, ...]
    step: tuple[int, ...]
    accepted: int = 0
    stepwise: bool = False

    @property
    def committed(self) -> tuple[int, ...]:
        """The tokens of the transcript at the decision."""
        return self.keep + self.step

    @property
    def common(self) -> int:
        """Tokens that the transcript shares with what the cache saw: more may not be served from it."""
        shared = 0
        for a, b in zip(self.step, self.branch, strict=False):
            if a != b:
                break
            shared += 1
        return len(self.keep) + shared

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": self.kind,
            "draw": self.draw,
            "keep": list(self.keep),
            "branch": list(self.branch),
            "step": list(self.step),
            "accepted": self.accepted,
            "stepwise": self.stepwise,
        }


def random_scenarios(vocabulary: int, seed: int, draws: int) -> list[Scenario]:
    """``draws`` scenarios of each kind from random tokens, kinds in turn, so that a run that is cut short has
    seen them all."""
    return [_RULES[kind](_Source(vocabulary, seed, kind, draw)) for draw in range(draws) for kind in KINDS]


class _Source:
    """The draws of one scenario."""

    def __init__(self, vocabulary: int, seed: int, kind: str, draw: int) -> None:
        self.random = random.Random(f"{seed}/{kind}/{draw}")
        self.vocabulary, self.kind, self.draw = vocabulary, kind, draw

    def size(self, most: int) -> int:
        """A length of up to ``most`` blocks: at a boundary, one beyond, half a block beyond or one short."""
        return self.random.randint(1, most) * BLOCK + self.random.choice(RESIDUES)

    def short(self, *sizes: int) -> int:
        return self.random.choice(sizes)

    def tokens(self, count: int) -> tuple[int, ...]:
        return tuple(self.random.randrange(FIRST_TOKEN, self.vocabulary) for _ in range(count))

    def scenario(self, keep: int, branch: int, step: int) -> Scenario:
        return Scenario(self.kind, self.draw, self.tokens(keep), self.tokens(branch), self.tokens(step))


def _tool(s: _Source) -> Scenario:
    return replace(s.scenario(s.size(4), s.size(1), s.short(5, 17, 33)), stepwise=bool(s.draw % 2))


def _draft(s: _Source) -> Scenario:
    return replace(s.scenario(s.size(4), s.short(1, 2, 3, 5), s.short(1, 2)), accepted=s.short(0, 1, 3))


def _edit(s: _Source) -> Scenario:
    """The new message begins like the old one, and differs in one token from there on."""
    drawn = s.scenario(s.size(3), s.size(2), s.short(5, 17))
    at = min(s.short(0, 5, BLOCK), len(drawn.branch) - 1)
    new = FIRST_TOKEN + (drawn.branch[at] - FIRST_TOKEN + 1) % (s.vocabulary - FIRST_TOKEN)
    return replace(drawn, step=(*drawn.branch[:at], new, *drawn.branch[at + 1 :], *drawn.step))


def _fork(s: _Source) -> Scenario:
    return s.scenario(s.size(4), s.size(1), s.size(1))


def _retry(s: _Source) -> Scenario:
    """The first tokens of the answer stay."""
    drawn = replace(s.scenario(s.size(4), s.size(1), s.short(1, 5)), stepwise=True)
    return replace(drawn, step=(*drawn.branch[: s.short(0, 1, 8)], *drawn.step))


_RULES: Final[dict[str, Callable[[_Source], Scenario]]] = {
    "tool": _tool,
    "draft": _draft,
    "edit": _edit,
    "fork": _fork,
    "retry": _retry,
}
