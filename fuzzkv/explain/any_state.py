"""A state of which nothing is known but that it is one: in a small window, one session of two pages.

What its numbers may be is said here by column; that they go together is asked of the predicates of the contract itself.
The index, rings, groups, queues and what belongs to waiting sessions stay as a fresh state has them, unless the act looks at
them.  All times count from now, which is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuzzkv.semantics.contract.predicates import check_authority, check_budget_of_quality, check_conservation
from fuzzkv.semantics.identity import T_ADAPTER
from fuzzkv.semantics.layout import (
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
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.columns import columns_of
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.circuit import Circuit
from fuzzkv.simulator.symbolic.interpreter import SymbolicInterpreter, SymbolicState
from fuzzkv.simulator.symbolic.scope import Window


@dataclass(frozen=True)
class Room:
    """What a state of the window has room for: sessions, pages of each, frames of each tier and copies in flight.

    Three copies: one of the act's own, and two of others.
    """

    sessions: int = 1
    pages: int = 2
    frames: int = 2
    copies: int = 3


SMALL = Room()
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
_BEFORE: dict[str, Callable[..., None]] = {"I1": check_authority, "I18": check_budget_of_quality}
"""Predicates of a state: whoever acts in it isn't to blame if they don't hold already."""


def _ranges(room: Room) -> dict[str, tuple[int, int]]:
    return {
        **dict.fromkeys(_FLAGS, (0, 1)),
        **dict.fromkeys(("D_PREC", "H_PREC", "J_PREC"), (0, INT4)),
        **dict.fromkeys(("D_TAG", "H_TAG", "J_TAG", "D_SIDE"), (0, _TAGS)),
        **dict.fromkeys(("DEV", "HOST"), (-1, room.frames - 1)),
        **dict.fromkeys(("D_PAGE", "H_PAGE"), (-1, room.sessions * room.pages - 1)),
        **dict.fromkeys(("LIFE", "SEEN", "CERT_AT"), (0, _STEPS)),
        **dict.fromkeys(("J_SRC", "J_DST"), (0, room.frames - 1)),
        **dict.fromkeys(("R_RES", "R_DRAFT"), (0, TOKENS - 1)),
        "WANT": (1, _TAGS),
        "J_KIND": (0, LOAD),
        "J_PAGE": (0, room.sessions * room.pages - 1),
        "J_END": (1, LATEST),
        "BUSY": (0, room.copies),
        "CERT": (0, ANSWER),
        "CERT_FOR": (0, _STEPS),
        "LINK_FREE": (0, LATEST),
        "LAYOUT": (0, 3),
        "R_LOSS": (0, _LOSS),
        "R_N": (room.pages, PAGES),
    }


def _if_read(room: Room) -> dict[str, tuple[int, int]]:
    """Columns of the index, of rings, groups, queues and waiting sessions, where the act looks at them."""
    return {
        **dict.fromkeys(("RING", "GROUP", "CKPT", "TODO", "X_FULL"), (0, 1)),
        "RING_OFF": (0, 2 * WINDOW - 1),
        "R_TODO": (0, room.pages),
        "D_QUEUE": (0, NQ),
        "X_TIER": (0, ON_STORE),
        "X_FRAME": (-1, room.frames - 1),
    }


def any_state(
    circuit: Circuit,
    policies: Sequence[Policy],
    config: Config,
    act: Callable[..., Any],
    invariant: str,
    room: Room = SMALL,
) -> SymbolicState:
    """An arbitrary state in which the ``invariant`` isn't broken yet; ``act`` is the text that will run in it."""
    if act.__name__ in _BESIDE:
        room = replace(room, sessions=NR)
    window = Window(
        requests=room.sessions,
        pages=room.pages,
        device=room.frames,
        host=room.frames,
        copies=room.copies,
        policies=len(policies),
        entries=1,
    )
    reader = SymbolicInterpreter(circuit, window, left_out=_REPORTS)
    cells: list[Any] = list(first_state(config, policies))
    sizes = window.sizes()
    ranges = {**_ranges(room), "J_BY": (-1, len(policies) - 1)}
    looked = columns_of([act])[0]
    ranges |= {name: bounds for name, bounds in _if_read(room).items() if name in looked}
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
    _copies(circuit, cells, room)
    for p in range(room.sessions * room.pages):
        reader.text(check_conservation)(state, True, p)
        if invariant in _BEFORE:
            extra = () if invariant == "I18" else (0,)
            reader.text(_BEFORE[invariant])(state, True, -1, p, *extra)
    for broken in ("I11", invariant):
        circuit.require(circuit.not_(state.broken(broken)))
    state.cells = cells
    return state


def _copies(circuit: Circuit, cells: Sequence[Any], room: Room) -> None:
    """Each page counts the copies of it in flight, and the link is free when the last of them has ended."""
    c = COLUMNS
    for p in range(room.sessions * room.pages):
        count: Any = 0
        for j in range(room.copies):
            kind, page = cells[c["J_KIND"] + j], cells[c["J_PAGE"] + j]
            flies = circuit.and_(kind != 0, kind != ABANDONED, kind != RUN, page == p)
            count = count + circuit.ite(flies, 1, 0)
        circuit.require(cells[c["BUSY"] + p] == count)
    for j in range(room.copies):
        over = cells[c["J_END"] + j] > cells[c["LINK_FREE"]]
        circuit.require(circuit.not_(circuit.and_(cells[c["J_KIND"] + j] != 0, over)))
