"""A run of the model whose one policy replays the decisions of an engine.

Workload events go through the Python interpreter (:func:`fuzzkv.simulator.interpreters.python_apply`), acts through the policy's
turn, by the primitives of the contract. Time is the log's: a copy ends when the log says so (its ``J_END`` is set to now), and
what a text is made of (``R_RES``, ``P_BRANCH``) is the workload's to say. Nothing else of the state is written from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fuzzkv.semantics import facts
from fuzzkv.semantics.contract.evidence import Evidence, Manifest
from fuzzkv.semantics.identity import expect, key_of
from fuzzkv.semantics.layout import (
    CACHED,
    COLUMNS,
    FETCH,
    FREE,
    KEY_ALL,
    KEY_SCHEME,
    ND,
    NINV,
    NJ,
    NP,
    NR,
    NX,
    ON_DEVICE,
    ON_STORE,
    PAGES,
    SPILL,
    TOKENS,
)
from fuzzkv.semantics.ops import index, transfers
from fuzzkv.semantics.ops.primitives import settle
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, FINISH, GROW, OPS, QUEUE, STEP, TEXT, Config
from fuzzkv.simulator.interpreters import python_apply
from fuzzkv.simulator.start import first_state

DEVICE_KEYS: Final = KEY_ALL
STORE_KEYS: Final = KEY_ALL - KEY_SCHEME
"""The engine's two indexes have to share the model's one: keys of the host leave out the scheme, which is the same for all here."""
SCHEME: Final = 1
COSTS: Final = Config(step_cost=1, page_cost=10_000, objective=1_000_000)
"""Copies take longer than any run: they end when the log says so."""


class _Replayer:
    """The rule of the replaying policy: it does the act that was put before it, once."""

    def __init__(self) -> None:
        self.act: Callable[[Any, int], bool] | None = None
        self.ran = False

    def __call__(self, state: Any, slot: int) -> None:
        if self.act is not None:
            act, self.act = self.act, None
            self.ran = act(state, slot)


_REPLAYER: Final = _Replayer()
_POLICY: Final = Policy(
    name="engine",
    version="1",
    manifest=Manifest(
        kind="offload",
        actions=(),
        evidence=Evidence(
            target="next-access",
            horizon=0,
            confidence=0,
            provenance="an engine's log",
            calibrated_on="nothing",
        ),
        source="an engine's log",
        fidelity="replayed",
    ),
    rule=_REPLAYER,
    free=True,
)


class Mirror:
    """One run of the model on ``frames`` device frames. Frames, sessions and pages are the model's numbers."""

    def __init__(self, frames: int) -> None:
        config = Config(**{**COSTS.as_json(), "device_frames": frames, "host_frames": 0})
        self.state: list[int] = first_state(config, (_POLICY,))
        self._apply = python_apply((_POLICY,))
        self.events = 0

    # -- what happens ------------------------------------------------------------------------------------

    def do(self, primitive: str, *numbers: int) -> bool:
        """The policy takes its turn and does this; whether it ran."""

        def act(state: Any, slot: int) -> bool:
            return bool(OPERATIONS[primitive](state, True, slot, *numbers))

        _REPLAYER.act, _REPLAYER.ran = act, False
        self._event(ACT, 0, 0)
        return _REPLAYER.ran

    def open(self, r: int, text: int, branches: list[int], residue: int) -> bool:
        """A session of ``len(branches)`` pages opens and waits; ``residue`` tokens are in the last one (0: it is full). Whether it
        opened."""
        self._event(TEXT, r, text)
        self._event(QUEUE, r, len(branches))
        if self.at("R_N", r) != len(branches) or not self.active(r):
            return False
        self.do("serve_as", r, 0, SCHEME)
        self._put("R_RES", r, residue)
        for i, branch in enumerate(branches):
            self._put("P_BRANCH", r * PAGES + i, branch)
            expect(self.state, True, r, i)
        return True

    def grow(self, r: int, tokens: int, branch: int) -> bool:
        """A session generates tokens; a page that this opens is on ``branch``. Whether it did."""
        before = (self.at("R_N", r), self.at("R_RES", r))
        last = max(0, r * PAGES + before[0] - 1)
        kept = self.at("P_BRANCH", last)
        if before[1] == 0:
            # A new page is on the branch of the one before it.
            self._put("P_BRANCH", last, branch)
        self._event(GROW, r, tokens)
        self._put("P_BRANCH", last, kept)
        return (self.at("R_N", r), self.at("R_RES", r)) != before

    def step(self, r: int) -> bool:
        """A device step of a session reads all its pages; whether it ran."""
        before = self.at("R_STEPS", r)
        self._event(STEP, r, self.at("R_N", r) - 1)
        return self.at("R_STEPS", r) > before

    def finish(self, r: int) -> bool:
        """A session ends; whether it did."""
        self._event(FINISH, r, 0)
        return not self.active(r)

    def end_copies(self, pages: list[int], kind: int) -> int:
        """Copies of this kind of these pages end now; how many did."""
        jobs = [j for j in range(NJ) if self.at("J_KIND", j) == kind and self.at("J_PAGE", j) in pages]
        for j in jobs:
            self._put("J_END", j, self.at("NOW"))
        settle(self.state)
        return len(jobs)

    # -- what is seen ------------------------------------------------------------------------------------

    def at(self, column: str, place: int = 0) -> int:
        """A number of the state."""
        return self.state[COLUMNS[column] + place]

    def active(self, r: int) -> bool:
        """Whether a session is open."""
        return self.at("R_ACTIVE", r) == 1

    def running(self, r: int) -> bool:
        """Whether it has all its pages."""
        return bool(facts.running(self.state, r))

    def present(self, p: int) -> bool:
        """Whether a page has a filled device frame."""
        return bool(facts.present(self.state, p))

    def missing(self, r: int) -> int:
        """Pages that it waits for and nothing brings."""
        return sum(bool(facts.to_do(self.state, r * PAGES + i)) for i in range(self.at("R_N", r)))

    def frames_of(self, r: int) -> list[int]:
        """The device frame of each page of a session, -1 where there is none."""
        return [self.at("DEV", r * PAGES + i) for i in range(self.at("R_N", r))] if self.active(r) else []

    def free(self) -> int:
        """Device frames that nobody uses: free, or kept by the index alone."""
        return sum(self.at("D_PAGE", f) in (FREE, CACHED) for f in range(ND))

    def entry(self, p: int, covers: int) -> int:
        """The index entry of a page's key, or -1; one that is not visible yet counts."""
        key = key_of(self.at("WANT", p), covers)
        return max(int(transfers.entry_of(self.state, key)), int(transfers.entry_of(self.state, -key)))

    def device_entries(self) -> dict[int, int]:
        """Entries of the index on the device: entry to frame."""
        return {
            x: self.at("X_FRAME", x)
            for x in range(NX)
            if self.at("X_KEY", x) > 0 and self.at("X_TIER", x) == ON_DEVICE
        }

    def store_entries(self) -> dict[int, bool]:
        """Entries of the index on the store: entry to whether it can be found."""
        return {
            x: self.at("X_KEY", x) > 0
            for x in range(NX)
            if self.at("X_KEY", x) != 0 and self.at("X_TIER", x) == ON_STORE
        }

    def room_in_index(self) -> bool:
        """Whether another entry fits."""
        return int(transfers.free_entry(self.state)) >= 0

    def copies(self) -> list[tuple[int, int]]:
        """Copies in flight: kind and page."""
        return sorted(
            (self.at("J_KIND", j), self.at("J_PAGE", j)) for j in range(NJ) if self.at("J_KIND", j) != 0
        )

    def copies_of(self, r: int, kind: int) -> int:
        """Copies of a kind of a session's pages in flight."""
        return sum(k == kind and p // PAGES == r for k, p in self.copies())

    def read_frames(self, r: int) -> tuple[int, int]:
        """Device frames of a session that something in flight reads or fills: that it has alone, and that it shares."""
        used = [f for f in self.frames_of(r) if f >= 0 and facts.in_flight_on_device(self.state, f)]
        alone = sum(self.at("D_REF", f) <= 1 for f in used)
        return alone, len(used) - alone

    def room_in_flight(self) -> bool:
        """Whether another copy fits."""
        return len(self.copies()) < NJ

    def cached_only(self, x: int) -> bool:
        """Whether only the index refers to the frame of an entry."""
        return bool(index.cached_only(self.state, x))

    def broken(self) -> dict[str, int]:
        """Invariants that the run has broken so far, and how often."""
        return {f"I{i}": n for i in range(1, NINV) if (n := self.at("V_COUNT", i))}

    def _event(self, code: int, a: int, b: int) -> None:
        self.events += 1
        self._put("EVENT", 0, self.events)
        self._apply(self.state, code, a, b, 1)

    def _put(self, column: str, place: int, value: int) -> None:
        self.state[COLUMNS[column] + place] = value


def tokens_of_page(tokens: int, block: int) -> int:
    """The model's tokens of a block with so many of the engine's: 0 for a full one, else at least one and not all."""
    return 0 if tokens % block == 0 else max(1, min(TOKENS - 1, tokens % block * TOKENS // block))


__all__ = ["DEVICE_KEYS", "FETCH", "NP", "NR", "OPS", "SPILL", "STORE_KEYS", "Mirror", "tokens_of_page"]
