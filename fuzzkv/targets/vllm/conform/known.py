"""The gaps of the model that are known: for each, which differences it explains, and why. A difference that none explains counts.

A gap is a narrow predicate over the facts of one difference. Whoever adds one adds a test that a difference of the same kind with
other facts stays unexplained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fuzzkv.semantics.layout import NR
from fuzzkv.targets.vllm.conform.differences import INVARIANT, NO_WORD, REFUSED, STATE, Difference
from fuzzkv.targets.vllm.schedule import BLOCK

Facts = Mapping[str, int]


@dataclass(frozen=True)
class KnownGap:
    """``explains`` is asked only about differences of this ``kind`` and ``what``."""

    name: str
    kind: str
    what: str
    reason: str
    explains: Callable[[Facts], bool]


GAPS: Final[tuple[KnownGap, ...]] = (
    KnownGap(
        "waiting",
        REFUSED,
        "queue",
        f"The model has {NR} sessions, so a request that waits in the engine without blocks has none yet.",
        lambda f: f["sessions"] == NR and f["blocks"] == 0,
    ),
    KnownGap(
        "partial-block",
        NO_WORD,
        "queue",
        "The model's sessions open with whole pages; the last block of a prompt may be partly filled.",
        lambda f: 0 < f["residue"] < BLOCK,
    ),
    KnownGap(
        "shared-prefix",
        NO_WORD,
        "text",
        "Two texts of the model are the same or have nothing in common; prompts of the engine may part behind some blocks.",
        lambda f: f["branch"] > 0 and f["behind"] > 0,
    ),
    KnownGap(
        "several-pages",
        NO_WORD,
        "copy",
        "A transfer of the engine moves several pages that begin and end as one; the model's copies are of one page each.",
        lambda f: f["pages"] > 1,
    ),
    KnownGap(
        "two-indexes",
        REFUSED,
        "spill",
        "The engine's device and host have an index each, so a key may be in both; the model's one index names one place.",
        lambda f: f["on_device"] == 1 and f["on_store"] == 0,
    ),
    KnownGap(
        "several-blocks-a-key",
        REFUSED,
        "publish",
        "The engine's index may hold several blocks under one key (the last block of a prompt is always computed anew); the model's one.",
        lambda f: f["entry"] == 1 and f["same_tag"] == 1 and f["same_frame"] == 0 and f["listed"] == 1,
    ),
    KnownGap(
        "publish-waiting",
        REFUSED,
        "publish-waiting",
        "The engine enters loaded pages in its index before their request gets the rest of its blocks; a page of the model is entered when "
        "its session is computed.",
        lambda f: f["todo"] == 1 and f["filled"] == 1,
    ),
    KnownGap(
        "abort-while-loading",
        REFUSED,
        "abort",
        "A request that is aborted while pages are loaded for it keeps its blocks until the engine has heard that the load ended; the "
        "model abandons the load and frees at once.",
        lambda f: f["untold_loads"] > 0,
    ),
    KnownGap(
        "stores-outlive",
        REFUSED,
        "finish",
        "A freed block keeps its bytes until it is reused, and the engine ends a store from it before that; the model abandons a store "
        "when its session ends, so the session's end waits for it here.",
        lambda f: f["stores"] > 0 and f["loads"] == 0,
    ),
    KnownGap(
        "stores-after-end",
        REFUSED,
        "finish",
        "The engine decides the last stores of a request in the step after its end, from blocks that are freed by then; it makes them "
        "before these are written again.",
        lambda f: f["stores"] == 0 and f["loads"] == 0 and f["late_offer"] == 1,
    ),
    KnownGap(
        "stores-outlive-preemption",
        REFUSED,
        "preempt",
        "The same where a request is preempted: the model would hand the frame on while a copy reads it.",
        lambda f: f["stores"] > 0 and f["loads"] == 0,
    ),
    KnownGap(
        "preempt-waiting",
        REFUSED,
        "preempt-waiting",
        "The engine may preempt a request that waits with pages already loaded; the model preempts sessions that run.",
        lambda f: f["running"] == 0 and f["filled"] > 0 and f["loads"] == 0,
    ),
    KnownGap(
        "preempt-sharing",
        INVARIANT,
        "I2",
        "The model calls it a breach if anything reads a frame of a preempted session, even one that stays with others who share it.",
        lambda f: f["preempted"] == 1 and f["alone"] == 0 and f["shared"] > 0,
    ),
    KnownGap(
        "host-frame-before-copy",
        STATE,
        "host",
        "The engine takes a host frame when a store is decided, a step before the copy begins; the model takes it when the copy begins.",
        lambda f: f["engine"] == 0 and f["model"] == -1 and f["offered"] == 1 and f["begun"] == 0,
    ),
    KnownGap(
        "late-news",
        STATE,
        "host",
        "In the engine a stored page can be found only when its scheduler has heard that the copy ended; in the model when it ends.",
        lambda f: f["engine"] == 0 and f["model"] == 1 and f["moved"] == 1 and f["heard"] == 0,
    ),
    KnownGap(
        "retried-copy",
        NO_WORD,
        "retry",
        "A failed attempt is made again by the engine's worker and nobody hears of it; a failed copy of the model has ended.",
        lambda f: f["begun"] == 1 and f["ended"] == 0,
    ),
)
"""All of them. Facts are numbers; what they mean is said where the difference is made (``translate``, ``compare``)."""

BY_NAME: Final[Mapping[str, KnownGap]] = {gap.name: gap for gap in GAPS}


def explained(difference: Difference) -> Difference:
    """The difference with the name of the gap that explains it, if one does."""
    for gap in GAPS:
        if (gap.kind, gap.what) == (difference.kind, difference.what) and gap.explains(difference.facts):
            return replace(difference, gap=gap.name)
    return difference
