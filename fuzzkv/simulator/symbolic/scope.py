"""The scope of a symbolic run: numbers of pages, frames, copies, policies and index entries.

The text loops over all that a state has room for, and a term costs something even for what stays empty.  Within a window
the text is the same with smaller numbers in the place of the scope's; schedules that need no more than the window has
come to the same states in it (a test compares them), as long as no rule reckons with the numbers of a second session's pages
otherwise than by the session's first (``r * PAGES``): these are others in a window of fewer pages.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuzzkv.semantics.layout import COLUMNS, ND, NH, NJ, NK, NP, NPARAM, NPRIM, NR, NX, PAGES, SIZES

_BY_PREFIX = {"D": "ND", "H": "NH", "J": "NJ", "X": "NX"}
_OF_POLICY = {
    "QUOTE": "NP",
    "MARK": "NP",
    "DUE": "NP",
    "SPENT": "NR",
    "NOTE": "",
    "FLYING": "",
    "MF_HORIZON": "",
}

_OF_CLAUSE = ("ENFORCE", "REFUSED")
"""As long as a column of pages, by chance."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """Sessions at once, pages of each, device and host frames, copies in flight, policies and index entries."""

    requests: int = NR
    pages: int = PAGES
    device: int = ND
    host: int = NH
    copies: int = NJ
    policies: int = NK
    entries: int = NX

    def names(self) -> dict[str, int]:
        """The values of the layout's sizes in this window."""
        return {
            "NR": self.requests,
            "PAGES": self.pages,
            "NP": self.requests * self.pages,
            "ND": self.device,
            "NH": self.host,
            "NJ": self.copies,
            "NK": self.policies,
            "NX": self.entries,
        }

    def sizes(self) -> dict[int, int]:
        """Column -> places that it has in this window."""
        names = self.names()
        found = {}
        for name, size in SIZES.items():
            prefix, _, rest = name.partition("_")
            if name in _OF_POLICY:
                size = names["NK"] * names.get(_OF_POLICY[name], 1)
            elif name in ("ACTED", "PARAM"):
                size = names["NK"] * (NPRIM if name == "ACTED" else NPARAM)
            elif (prefix in _BY_PREFIX and rest) or name == "LEASE":
                size = names[_BY_PREFIX.get(prefix, "NJ")]
            elif name not in _OF_CLAUSE and size in (NR, NP):
                size = names["NR" if size == NR else "NP"]
            found[COLUMNS[name]] = size
        return found


WHOLE = Window()
"""All of the machine."""
