"""The uniform random loop on the compiled core: the plainest peer there is, as fast as fuzzkv's own search.

It draws what ``bench.peers.random_loop`` draws (each event's kind and numbers uniform within the bounds of the set,
runs of ``LONGEST`` events that end at the first failure) and judges in the same way, control arms after a failure; only
the machine below is the compiled one.  ``loop`` is compiled behind the core as it stands.
"""

from __future__ import annotations

import inspect
import time
from functools import lru_cache
from typing import Any

import numpy as np

from bench.peers import LONGEST, limits
from bench.targets import Target
from fuzzkv.semantics.layout import COLUMNS, NINV, PRIMITIVES
from fuzzkv.simulator.bulk.callbacks import Rules
from fuzzkv.simulator.bulk.core import core, span_of
from fuzzkv.simulator.bulk.search import acted, apply, begin, failed
from fuzzkv.simulator.bulk.store import load_compiled
from fuzzkv.simulator.start import first_state
from fuzzkv.strategies.drawing import below, mix

SCHEDULES, RUNS, PRIMITIVES_RUN, FOUND = range(4)
"""In the totals: schedules drawn, runs with control arms, primitive events with control arms, 1 once it is found."""
ANY = -2
"""An actor or a primitive that isn't asked for."""
CHUNK = 4096
"""Schedules from one look at the clock to the next."""
EVENT, PRIMS = COLUMNS["EVENT"], COLUMNS["PRIMS"]
V_COUNT, V_ACTOR, V_PRIM = COLUMNS["V_COUNT"], COLUMNS["V_ACTOR"], COLUMNS["V_PRIM"]


def loop(
    seed: int,
    start: int,
    count: int,
    slots: int,
    draws: Any,
    template: Any,
    states: Any,
    events: Any,
    wanted: Any,
    actor: int,
    primitive: int,
    totals: Any,
    rules: Any,
) -> Any:
    """Draw and judge up to ``count`` schedules from number ``start``; stops at the conflict that is ``wanted``.

    ``draws`` are the kinds of events: code, least and largest ``a``, least and largest ``b``; ``wanted[i]`` is 1 for the
    invariants that count.
    """
    full = (1 << slots) - 1
    s = states[full]
    for number in range(start, start + count):
        x = mix(mix(seed) ^ number)
        begin(s, template, full, rules)
        length = 0
        broken = False
        while length < LONGEST and not broken:
            x = mix(x)
            y = mix(x)
            z = mix(y)
            row = below(x, len(draws))
            events[length, 0] = draws[row, 0]
            events[length, 1] = draws[row, 1] + below(y, draws[row, 2] - draws[row, 1] + 1)
            events[length, 2] = draws[row, 3] + below(z, draws[row, 4] - draws[row, 3] + 1)
            s[EVENT] = length
            apply(s, events[length, 0], events[length, 1], events[length, 2], full, rules)
            x = z
            length += 1
            broken = failed(s)
        totals[SCHEDULES] += 1
        totals[RUNS] += 1
        totals[PRIMITIVES_RUN] += s[PRIMS]
        if not broken:
            continue
        shown = True
        for sub in range(full):
            begin(states[sub], template, sub, rules)
            for e in range(length):
                states[sub][EVENT] = e
                apply(states[sub], events[e, 0], events[e, 1], events[e, 2], sub, rules)
            totals[RUNS] += 1
            totals[PRIMITIVES_RUN] += states[sub][PRIMS]
            if failed(states[sub]):
                shown = False
        for k in range(slots):
            if not acted(s, k):
                shown = False
        for i in range(1, NINV):
            if not shown or s[V_COUNT + i] == 0 or wanted[i] == 0:
                continue
            if actor != ANY and s[V_ACTOR + i] != actor:
                continue
            if primitive == ANY or s[V_PRIM + i] == primitive:
                totals[FOUND] = 1
                return 1
    return 0


@lru_cache(maxsize=1)
def compiled() -> Any:
    """The compiled ``loop`` (a few seconds the first time, then from the cache)."""
    names = sorted(set(loop.__code__.co_names) & {n for n, value in globals().items() if type(value) is int})
    source = [f"from typing import Any\nfrom numba import njit\nfrom {core().__name__} import *"]
    source += [f"{name} = {globals()[name]}" for name in names]
    source += ["@njit(cache=True)\n" + inspect.getsource(loop)]
    return load_compiled("\n\n".join(source), "uniform").loop


class Uniform:
    """The loop on one target, for several seeds."""

    def __init__(self, target: Target) -> None:
        policies = target.policies
        first = np.array(first_state(target.config, policies), dtype=np.int64)
        self._template = first[: span_of(policies)]
        self._states: Any = np.tile(first, (1 << len(policies), 1))
        self._rules = Rules(policies, (self._states,))
        self._draws = np.array([(op, *limits(target, op)) for op in target.ops], dtype=np.int64)
        self._events: Any = np.zeros((LONGEST, 3), dtype=np.int64)
        self._wanted: Any = np.zeros(NINV, dtype=np.int64)
        for invariant in target.invariants:
            self._wanted[int(invariant[1:])] = 1
        names = [policy.name for policy in policies]
        self._slots = len(names)
        self._actor = ANY if target.actor is None else names.index(target.actor)
        self._primitive = ANY if target.primitive is None else PRIMITIVES.index(target.primitive)
        self._loop = compiled()

    def run(self, seed: int, cap: float) -> dict[str, Any]:
        """Look for the conflict for up to ``cap`` seconds; what came of it."""
        began = time.perf_counter()
        totals: Any = np.zeros(4, dtype=np.int64)
        with np.errstate(over="ignore"), self._rules.running() as rules:
            while not totals[FOUND] and time.perf_counter() - began < cap:
                self._loop(
                    seed,
                    int(totals[SCHEDULES]),
                    CHUNK,
                    self._slots,
                    self._draws,
                    self._template,
                    self._states,
                    self._events,
                    self._wanted,
                    self._actor,
                    self._primitive,
                    totals,
                    rules,
                )
        return {
            "found": bool(totals[FOUND]),
            "seconds": round(time.perf_counter() - began, 6),
            "schedules": int(totals[SCHEDULES]),
            "runs": int(totals[RUNS]),
            "primitives": int(totals[PRIMITIVES_RUN]),
        }
