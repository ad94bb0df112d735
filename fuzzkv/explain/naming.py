"""Names of sessions and pages: every one its own, however often a slot is used again."""

from __future__ import annotations

from fuzzkv.explain.links import Thing

LETTERS = "pquvwxyz"


class Names:
    """Binds a letter to every page that is asked for, in order, and a number to every session.

    Two pages have the same name only if they are the same page of the same session.
    """

    def __init__(self) -> None:
        self._pages: dict[Thing, str] = {}

    def page(self, page: Thing) -> str:
        """The name of a page (``("page", slot, times the slot was taken, place)``)."""
        if page not in self._pages:
            n = len(self._pages)
            again = n // len(LETTERS)
            self._pages[page] = LETTERS[n % len(LETTERS)] + (str(again + 1) if again else "")
        return self._pages[page]

    @staticmethod
    def session(slot: int, times: int) -> str:
        """The name of a session: its slot's number, and which session of that slot it is if it isn't the first."""
        return f"session {slot}" if times <= 1 else f"session {slot}.{times}"

    @property
    def bound(self) -> list[tuple[str, str]]:
        """Names and what they stand for, as they were first asked for."""
        found = []
        for (_, slot, times, place), name in self._pages.items():
            found.append((name, f"page {place} of {self.session(int(slot), int(times))}"))
        return found
