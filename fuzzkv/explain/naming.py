"""Names of sessions and pages: every one its own, however often a slot is used again."""

from __future__ import annotations

from collections.abc import Callable

from fuzzkv.explain.links import Thing

LETTERS = "pquvwxyz"


class Names:
    """Binds a letter to every page that is asked for, in order; ``described`` says what a page is.

    Two pages have the same name only if they are the same page of the same session.
    """

    def __init__(self, described: Callable[[Thing], str]) -> None:
        self._described = described
        self._pages: dict[Thing, str] = {}

    def page(self, page: Thing) -> str:
        """The name of a page."""
        if page not in self._pages:
            n = len(self._pages)
            again = n // len(LETTERS)
            self._pages[page] = LETTERS[n % len(LETTERS)] + (str(again + 1) if again else "")
        return self._pages[page]

    @property
    def things(self) -> dict[str, Thing]:
        """The page that each name stands for."""
        return {name: page for page, name in self._pages.items()}

    @property
    def bound(self) -> list[tuple[str, str]]:
        """Names and what they stand for, as they were first asked for."""
        return [(name, self._described(page)) for page, name in self._pages.items()]


def session_name(slot: int, times: int) -> str:
    """The name of a session: its slot's number, and which session of that slot it is if it isn't the first."""
    return f"session {slot}" if times <= 1 else f"session {slot}.{times}"


def page_of_session(page: Thing) -> str:
    """What a page of the model is (``("page", slot, times the slot was taken, place)``)."""
    _, slot, times, place = page
    return f"page {place} of {session_name(int(slot), int(times))}"
