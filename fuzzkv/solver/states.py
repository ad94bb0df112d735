"""A state of which nothing is known but that it is one: in a small window, one session of two pages.

What its numbers may be is said here by column; that they go together is asked of the predicates of the contract itself.
The index, rings, groups, queues and what belongs to waiting sessions stay as a fresh state has them, unless the act looks at
them.  All times count from now, which is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fuzzkv.contract.identity import T_ADAPTER
from fuzzkv.contract.layout import (
    ABANDONED,
    ANSWER,
    COLUMNS,
    INT4,
    LOAD,
    NQ,
    NR,
    ON_STORE,
    PAGES,
    RUN,
    SPILL,
    TOKENS,
    WINDOW,
)
from fuzzkv.contract.policy import Policy
from fuzzkv.contract.predicates import check_authority, check_budget_of_quality, check_conservation
from fuzzkv.contract.schedule import Config
from fuzzkv.machine.circuit import Circuit
from fuzzkv.machine.columns import columns_of
from fuzzkv.machine.start import first_state
from fuzzkv.machine.symbolic import Reader, SymbolicState
from fuzzkv.machine.window import Window

SESSION, HELD, FRAMES, COPIES = 1, 2, 2, 2
"""Sessions, pages of each, frames of each tier and copies in flight of the window."""
LATEST = 127
"""The last tick at which something in flight ends."""
_STEPS, _TAGS, _FIELDS, _LOSS = 15, 3, 2 * T_ADAPTER - 1, 1000
_BESIDE = ("receive",)
"""Acts that look at the other session as well."""
_REPORTS = (
    *("GOAL", "ACTED", "REFUSED", "PRIMS", "V_EVENT", "V_STAMP", "V_PAGE", "V_ACTOR", "V_PRIM"),
    *("LAT_MAX", "LAT_SUM", "STEPS", "R_STEPS", "DEMAND", "REMOTE", "TOUCHED"),
)
_FLAGS = (
    *("D_FILL", "H_FILL", "QUOTE", "EVICTED", "PAID", "RELEVANT", "J_FAIL", "J_OVER", "D_CODED", "D_DMA"),
    *("DEFER", "H_PIN"),
)
_RANGES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(_FLAGS, (0, 1)),
    **dict.fromkeys(("D_PREC", "H_PREC", "J_PREC"), (0, INT4)),
    **dict.fromkeys(("D_TAG", "H_TAG", "J_TAG", "D_SIDE"), (0, _TAGS)),
    **dict.fromkeys(("DEV", "HOST"), (-1, FRAMES - 1)),
    **dict.fromkeys(("D_PAGE", "H_PAGE"), (-1, SESSION * HELD - 1)),
    **dict.fromkeys(("LIFE", "SEEN", "CERT_AT"), (0, _STEPS)),
    **dict.fromkeys(("J_SRC", "J_DST"), (0, FRAMES - 1)),
    **dict.fromkeys(("R_RES", "R_DRAFT"), (0, TOKENS - 1)),
    "WANT": (1, _TAGS),
    "J_KIND": (0, LOAD),
    "J_PAGE": (0, SESSION * HELD - 1),
    "J_END": (1, LATEST),
    "BUSY": (0, COPIES),
    "CERT": (0, ANSWER),
    "CERT_FOR": (0, _STEPS),
    "LINK_FREE": (0, LATEST),
    "LAYOUT": (0, 3),
    "R_LOSS": (0, _LOSS),
    "R_N": (HELD, PAGES),
}
_IF_READ: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("RING", "GROUP", "CKPT", "TODO", "X_FULL"), (0, 1)),
    "RING_OFF": (0, 2 * WINDOW - 1),
    "R_TODO": (0, HELD),
    "D_QUEUE": (0, NQ),
    "X_TIER": (0, ON_STORE),
    "X_FRAME": (-1, FRAMES - 1),
}
"""Columns of the index, of rings, groups, queues and waiting sessions, where the act looks at them."""
_BEFORE: dict[str, Callable[..., None]] = {"I1": check_authority, "I18": check_budget_of_quality}
"""Predicates of a state: whoever acts in it isn't to blame if they don't hold already."""


def any_state(
    circuit: Circuit, policies: Sequence[Policy], config: Config, act: Callable[..., Any], invariant: str
) -> SymbolicState:
    """An arbitrary state in which the ``invariant`` isn't broken yet; ``act`` is the text that will run in it."""
    window = Window(
        requests=NR if act.__name__ in _BESIDE else SESSION,
        pages=HELD,
        device=FRAMES,
        host=FRAMES,
        copies=COPIES,
        policies=len(policies),
        entries=1,
    )
    reader = Reader(circuit, window, left_out=_REPORTS)
    cells: list[Any] = list(first_state(config, policies))
    sizes = window.sizes()
    ranges = {**_RANGES, "J_BY": (-1, len(policies) - 1)}
    looked = columns_of([act])[0]
    ranges |= {name: bounds for name, bounds in _IF_READ.items() if name in looked}
    if "X_KEY" in looked:
        # What an index key leaves out are higher fields of a tag.
        ranges |= dict.fromkeys(("D_TAG", "H_TAG", "J_TAG", "X_TAG"), (0, _FIELDS))
        ranges |= {"WANT": (1, _FIELDS), "X_KEY": (-_FIELDS, _FIELDS), "J_KIND": (0, SPILL)}
    for name, (low, high) in sorted(ranges.items()):
        for i in range(sizes[COLUMNS[name]]):
            cells[COLUMNS[name] + i] = circuit.unknown(low, high)
    for name in ("OWNED", "R_ACTIVE"):
        for i in range(sizes[COLUMNS[name]]):
            cells[COLUMNS[name] + i] = 1
    state = SymbolicState(reader, cells)
    _copies(circuit, cells)
    for p in range(SESSION * HELD):
        reader.text(check_conservation)(state, True, p)
        if invariant in _BEFORE:
            extra = () if invariant == "I18" else (0,)
            reader.text(_BEFORE[invariant])(state, True, -1, p, *extra)
    for broken in ("I11", invariant):
        circuit.require(circuit.not_(state.broken(broken)))
    state.cells = cells
    return state


def _copies(circuit: Circuit, cells: Sequence[Any]) -> None:
    """Each page counts the copies of it in flight, and the link is free when the last of them has ended."""
    c = COLUMNS
    for p in range(SESSION * HELD):
        count: Any = 0
        for j in range(COPIES):
            kind, page = cells[c["J_KIND"] + j], cells[c["J_PAGE"] + j]
            flies = circuit.and_(kind != 0, kind != ABANDONED, kind != RUN, page == p)
            count = count + circuit.ite(flies, 1, 0)
        circuit.require(cells[c["BUSY"] + p] == count)
    for j in range(COPIES):
        over = cells[c["J_END"] + j] > cells[c["LINK_FREE"]]
        circuit.require(circuit.not_(circuit.and_(cells[c["J_KIND"] + j] != 0, over)))
