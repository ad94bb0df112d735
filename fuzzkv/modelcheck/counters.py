"""Which columns count when states are compared: columns by what is known of who reads them."""

from __future__ import annotations

SLICED: dict[str, tuple[str, ...]] = {
    "R_STEPS": (),
    "RELEVANT": (),
    "ATT": ("RELEVANT",),
    "LIFE": (),
    "SEEN": ("LIFE",),
    "LAST": (),
    "GAP": ("LAST",),
    "HITS": (),
}
"""Columns that the workload keeps up for the policies alone, each with those that it is computed from.

One that no rule of the set reads, directly or through what it calls, is left out.
"""
REPORTS = (
    *(
        "STEPS",
        "LAT_MAX",
        "LAT_SUM",
        "FREED",
        "REMOTE",
        "DEMAND",
        "PRIMS",
        "GOAL",
        "REFUSED",
        "EVENT",
        "ACTOR",
    ),
    *("V_COUNT", "V_EVENT", "V_STAMP", "V_PAGE", "V_ACTOR", "V_PRIM", "TOUCHED"),
)
"""Columns that only report; a state in which an invariant is broken is never looked at again."""
HANDLED = (
    *("NOW", "LINK_FREE", "LATE", "R_ACTIVE", "R_N", "R_EPOCH", "R_LOSS", "OWNED", "DEV", "HOST", "BUSY"),
    *("EVICTED", "PAID", "D_PAGE", "D_TAG", "D_PREC", "D_FILL", "H_PAGE", "H_TAG", "H_PREC", "H_FILL"),
    *("J_KIND", "J_PAGE", "J_SRC", "J_DST", "J_END", "J_BY", "J_FAIL", "J_TAG", "J_PREC", "J_OVER"),
    *(
        "FLYING",
        "QUOTE",
        "MARK",
        "DUE",
        "SPENT",
        "NOTE",
        "ACTED",
        "WANT",
        "R_TEXT",
        "LEASE",
        "X_KEY",
        "X_TAG",
    ),
)
"""Columns that ``imprint`` looks at by name (``FLYING`` is the number of a policy's copies in flight)."""

OF_SESSION = (
    *("R_TODO", "R_ADAPTER", "R_SCHEME", "R_RES", "R_DRAFT", "R_ASKED", "RUN_ON", "HOLD"),
    *("GROUP", "G_AT", "R_BOUND", "RING"),
)
OF_PAGE = ("TODO", "P_BRANCH", "P_LINEAGE", "CERT")
BESIDE_DEVICE = ("D_REF", "D_DMA", "D_SIDE", "D_PAY", "D_CODED", "D_QUEUE")
BESIDE_HOST = ("H_PIN",)
"""Columns of sessions, pages and frames that are looked at with what they belong to.  Those of sessions and pages are set
anew when one opens and not read before that; a test shows it.
"""
TAGGED = ("WANT", "R_TEXT", "D_TAG", "H_TAG", "J_TAG", "X_KEY", "X_TAG", "D_SIDE", "R_EPOCH")
"""Columns in which the text of a session counts: a rule that looks at one itself may see the epoch."""
