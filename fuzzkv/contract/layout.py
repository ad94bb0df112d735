"""The state of the machine: every field, its column and its size, once.

A state is one flat run of integers.  A column is named by its base offset, so ``get(s, DEV, p)`` is
``s[DEV + p]`` in Python and in the compiled reader, and a lookup in a column of terms in the solver.
Times are ticks of virtual time, losses are permille of one request's recall, frames and pages are indices.
"""

from __future__ import annotations

# The scope: how many of each thing one state can hold.
NR = 2
"""Requests (sessions) alive at once."""
PAGES = 8
"""Pages of one request; page ``i`` of request ``r`` is page ``r * PAGES + i``."""
NP = NR * PAGES
ND = 16
"""Device frames, at most; a configuration opens some of them."""
NH = 12
"""Host frames, at most."""
NJ = 6
"""Copies in flight, at most."""
NK = 4
"""Policies, at most (slots)."""
NPARAM = 12
"""Parameters of one policy, at most."""
NINV = 19
"""Invariants I1 to I18, index 0 unused."""
NPRIM = 24
"""Primitives, at most."""
NCLAUSE = 8
"""Clauses of the contract, at most."""
NGOAL = 8
"""Goals that a hunt must reach, at most."""

FREE = -1
"""Owner of a frame in its pool."""
CLOSED = -2
"""Owner of a frame that this configuration doesn't have."""
NOBODY = -1
"""Actor that is no policy: the workload or the environment."""

EXACT, INT8, INT4 = 0, 1, 2
"""Precision of the bytes in a frame; a larger number is lossier."""
STORE, LOAD, ABANDONED = 1, 2, 3
"""Kinds of a copy in flight: device to host, host to device, one whose session ended."""

_COLUMNS: tuple[tuple[str, int], ...] = (
    # The clock, the link and the configuration.
    ("NOW", 1),
    ("LINK_FREE", 1),
    ("LATE", 1),
    ("ENFORCE", 1),
    ("ACTOR", 1),
    ("EVENT", 1),
    ("PRIMS", 1),
    ("STEP_COST", 1),
    ("PAGE_COST", 1),
    ("OBJECTIVE", 1),
    ("TOLERANCE", 1),
    ("LEDGER", 1),
    ("HEADROOM", 1),
    ("SHARE", PAGES + 1),
    ("QSHARE", PAGES + 1),
    # What the run is judged by.
    ("STEPS", 1),
    ("LAT_MAX", 1),
    ("LAT_SUM", 1),
    ("FREED", 1),
    ("REMOTE", 1),
    ("DEMAND", 1),
    ("V_COUNT", NINV),
    ("V_EVENT", NINV),
    ("V_STAMP", NINV),
    ("V_PAGE", NINV),
    ("V_ACTOR", NINV),
    ("V_PRIM", NINV),
    ("ACTED", NK * NPRIM),
    ("REFUSED", NCLAUSE),
    ("GOAL", NGOAL),
    # Requests.
    ("R_ACTIVE", NR),
    ("R_N", NR),
    ("R_EPOCH", NR),
    ("R_LOSS", NR),
    ("R_STEPS", NR),
    # Pages: where they are and what was seen of them.
    ("OWNED", NP),
    ("DEV", NP),
    ("HOST", NP),
    ("EVICTED", NP),
    ("PAID", NP),
    ("RELEVANT", NP),
    ("BUSY", NP),
    ("ATT", NP),
    ("LIFE", NP),
    ("SEEN", NP),
    ("LAST", NP),
    ("GAP", NP),
    ("HITS", NP),
    ("QUOTE", NK * NP),
    # Frames: whose they are and what they hold.
    ("D_PAGE", ND),
    ("D_TAG", ND),
    ("D_PREC", ND),
    ("D_FILL", ND),
    ("H_PAGE", NH),
    ("H_TAG", NH),
    ("H_PREC", NH),
    ("H_FILL", NH),
    # Copies in flight.
    ("J_KIND", NJ),
    ("J_PAGE", NJ),
    ("J_SRC", NJ),
    ("J_DST", NJ),
    ("J_END", NJ),
    ("J_BY", NJ),
    ("J_FAIL", NJ),
    ("J_TAG", NJ),
    ("J_PREC", NJ),
    ("J_OVER", NJ),
    ("FLYING", NK),
    # Each policy's own memory and parameters; nobody else reads them.
    ("MARK", NK * NP),
    ("DUE", NK * NP),
    ("SPENT", NK * NR),
    ("NOTE", NK),
    ("PARAM", NK * NPARAM),
    ("MF_HORIZON", NK),
)

SIZE = sum(size for _, size in _COLUMNS)
"""Integers in one state."""


def _offsets() -> dict[str, int]:
    table: dict[str, int] = {}
    base = 0
    for name, size in _COLUMNS:
        table[name] = base
        base += size
    return table


COLUMNS: dict[str, int] = _offsets()
"""Column name -> base offset."""
SIZES: dict[str, int] = dict(_COLUMNS)
"""Column name -> number of integers."""

PRIMITIVES: tuple[str, ...] = (
    "arrive",
    "finish",
    "step",
    "read",
    "tick",
    "relevance",
    "begin_store",
    "end_store",
    "begin_load",
    "end_load",
    "fail_copy",
    "late_copy",
    "drop_device",
    "drop_host",
    "quantise",
    "promise",
    "withdraw",
    "condemn",
    "remote_read",
    "demand_load",
    "lose",
)
"""Names of the primitives; a history and the ``ACTED`` column use their index."""

ACTIONS = frozenset({"begin_store", "begin_load", "drop_device", "drop_host", "quantise"})
"""Primitives that change a page or use the link: a manifest has to declare them."""

CLAUSES: tuple[str, ...] = ("authority", "fence", "evidence", "quality-budget", "link-budget", "claim")
"""Clauses of the contract; the ``REFUSED`` column uses their index."""

GOALS: tuple[str, ...] = (
    "a page was offered to its reader from the host",
    "a copy was in flight when a reader had to wait",
    "a page was quantised while another policy relied on its host copy",
    "a page was condemned while another policy had moved it",
    "a host copy was destroyed while another policy's promise stood on its page",
    "two policies' copies were in flight at once",
    "losses of two policies were charged to one request",
    "the host tier was full when a policy wanted a frame",
)
"""Interactions that a hunt has to reach at least once, or it reports itself as vacuous."""


def constants() -> dict[str, int]:
    """All names that the text of the semantics may use as numbers: columns, scope, codes."""
    names: dict[str, int] = dict(COLUMNS)
    for name, value in globals().items():
        if name.isupper() and isinstance(value, int):
            names[name] = value
    names.update({"P_" + name.upper(): i for i, name in enumerate(PRIMITIVES)})
    names.update({"C_" + name.upper().replace("-", "_"): i for i, name in enumerate(CLAUSES)})
    names.update({f"I{i}": i for i in range(1, NINV)})
    return names
