"""Random schedules through the solver's relation and the Python interpreter, whole states compared after every event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from fuzzkv.semantics.identity import OWN_TEXT, T_TEXT
from fuzzkv.semantics.layout import COLUMNS, NP, NR, PAGES, SIZES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, ARRIVE, GROW, QUEUE, STEP, TICK, Config, Event
from fuzzkv.simulator.interpreters import python_apply
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver import unrolling
from fuzzkv.solver.unrolling import Unrolling
from fuzzkv.strategies.covering_arrays import enabled
from tests.solver.simulate import Simulation

_WEIGHTS = {TICK: 3, ARRIVE: 1, STEP: 7, ACT: 12, QUEUE: 3, GROW: 3}
_OF_PAGES = ("D_PAGE", "H_PAGE", "J_PAGE", "V_PAGE")
"""Columns whose numbers are pages, where they aren't negative."""
_OF_TAGS = ("WANT", "D_TAG", "H_TAG", "J_TAG", "X_TAG", "X_KEY", "D_SIDE", "D_PAY")
"""Columns whose numbers are tags, where they are positive."""
_WIDE = ("QUOTE", "MARK", "DUE")
"""Columns of a policy's pages."""


@dataclass(frozen=True)
class Agreement:
    """What a comparison came to: ``events`` that were run in both (each arm counts), the cells in which the interpreters differ
    (column, place, number of the event), how many schedules ``broke`` something in the set (with the contract: were refused
    something), and how many were ``outgrown``: a session came to have more pages than the window.
    """

    events: int
    differences: tuple[tuple[str, int, int], ...]
    broke: int
    outgrown: int


def draw(unrolled: Unrolling, depth: int, random: Random) -> list[Event]:
    """A schedule within the bounds of an unrolling; not in its normal form."""
    first = [op for op in unrolled.codes if op not in unrolling._NEVER_FIRST]
    opens = [op for op in first if op in (ARRIVE, QUEUE)]
    found = []
    for number in range(depth):
        choices = unrolled.codes if number else opens if random.random() < 0.9 else first
        [op] = random.choices(choices, [_WEIGHTS.get(op, 1) for op in choices])
        low_a, high_a, low_b, high_b = unrolled._bounds(op)
        a = (
            random.choice((8, 20, random.randint(low_a, high_a)))
            if op == TICK
            else random.randint(low_a, high_a)
        )
        b = max(low_b, high_b - random.randint(0, 1)) if op in opens else random.randint(low_b, high_b)
        found.append((op, a, b))
    return found


def in_window(state: np.ndarray[Any, Any], name: str, size: int, window: Window) -> np.ndarray[Any, Any]:
    """The cells of a column that a window has, from whole states (a row each), pages numbered as in the window."""
    places = np.arange(size)
    paged = window.requests * window.pages

    def page(p: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return p // window.pages * PAGES + p % window.pages

    if name in _WIDE:
        places = places // paged * NP + page(places % paged)
    elif name == "SPENT":
        places = places // window.requests * NR + places % window.requests
    elif size == paged and SIZES[name] == NP and not name.startswith("D_"):
        places = page(places)
    cells = state[:, COLUMNS[name] + places]
    if name in _OF_PAGES:
        return np.where(cells < 0, cells, cells // PAGES * window.pages + cells % PAGES)
    if name == "R_TEXT":
        return _text(cells, window)
    if name in _OF_TAGS:
        # The key of an entry that was taken out is negative.
        size, sign = np.abs(cells), np.where((cells < 0) & (name == "X_KEY"), -1, 1)
        text = (size - 1) // T_TEXT
        moved = sign * (size + (_text(text, window) - text) * T_TEXT)
        return np.where((cells > 0) | (sign < 0), moved, cells)
    return cells


def _text(text: np.ndarray[Any, Any], window: Window) -> np.ndarray[Any, Any]:
    """Texts that sessions have for themselves are numbered session by session."""
    own, r = np.divmod(text - OWN_TEXT, NR)
    return np.where(text < OWN_TEXT, text, OWN_TEXT + own * window.requests + r)


def agree(
    policies: Sequence[Policy],
    window: Window,
    *,
    count: int,
    depth: int,
    seed: int,
    config: Config | None = None,
    masks: Sequence[int] = (),
    enforce: bool = False,
) -> Agreement:
    """Compare every cell that the relation keeps, of the set and of its parts in ``masks``, after every event."""
    config = config or Config()
    unrolled = Unrolling(policies, config, window, enabled(policies), arms=masks, enforce=enforce)
    random = Random(seed)
    schedules = [draw(unrolled, depth, random) for _ in range(count)]
    apply = python_apply(tuple(policies))
    first = first_state(config, policies, enforce=enforce)
    machine = {mask: [list(first) for _ in range(count)] for mask in unrolled.states}
    simulation, window = Simulation(unrolled.circuit, count), unrolled.window
    left = unrolled.reader._left_out
    kept = {name: window.sizes()[base] for name, base in COLUMNS.items() if base not in left}
    fits, events, differences = np.ones(count, dtype=bool), 0, []
    last: dict[int, np.ndarray[Any, Any]] = {}
    for number in range(depth):
        unrolled.extend()
        for i, unknown in enumerate(unrolled.events[-1]):
            simulation.give(unknown, [schedule[number][i] for schedule in schedules])
        for mask, states in machine.items():
            for state, schedule in zip(states, schedules, strict=True):
                op, a, b = schedule[number]
                state[COLUMNS["EVENT"]] = number
                apply(state, op, a, b, mask)
            whole = last[mask] = np.array(states, dtype=np.int64)
            # A session that outgrows the window doesn't fit it any more.
            fits &= (whole[:, COLUMNS["R_N"] : COLUMNS["R_N"] + NR] <= window.pages).all(axis=1)
        for mask, whole in last.items():
            cells = unrolled.states[mask].cells
            for name, size in kept.items():
                theirs = in_window(whole, name, size, window)
                for i in range(size):
                    if (simulation.numbers(cells[COLUMNS[name] + i]) != theirs[:, i])[fits].any():
                        differences.append((name, i, number))
        events += int(fits.sum()) * len(machine)
    broken = last[unrolled.full][:, COLUMNS["V_COUNT"] : COLUMNS["V_COUNT"] + SIZES["V_COUNT"]]
    refused = last[unrolled.full][:, COLUMNS["REFUSED"] : COLUMNS["REFUSED"] + SIZES["REFUSED"]]
    broke = int((refused if enforce else broken).any(axis=1).sum())
    return Agreement(events, tuple(differences), broke, int((~fits).sum()))
