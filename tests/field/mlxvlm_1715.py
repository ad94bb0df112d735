"""mlx-vlm#1715: a cached session with a sliding window is cut to a shared prefix as if its arrays were in order.

The window lies in a ring: once it is full, positions go on over its oldest slots.  The prefix cache cuts a session's
arrays to as many slots as the prefix has tokens and lowers the offset; the ring's own index stays where it was.
Positions and slots no longer match: the text is scrambled (with a drafter the engine crashes).

Simplified [R]: a ring has four slots of a page each, and every session has one; the drafter is left out.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ABORT, ACT, ARRIVE, Config
from tests.field.report import Report


def keep_a_ring(s: State, k: Int) -> None:
    """Sessions that run keep their window in a ring, which follows the text as it grows."""
    for r in each(NR):
        make_ring(s, running(s, r), k, r)
        ring_append(s, get(s, RING_OFF, r) < get(s, R_N, r), k, r)


def asked_boundary(s: State, r: Int) -> Int:
    """The pages that a session's next turn shares with what is cached; -1 where there is nothing to cut."""
    n = get(s, R_ASKED, r) - 1
    return ite(and_(running(s, r), n < get(s, R_N, r)), n, -1)


def cut_to_the_prefix(s: State, k: Int) -> None:
    """What the next turn shares with the cache is kept: the arrays are cut behind it."""
    for r in each(NR):
        n = asked_boundary(s, r)
        trim(s, n > 0, k, r, n)


def cut_or_compute_again(s: State, k: Int) -> None:
    """The repair: a ring that has wrapped can't be cut; what follows the prefix is computed again."""
    for r in each(NR):
        n = asked_boundary(s, r)
        wrapped = and_(get(s, RING, r) == 1, get(s, RING_OFF, r) > WINDOW)
        trim(s, and_(n > 0, not_(wrapped)), k, r, n)
        rewind(s, and_(n >= 0, wrapped), k, r, slot(n), ALL_PARTS)


_EVIDENCE = Evidence(
    target="near-reuse", horizon=1, confidence=900, provenance="same tokens", calibrated_on="turns"
)
TRIM = Policy(
    name="prefix-trim",
    version="1",
    rule=cut_to_the_prefix,
    workload=("abort",),
    manifest=Manifest(
        kind="rewind",
        actions=does("trim", authority_copy="none"),
        evidence=_EVIDENCE,
        source="mlx-vlm#1715, the prompt cache",
        fidelity="[R] cuts at page boundaries",
    ),
)
TRIM_REPAIRED = Policy(
    name="prefix-trim",
    version="2",
    rule=cut_or_compute_again,
    workload=("abort",),
    manifest=Manifest(
        kind="rewind",
        actions=does("trim", "rewind", authority_copy="none"),
        evidence=_EVIDENCE,
        source="mlx-vlm#1715, the prompt cache",
        fidelity="[R] cuts at page boundaries",
    ),
)
RING_WINDOW = Policy(
    name="ring-window",
    version="1",
    rule=keep_a_ring,
    workload=("grow",),
    manifest=Manifest(
        kind="evict",
        actions=does("make_ring", "ring_append", authority_copy="none"),
        evidence=Evidence(
            target="current-attention",
            horizon=1,
            confidence=900,
            provenance="position",
            calibrated_on="windows",
        ),
        source="mlx-vlm#1715, the rotating cache of sliding-window layers",
        fidelity="[R] a slot is a page",
    ),
)

REPORT = Report(
    name="mlx-vlm#1715",
    title="a ring buffer that has wrapped is cut to a prefix where its offset says",
    url="https://github.com/Blaizzy/mlx-vlm/issues/1715",
    invariant="I9",
    policies=(TRIM, RING_WINDOW),
    repaired={"prefix-trim": TRIM_REPAIRED},
    trace=((ARRIVE, 0, 5), (ACT, 1, 0), (ABORT, 0, 1), (ACT, 0, 0)),
    config=Config(device_frames=16),
)
