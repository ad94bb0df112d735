"""The scope of an exhaustive search: numbers of requests, pages, events and failures, and the events to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuzzkv.errors import UsageError
from fuzzkv.semantics.layout import NR, PAGES, TOKENS
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import (
    ABORT,
    ACT,
    ARRIVE,
    BOUNDS,
    FADE,
    FAIL,
    FINISH,
    GROW,
    LATE,
    OPS,
    PAUSE,
    PRESSURE,
    QUEUE,
    SLEEP,
    STEP,
    TEXT,
    TICK,
    VERIFY,
    WEIGHTS,
    Config,
    Event,
)
from fuzzkv.strategies.covering_arrays import enabled

LONGEST_TICK = BOUNDS[TICK][1]
_GROWN = (1, TOKENS)
"""Tokens that a session generates at once."""
_ACCEPTED = (0, 1, TOKENS)
"""Drafts that are accepted at once."""
_PRESSED = tuple((a, b) for a in (0, BOUNDS[PRESSURE][1]) for b in (0, BOUNDS[PRESSURE][3]))
"""Device and host frames that memory pressure takes: none, or the most."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """All schedules of: sessions of up to ``pages`` pages, ``requests`` of them at once and ``sessions`` in all; at most
    ``steps`` steps in the place of each of those at once; at most ``ticks`` times that the device idles, each for one of
    ``tick_sizes``; at most ``faults`` failed or late copies; and acts, fading pages and ends of sessions without number.

    Of the events that a policy asks for (``Policy.workload``) a session that opens and waits counts as one of ``sessions``;
    of each other kind there are at most ``extra``.  A session sets a text of its own or text 1, grows by 1 or ``TOKENS``
    tokens, has none, one or all of its drafts accepted; pressure takes none or the most of a tier's frames.

    The budgets make the space finite without a word about what the policies count: ages, attention and hits are exact.

    Raises ``UsageError`` (FKV030) for a number that the machine can't hold.
    """

    pages: int = 3
    requests: int = 2
    sessions: int = 2
    steps: int = 1
    ticks: int = 2
    tick_sizes: tuple[int, ...] = (8,)
    faults: int = 0
    extra: int = 1

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("--pages", self.pages, 1, PAGES),
            ("--requests", self.requests, 1, NR),
            ("--sessions", self.sessions, 1, 99),
            ("--steps", self.steps, 0, 99),
            ("--ticks", self.ticks, 0, 99),
            ("--faults", self.faults, 0, 99),
            ("--extra", self.extra, 0, 99),
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
    def limits(self) -> tuple[int, ...]:
        """The budgets in the order in which a node counts what it has used (``modelcheck.nodes``)."""
        kinds = len(OPS) - TEXT
        return self.sessions, self.ticks, self.faults, *[self.steps] * NR, *[self.extra] * kinds

    def reach(self, codes: Sequence[int]) -> int:
        """How many pages of a session steps ask about: those that it opens with, and one for each time that its text grows."""
        return min(PAGES, self.pages + (self.extra if GROW in codes or VERIFY in codes else 0))

    def events(self, top: int, page_cost: int, codes: Sequence[int] = ()) -> tuple[Event, ...]:
        """Every event of the scope for the policies in ``top``; ``codes`` are the kinds that policies ask for."""
        found: list[Event] = []
        sessions = range(self.requests)
        pages = range(self.reach(codes))
        found += [(ARRIVE, r, n) for r in sessions for n in range(1, self.pages + 1)]
        found += [(STEP, r, i) for r in sessions for i in pages]
        found += [(ACT, k, 0) for k in range(top.bit_length()) if top >> k & 1]
        found += [(TICK, size, 0) for size in sorted(set(self.tick_sizes))]
        found += [(FADE, r, i) for r in sessions for i in pages]
        found += [(FINISH, r, 0) for r in sessions]
        if self.faults:
            found += [(FAIL, 0, 0), (LATE, min(page_cost, BOUNDS[LATE][1]), 0)]
        more: dict[int, list[Event]] = {
            QUEUE: [(QUEUE, r, n) for r in sessions for n in range(1, self.pages + 1)],
            TEXT: [(TEXT, r, text) for r in sessions for text in (0, 1)],
            GROW: [(GROW, r, tokens) for r in sessions for tokens in _GROWN],
            VERIFY: [(VERIFY, r, accepted) for r in sessions for accepted in _ACCEPTED],
            ABORT: [(ABORT, r, i) for r in sessions for i in pages],
            PAUSE: [(PAUSE, r, 0) for r in sessions],
            WEIGHTS: [(WEIGHTS, 0, 0)],
            SLEEP: [(SLEEP, depth, 0) for depth in range(1, BOUNDS[SLEEP][1] + 1)],
            PRESSURE: [(PRESSURE, device, host) for device, host in _PRESSED],
        }
        for code in codes:
            if code == QUEUE or self.extra:
                found += more[code]
        return tuple(found)

    def budgets(self, codes: Sequence[int] = ()) -> dict[str, int | None]:
        """The kinds of events by name, and how many of each there are in a schedule (``None``: without number).

        Failed and late copies share one budget, so do sessions that open and those that open and wait.
        """
        counted: dict[int, int] = {ARRIVE: self.sessions, STEP: self.steps * self.requests, TICK: self.ticks}
        if self.faults:
            counted |= {FAIL: self.faults, LATE: self.faults}
        counted |= {code: self.sessions if code == QUEUE else self.extra for code in codes}
        kinds = sorted({*counted, ACT, FADE, FINISH})
        return {OPS[code]: counted.get(code) for code in kinds if code not in counted or counted[code]}


def extras_of(policies: Sequence[Policy]) -> tuple[int, ...]:
    """Codes of the events beyond the usual that any of the policies asks for.  Raises ``UsageError`` (FKV034)."""
    return tuple(code for code in enabled(policies) if code >= QUEUE)


def default_ticks(policies: Sequence[Policy], config: Config) -> tuple[int, ...]:
    """Sizes of ticks for some policies: what one copy takes, and the longest of their parameters that could be a time.

    Once so much time has passed since something, no rule that compares ages with its parameters sees more of it.
    """
    longest = max((v for p in policies for v in p.parameters.values() if 1 <= v <= LONGEST_TICK), default=1)
    return tuple(sorted({min(config.page_cost, LONGEST_TICK), longest}))
