"""The scope of an exhaustive search: which schedules it is about, and how their states are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzkv.contract.layout import COLUMNS, NR, PAGES, SIZES
from fuzzkv.contract.policy import Policy
from fuzzkv.contract.schedule import (
    ACT,
    ARRIVE,
    BOUNDS,
    FADE,
    FAIL,
    FINISH,
    LATE,
    OPS,
    STEP,
    TICK,
    Config,
    Event,
)
from fuzzkv.errors import UsageError
from fuzzkv.machine.columns import columns_of
from fuzzkv.machine.core import core_texts
from fuzzkv.machine.fingerprint import F_SIZE, HANDLED, REPORTS, SLICED
from fuzzkv.machine.readers import text_of

LONGEST_TICK = BOUNDS[TICK][1]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """All schedules of: sessions of up to ``pages`` pages, ``requests`` of them at once and ``sessions`` in all; at most
    ``steps`` steps in the place of each of those at once; at most ``ticks`` times that the device idles, each for one of
    ``tick_sizes``; at most ``faults`` failed or late copies; and acts, fading pages and ends of sessions without number.

    The budgets make the space finite without a word about what the policies count: ages, attention and hits are exact.

    Raises ``UsageError`` (FKV030) for a number that the machine can't hold.
    """

    pages: int = 3
    requests: int = 2
    sessions: int = 2
    steps: int = 4
    ticks: int = 3
    tick_sizes: tuple[int, ...] = (8,)
    faults: int = 0

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("--pages", self.pages, 1, PAGES),
            ("--requests", self.requests, 1, NR),
            ("--sessions", self.sessions, 1, 99),
            ("--steps", self.steps, 0, 99),
            ("--ticks", self.ticks, 0, 99),
            ("--faults", self.faults, 0, 99),
            *(("--tick-sizes", size, 1, LONGEST_TICK) for size in self.tick_sizes),
        ):
            if not least <= value <= most:
                raise UsageError(
                    code="FKV030",
                    value=f"{name} {value}",
                    reason=f"is outside {least} to {most}",
                    cure="Choose one within.",
                )

    @property
    def limits(self) -> tuple[int, int, int, int]:
        """The budgets in the order in which a node counts what it has used."""
        return self.sessions, self.ticks, self.faults, self.steps

    def events(self, top: int, page_cost: int) -> tuple[Event, ...]:
        """Every event of the scope for the policies in ``top``."""
        found: list[Event] = []
        sessions = range(self.requests)
        found += [(ARRIVE, r, n) for r in sessions for n in range(1, self.pages + 1)]
        found += [(STEP, r, i) for r in sessions for i in range(self.pages)]
        found += [(ACT, k, 0) for k in range(top.bit_length()) if top >> k & 1]
        found += [(TICK, size, 0) for size in sorted(set(self.tick_sizes))]
        found += [(FADE, r, i) for r in sessions for i in range(self.pages)]
        found += [(FINISH, r, 0) for r in sessions]
        if self.faults:
            found += [(FAIL, 0, 0), (LATE, min(page_cost, BOUNDS[LATE][1]), 0)]
        return tuple(found)


def default_ticks(policies: Sequence[Policy], config: Config) -> tuple[int, ...]:
    """Sizes of ticks for some policies: what one copy takes, and the longest of their parameters that could be a time.

    Once so much time has passed since something, no rule that compares ages with its parameters sees more of it.
    """
    longest = max((v for p in policies for v in p.parameters.values() if 1 <= v <= LONGEST_TICK), default=1)
    return tuple(sorted({min(config.page_cost, LONGEST_TICK), longest}))


def form_of(
    policies: Sequence[Policy], top: int, config: Config, scope: Scope, *, exact: bool
) -> tuple[Any, Any]:
    """How states of the policies in ``top`` are compared: the array of ``fingerprint.imprint``, and the places that it
    takes as they are.
    """
    rules = [policy.rule for k, policy in enumerate(policies) if top >> k & 1]
    own, _ = columns_of(rules, apart=core_texts())
    deep, kept = columns_of(rules)
    _, moved = columns_of([text_of(name) for name in OPS if OPS.index(name) in _OPS])
    reads = set(deep)
    for name, sources in SLICED.items():
        if name in reads:
            reads.update(sources)
    changing = kept | moved
    whole = [
        name
        for name in COLUMNS
        if name in changing and (name not in REPORTS or name in own) and name != "ACTED"
    ]
    if not exact:
        whole = [name for name in whole if name not in HANDLED and name not in SLICED]
    places = [COLUMNS[name] + i for name in whole for i in range(SIZES[name])]
    form = np.full(F_SIZE, -1, dtype=np.int64)
    form[:6] = (
        scope.pages,
        scope.requests,
        config.device_frames,
        config.host_frames,
        int(exact),
        len(policies),
    )
    form[6:] = [COLUMNS[name] if exact or name in reads else -1 for name in SLICED]
    return form, np.array(places, dtype=np.int64)


_OPS = (TICK, ARRIVE, STEP, FADE, FINISH, FAIL, LATE)
