"""Names a text and a branch for every page of every request, so that shared prefixes get the same names on the model.

Two pages are the same page if the tokens up to their end are the same. The model says that by (text, place, branch).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

TEXTS: Final = range(1, 8)
"""Texts of the model that sessions may share (below ``identity.OWN_TEXT``)."""
BRANCHES: Final = 8
"""Branches of the model (``identity``: the field of a tag)."""


class TooManyTexts(Exception):
    """More texts, or more branches of one, than the model tells apart."""


class Chains:
    """``tokens[r]`` is all that request r ever held. :meth:`text` and :meth:`branch` name its pages."""

    def __init__(self, tokens: Sequence[Sequence[int]], block: int) -> None:
        self._tokens, self._block = [tuple(t) for t in tokens], block
        self._texts: dict[tuple[int, ...], int] = {}
        self._branches: dict[tuple[int, int], dict[tuple[int, ...], int]] = {}

    def text(self, request: int) -> int:
        """The text of a request. Raises :class:`TooManyTexts`."""
        first = self.chain(request, 0)
        known = self._texts.setdefault(first, len(self._texts) + TEXTS[0])
        if known not in TEXTS:
            raise TooManyTexts
        return known

    def branch(self, request: int, page: int) -> int:
        """The branch of one of its pages. Raises :class:`TooManyTexts`."""
        if page == 0:
            return 0
        there = self._branches.setdefault((self.text(request), page), {})
        known = there.setdefault(self.chain(request, page), len(there))
        if known >= BRANCHES:
            raise TooManyTexts
        return known

    def length(self, request: int) -> int:
        """Tokens that a request ever held."""
        return len(self._tokens[request])

    def chain(self, request: int, page: int) -> tuple[int, ...]:
        """The tokens up to the end of a page: what is in it and what it was computed behind."""
        return self._tokens[request][: (page + 1) * self._block]
