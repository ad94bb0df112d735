"""Runs the explicit-state search of one policy set and scope in compiled code, within a bound of memory."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from fuzzkv.core.results import FailureClass, names_of
from fuzzkv.errors import UsageError
from fuzzkv.modelcheck import fingerprint, kernel, nodes
from fuzzkv.modelcheck.projection import form_of
from fuzzkv.modelcheck.results import Explored, ShortestSchedule, store_size
from fuzzkv.modelcheck.scope import Scope, extras_of
from fuzzkv.semantics import layout, schedule
from fuzzkv.semantics.contract.invariants import INVARIANTS
from fuzzkv.semantics.contract.minimal import is_subset
from fuzzkv.semantics.layout import NINV, NOBODY, PRIMITIVES, SIZE
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import Config
from fuzzkv.simulator.bulk import search
from fuzzkv.simulator.bulk.callbacks import Rules
from fuzzkv.simulator.bulk.core import core
from fuzzkv.simulator.bulk.store import load_compiled
from fuzzkv.simulator.start import first_state

DEEPEST = 400
"""Events of the longest schedule that is gone."""
CHUNK = 256
"""Nodes from one look at the clock to the next."""
WALK = 24
"""Events that two merged states are tried with."""
_WALKS = 400

_FUNCTIONS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (fingerprint, ("stir", "since", "told", "tag", "orderly", "imprint_device", "imprint_host")),
    (fingerprint, ("imprint_frames", "imprint_page", "imprint_session", "imprint_memory", "imprint_copy")),
    (fingerprint, ("imprint",)),
    (nodes, ("spend", "transfer", "go", "unroll", "retrace", "seal", "insert")),
    (kernel, ("matters", "judge", "attempt", "expand", "differ", "drifts")),
)
"""What is compiled behind the core, callees first."""
_TUPLES: tuple[Any, ...] = (nodes.Plan, nodes.Store, nodes.Trail, nodes.NodeBuffers, nodes.Found)


@lru_cache(maxsize=1)
def module() -> ModuleType:
    """The compiled functions of ``modelcheck.fingerprint`` and ``modelcheck.kernel`` (once half a minute, then from the cache)."""
    functions = [getattr(space, name) for space, names in _FUNCTIONS for name in names]
    used = {name for function in functions for name in function.__code__.co_names}
    numbers: dict[str, int] = {}
    for space in (layout, schedule, search, fingerprint, nodes, kernel):
        numbers.update({name: value for name, value in vars(space).items() if type(value) is int})
    parts = [
        f"from typing import Any\nimport numpy as np\nfrom numba import njit\nfrom {core().__name__} import *",
        "\n".join(f"{name} = {numbers[name]}" for name in sorted(used & set(numbers))),
        # The types of the arguments belong to what was compiled.
        "\n".join(f"# {kind.__name__}: {', '.join(kind._fields)}" for kind in _TUPLES),
        *("@njit(cache=True)\n" + inspect.getsource(function) for function in functions),
    ]
    return load_compiled("\n\n".join(parts), "explore")


class Explorer:
    """Searches every schedule of a scope for sets of some policies, ``policies`` in their slots.

    ``memory`` is in bytes and covers the whole process.  Raises ``UsageError`` for free policies (FKV038), too little
    memory (FKV030), and whatever the first state can't hold (FKV032).  ``extras`` are the codes of the events that some policy
    asks for: they are tried for every set, so that a set that passes also passes as a part of a larger one.
    """

    def __init__(
        self, policies: Sequence[Policy], config: Config, scope: Scope, *, memory: int, enforce: bool = False
    ) -> None:
        free = [policy.name for policy in policies if policy.free]
        if free:
            raise UsageError(
                code="FKV038",
                value=", ".join(free),
                reason="its rule is ordinary Python, and what such a rule remembers can't be seen in the state",
                cure="Write it in the vocabulary, or search with 'fuzzkv hunt'.",
            )
        self.policies, self.config, self.scope, self.enforce = tuple(policies), config, scope, enforce
        self.extras = extras_of(self.policies)
        self._counters = nodes.U_SIZE if self.extras else nodes.U_EXTRA
        self.capacity, self._table = store_size(memory, self._counters)
        self._core = module()
        self._template = np.array(first_state(config, self.policies, enforce=enforce), dtype=np.int64)
        self._rules = Rules(self.policies, ())

    def explore(
        self,
        top: int,
        *,
        safe: Container[int] = (),
        depth: int | None = None,
        seconds: float | None = None,
        tell: Callable[[Explored], None] | None = None,
    ) -> Explored:
        """Go through the scope for the policies in the mask ``top``, breadth first.

        ``safe`` are masks of proper subsets that are known to pass every schedule of the scope: they need no arm.

        ``depth`` bounds the events of a schedule, ``seconds`` the time; ``tell`` hears after every depth, and once a
        second or so.  States are merged as ``modelcheck.fingerprint`` says; if trials show that the policies tell merged states
        apart, everything is done again in the exact form.
        """
        began = time.monotonic()
        for exact in (False, True):
            run = _ExplorerRun(self, top, safe, exact)
            left = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
            with self._rules.running():
                try:
                    done = (exact or not run.drifts()) and run.explore(
                        min(depth or DEEPEST, DEEPEST), left, tell
                    )
                except KeyboardInterrupt:
                    run.count()
                    run.result.ending, done = "interrupted", True
            if done:
                break
        return run.result


class _ExplorerRun:
    """One search under one projection of the states."""

    def __init__(self, explorer: Explorer, top: int, safe: Container[int], exact: bool) -> None:
        self.explorer, self.core, self.top = explorer, explorer._core, top
        arms = [sub for sub in range(top + 1) if is_subset(sub, top) and (sub == top or sub not in safe)]
        form, places = form_of(explorer.policies, top, explorer.config, explorer.scope, exact=exact)
        self.template = explorer._template.copy()
        self.template[fingerprint._NOW] = 0 if exact else fingerprint.BASE
        events = explorer.scope.events(top, explorer.config.page_cost, explorer.extras)
        causes = np.zeros((NINV, NINV), dtype=np.int64)
        for invariant in INVARIANTS:
            for cause in invariant.implied_by:
                causes[int(invariant.id[1:]), int(cause[1:])] = 1
        self.plan = nodes.Plan(
            form,
            places,
            np.array(arms, dtype=np.int64),
            np.array(explorer.scope.limits, dtype=np.int64),
            np.array(events, dtype=np.int64),
            causes,
            explorer._rules.row,
        )
        rows, counts, most = len(arms), explorer._counters, explorer.capacity
        # Pages of an empty array are taken from the system only when they are written to.
        self.store = nodes.Store(
            np.empty((most, 2), dtype=np.uint64),
            np.zeros((most, counts), dtype=np.uint8),
            np.empty(most, dtype=np.int32),
            np.empty(most, dtype=np.uint8),
            np.zeros(explorer._table, dtype=np.int32),
        )
        self.trail = nodes.Trail(
            np.empty((DEEPEST + 1, rows, SIZE), dtype=np.int64),
            np.zeros((DEEPEST + 1, counts), dtype=np.int64),
            np.full(DEEPEST + 1, -1, dtype=np.int64),
        )
        self.trail.path[0] = 0
        self.trail.stack[0][:] = self.template
        self.bench = nodes.NodeBuffers(
            np.zeros((rows, SIZE), dtype=np.int64),
            np.zeros((rows, 2), dtype=np.uint64),
            np.zeros((rows, 2), dtype=np.uint64),
            np.zeros(rows, dtype=np.int64),
            np.zeros(counts, dtype=np.int64),
        )
        self.found = nodes.Found(
            np.zeros(kernel.B_SIZE, dtype=np.int64),
            np.zeros((search.MAX_CLASSES, 3), dtype=np.int64),
            np.zeros((search.MAX_CLASSES, 2), dtype=np.int64),
            np.zeros((kernel.SAMPLES, 3), dtype=np.int64),
        )
        self.found.sums[kernel.B_NODES] = 1
        self.store.parent[0] = 0
        self.one, self.other = np.zeros_like(self.bench.work), np.zeros_like(self.bench.work)
        self.used = np.zeros(counts, dtype=np.int64)
        self.rows = np.zeros((DEEPEST + 2, 3), dtype=np.int64)
        self.result = Explored(capacity=most, relative=not exact)

    def drifts(self) -> bool:
        """Whether the policies look at absolute time."""
        return bool(
            self.core.drifts(self.plan, self.template, self.one[0], self.other[0], 1, _WALKS, 2 * WALK)
        )

    def explore(self, depth: int, seconds: float | None, tell: Callable[[Explored], None] | None) -> bool:
        """Search; returns whether no merge was found to be wrong."""
        # Compiled before the clock runs.
        self.core.expand(self.plan, self.store, self.trail, self.bench, self.found, 0, 0, 0)
        self.core.unroll(self.plan, self.store, 0, -1, self.template, self.one, self.used, self.rows)
        self.core.differ(self.plan, self.bench, self.one, self.one, self.used, 0, -1)
        began, told = time.monotonic(), 0.0
        result, sums = self.result, self.found.sums
        low, high = 0, 1
        while low < high:
            if result.depth == depth:
                result.ending = "depth"
                break
            result.frontier = high - low
            while low < high:
                stop = min(low + CHUNK, high)
                reached = self.core.expand(
                    self.plan, self.store, self.trail, self.bench, self.found, low, stop, result.depth
                )
                sound = self.sound()
                result.seconds = time.monotonic() - began
                self.count()
                if not sound:
                    return False
                if reached < stop:
                    result.ending = "memory"
                elif seconds is not None and result.seconds > seconds:
                    result.ending = "time"
                if result.ending != "exhausted":
                    return True
                low = stop
                if tell is not None and result.seconds > told + 1:
                    told = result.seconds
                    tell(result)
            low, high = high, int(sums[kernel.B_NODES])
            if low < high:
                result.depth += 1
                if tell is not None:
                    tell(result)
        return True

    def sound(self) -> bool:
        """Look at the merges that were kept: whether the two states that were taken for one go on alike."""
        plan, sums = self.plan, self.found.sums
        for i in range(int(sums[kernel.B_SAMPLES])):
            node, event, known = (int(x) for x in self.found.samples[i])
            self.core.unroll(plan, self.store, known, -1, self.template, self.other, self.used, self.rows)
            self.core.unroll(plan, self.store, node, event, self.template, self.one, self.used, self.rows)
            seed = self.result.checked
            self.result.checked += 1
            if self.core.differ(plan, self.bench, self.one, self.other, self.used, seed, WALK):
                return False
        sums[kernel.B_SAMPLES] = 0
        return True

    def count(self) -> None:
        """Bring the result up to date."""
        result, sums = self.result, self.found.sums
        result.states, result.children = int(sums[kernel.B_NODES]), int(sums[kernel.B_CHILDREN])
        result.merged, result.failing = int(sums[kernel.B_MERGED]), int(sums[kernel.B_FAILING])
        result.acted = int(sums[kernel.B_ACTED])
        for c in range(len(result.witnesses), int(sums[kernel.B_CLASSES])):
            invariant, actor, primitive = (int(x) for x in self.found.kinds[c])
            node, event = (int(x) for x in self.found.at[c])
            length = self.core.unroll(
                self.plan, self.store, node, event, self.template, self.one, self.used, self.rows
            )
            names = [policy.name for policy in self.explorer.policies]
            result.witnesses.append(
                ShortestSchedule(
                    FailureClass(
                        names_of(names, self.top),
                        f"I{invariant}",
                        PRIMITIVES[primitive],
                        None if actor == NOBODY else names[actor],
                    ),
                    tuple((int(op), int(a), int(b)) for op, a, b in self.rows[:length]),
                )
            )
