"""The state of the machine: every field, its column and its size, once.

A state is one flat run of integers.  A column is named by its base offset, so ``get(s, DEV, p)`` is
``s[DEV + p]`` in Python and in the compiled interpreter, and a lookup in a column of terms in the solver.
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
NX = 8
"""Entries of the prefix index, at most."""
NQ = 3
"""Queues of evictable frames, at most."""
NPRIM = 72
"""Primitives, at most."""
NCLAUSE = 16
"""Clauses of the contract, at most."""
NGOAL = 12
"""Goals that a hunt must reach, at most."""

FREE = -1
"""Owner of a frame in its pool."""
CLOSED = -2
"""Owner of a frame that this configuration doesn't have."""
PENDING = -3
"""Owner of a device frame that was given up, but whose fence hasn't passed yet."""
CACHED = -4
"""Owner of a device frame that only the index still refers to."""
TAKEN = -5
"""Owner of a free frame that memory pressure has taken away."""
ORPHAN = -10
"""Owner of a host frame whose session (``ORPHAN - r``) ended while it was pinned."""
NOBODY = -1
"""Actor that is no policy: the workload or the environment."""

EXACT, INT8, INT4 = 0, 1, 2
"""Precision of the bytes in a frame; a larger number is lossier."""
STORE, LOAD, ABANDONED, RUN, RECEIVE, SPILL, FETCH = 1, 2, 3, 4, 5, 6, 7
"""Kinds of what is in flight: device to host, host to device, one whose session ended, a device step that ran
ahead, peer to device, device to the external store, external store to device.
"""
ON_DEVICE, ON_STORE = 1, 2
"""Tiers of an index entry: a device frame, or bytes in an external store (host pool, file, remote) that
outlives sessions.
"""
TOKENS = 4
"""Tokens of one page; a page with fewer is its session's last."""
WINDOW = 4
"""Slots of a ring buffer."""
GARBLED, SKEWED = -1, -2
"""Ghost tags of bytes that were read or written in another layout, and of a payload whose scales aren't its
own.
"""
CURRENT_ATTENTION, NEXT_ACCESS, NEAR_REUSE, RECONSTRUCTION, ATTENTION_OUTPUT, ANSWER = 1, 2, 3, 4, 5, 6
"""Targets of a certificate, by what they can warrant."""
RESIDE, DEGRADE, DELETE = 1, 2, 3
"""What a certificate is spent on: where a page lies, lossy bytes without a backup, deletion for good."""
KEY_TEXT, KEY_BRANCH, KEY_ADAPTER, KEY_SCHEME, KEY_WEIGHTS, KEY_LINEAGE, KEY_LAYOUT = 1, 2, 4, 8, 16, 32, 64
"""Components that an index key may cover: exact tokens, branch, adapter, scheme (tokenizer, chat template,
positions, salt), weights, lossy transforms, layout and dtype.
"""
KEY_ALL = 127
"""A key that covers everything that the bytes depend on."""
DEVICE_PART, HOST_PART, INDEX_PART, STATE_PART = 1, 2, 4, 8
"""Parts of a cache that a rewind, a renewal or a sleep clears: device pages, host copies, index entries, state
of other groups (drafts, checkpoints, rings).
"""
ALL_PARTS = 15
"""All of them."""
PAYLOAD, SCALES, ENTRY = 1, 2, 4
"""What is cleared when a cached frame is expired."""

_COLUMNS: tuple[tuple[str, int], ...] = (
    # The clock, the link and the configuration.
    ("NOW", 1),
    ("LINK_FREE", 1),
    ("LATE", 1),
    ("ENFORCE", NCLAUSE),
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
    # Identity: what the bytes of a page depend on, and the ghost tag that its reader expects.
    ("WANT", NP),
    ("WEIGHTS", 1),
    ("LAYOUT", 1),
    ("R_TEXT", NR),
    ("R_NEXT", NR),
    ("R_TODO", NR),
    ("DEFER", 1),
    ("TOUCHED", NP),
    ("D_REF", ND),
    ("D_DMA", ND),
    ("H_PIN", NH),
    # From here on: what only policies of other kinds than offload, quant and evict touch.
    ("R_ADAPTER", NR),
    ("R_SCHEME", NR),
    ("P_BRANCH", NP),
    ("P_LINEAGE", NP),
    ("TODO", NP),
    # Generation: tokens in the last page (0: it is full), drafts, what the user took back.
    ("R_RES", NR),
    ("R_DRAFT", NR),
    ("R_OPENED", NR),
    ("R_ASKED", NR),
    ("RUN_ON", NR),
    ("HOLD", NR),
    # Groups: recurrent state with checkpoints at page boundaries, ring buffers.
    ("GROUP", NR),
    ("G_AT", NR),
    ("R_BOUND", NR),
    ("CKPT", NP),
    ("RING", NR),
    ("RING_IDX", NR),
    ("RING_OFF", NR),
    # Scales beside a frame's payload; the queues in which evictable frames are filed.
    ("D_SIDE", ND),
    ("D_PAY", ND),
    ("D_CODED", ND),
    ("D_QUEUE", ND),
    ("Q_LEN", NQ),
    # The prefix index.
    ("X_KEY", NX),
    ("X_TIER", NX),
    ("X_FRAME", NX),
    ("X_TAG", NX),
    ("X_FULL", NX),
    ("X_BY", NX),
    # Certificates that one policy gives and another spends.
    ("CERT", NP),
    ("CERT_AT", NP),
    ("CERT_FOR", NP),
    # What operators and schedulers asked for.
    ("W_ASKED", 1),
    ("S_ASKED", 1),
    ("F_ASKED", 1),
    ("IDLE", 1),
    ("LEASE", NJ),
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
    # Generation and admission.
    "queue",
    "prefill",
    "grow",
    "admit",
    "preempt",
    "end_round",
    "defer_frees",
    "ask_frames",
    "pressure",
    "pause",
    # Reuse.
    "publish",
    "unpublish",
    "hit",
    "expire",
    "report",
    "hold",
    "serve_as",
    # Rewind.
    "draft",
    "verify",
    "rewind",
    "fork",
    "trim",
    "make_ring",
    "ring_append",
    # Groups.
    "split_groups",
    "checkpoint",
    "resume",
    # Layouts and scales.
    "relayout",
    "write_scale",
    "encode",
    "forget_scale",
    # Copies of other kinds, and what counts as done.
    "run_ahead",
    "receive",
    "spill",
    "end_copy",
    "trust",
    # Accounting.
    "pin",
    "unpin",
    "enqueue",
    "dequeue",
    # Renewal.
    "load_weights",
    "doze",
    # Certificates.
    "certify",
    "spend",
)
"""Names of the primitives; a history and the ``ACTED`` column use their index."""

OBSERVED = frozenset(
    {
        "arrive",
        "finish",
        "step",
        "read",
        "tick",
        "relevance",
        "end_store",
        "end_load",
        "fail_copy",
        "late_copy",
        "remote_read",
        "demand_load",
        "queue",
        "prefill",
        "grow",
        "verify",
        "pressure",
        "pause",
        "end_copy",
    }
)
"""Primitives of the workload and the environment: no policy takes them."""
SAID = frozenset({"promise", "withdraw", "condemn", "lose", "certify", "ask_frames", "end_round", "unpin"})
"""Primitives by which a policy says something and changes no page."""
ACTIONS = frozenset(PRIMITIVES) - OBSERVED - SAID
"""Primitives that change a page, the index or the link: a manifest has to declare them."""

CLAUSES: tuple[str, ...] = (
    "authority",
    "fence",
    "evidence",
    "quality-budget",
    "link-budget",
    "claim",
    "layout",
    "version",
    "index",
    "boundary",
    "accounting",
    "progress",
    "fail-closed",
)
"""Clauses of the contract; the ``REFUSED`` column uses their index."""

GOALS: dict[str, str] = {
    "host_offer": "a page was offered to its reader from the host",
    "link_busy": "a copy was in flight when a reader had to wait",
    "quantised_quoted": "a page was quantised while another policy relied on its host copy",
    "condemned_away": "a page was condemned while another policy had moved it",
    "dropped_quoted": "a host copy was destroyed while another policy's promise stood on its page",
    "copies_of_two": "two policies' copies were in flight at once",
    "losses_of_two": "losses of two policies were charged to one request",
    "host_full": "the host tier was full when a policy wanted a frame",
    "page_of_two": "a policy acted on a page that another had acted on",
}
"""Interactions that a hunt has to reach at least once, or it reports itself as vacuous: name and what happens.  The
``GOAL`` column counts them in this order.
"""


def constants() -> dict[str, int]:
    """All names that the text of the semantics may use as numbers: columns, scope, codes."""
    names: dict[str, int] = dict(COLUMNS)
    for name, value in globals().items():
        if name.isupper() and isinstance(value, int):
            names[name] = value
    names.update({"P_" + name.upper(): i for i, name in enumerate(PRIMITIVES)})
    names.update({"C_" + name.upper().replace("-", "_"): i for i, name in enumerate(CLAUSES)})
    names.update({"GOAL_" + name.upper(): i for i, name in enumerate(GOALS)})
    names.update({f"I{i}": i for i in range(1, NINV)})
    return names
