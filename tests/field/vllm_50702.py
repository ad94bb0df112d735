"""vllm#50702: with per-token-head int8, prefix reuse and a full pool, answers go wrong four times as often.

In the report int8 without reuse is at the base rate and bf16 with reuse and a full pool has no fault at all; only
the three together are wrong.  When the pool is short, a cached block that nobody uses is given to another request;
its payload is written anew, the scales that stand beside it are still those of its previous owner.

Simplified [R]: scales are written once for a frame's tenancy (where some stand, nothing is written); one page an
act; a scheduler with a watermark of free frames stands for the load that fills the pool.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, FINISH
from tests.field.report import Report

WATERMARK = 0


def keep_a_watermark(s: State, k: Int) -> None:
    """Admits what fits; with fewer free frames than the watermark it asks whoever caches frames for one."""
    for r in each(NR):
        admit(s, waiting(s, r), k, r)
    ask_frames(s, free_device_frames(s) < get(s, PARAM, k * NPARAM + WATERMARK), k)


def encode_one(s: State, k: Int) -> None:
    """Encodes the first page that isn't yet, its scales beside it."""
    target = -1
    for p in each(NP):
        plain = and_(present(s, p), get(s, D_CODED, slot(get(s, DEV, p))) == 0)
        target = ite(and_(target < 0, plain, not_(page_in_flight(s, p))), p, target)
    page = slot(target)
    write_scale(s, target >= 0, k, page, get(s, LAYOUT, 0))
    encode(s, target >= 0, k, page)


def reuse_prefixes(s: State, k: Int, cleared: Int) -> None:
    """Takes what it has for sessions that wait, from the first page on; publishes a page; asked for a frame, it
    frees a cached one that no session maps, with what ``cleared`` names.
    """
    for p in each(NP):
        next_one = or_(p == request_of(p) * PAGES, not_(to_do(s, slot(p - 1))))
        hit(s, and_(to_do(s, p), next_one), k, p, KEY_ALL)
    fresh = -1
    for p in each(NP):
        whole = and_(present(s, p), complete_page(s, p), settled(s, p), get(s, MARK, k * NP + p) == 0)
        fresh = ite(and_(fresh < 0, whole), p, fresh)
    publish(s, fresh >= 0, k, slot(fresh), KEY_ALL)
    put_if(s, fresh >= 0, MARK, k * NP + slot(fresh), 1)
    idle = -1
    for x in each(NX):
        alone = and_(cached_only(s, x), get(s, D_REF, slot(get(s, X_FRAME, x))) == 1)
        idle = ite(and_(idle < 0, alone), x, idle)
    expire(s, and_(get(s, F_ASKED, 0) == 1, idle >= 0), k, slot(idle), cleared)


def reset_the_payload(s: State, k: Int) -> None:
    """Frees a block as it always was: its entry and its payload."""
    reuse_prefixes(s, k, ENTRY + PAYLOAD)


def reset_the_scales_too(s: State, k: Int) -> None:
    """The repair: scales are reset with the payload that they belong to."""
    reuse_prefixes(s, k, ENTRY + PAYLOAD + SCALES)


SCHEDULER = Policy(
    name="full-pool-watermark",
    version="1",
    parameters={"watermark": 5},
    rule=keep_a_watermark,
    workload=("queue",),
    manifest=Manifest(
        kind="schedule",
        actions=does("admit"),
        evidence=Evidence(
            target="next-access", horizon=1, confidence=900, provenance="queue", calibrated_on="free frames"
        ),
        source="vllm#50702, a pool too small for its load",
        fidelity="[R] one frame is asked for at a time",
    ),
)
QUANT = Policy(
    name="per-head-int8",
    version="1",
    rule=encode_one,
    manifest=Manifest(
        kind="quant",
        actions=does("write_scale", "encode", authority_copy="none", reversibility="irreversible"),
        evidence=Evidence(
            target="reconstruction", horizon=1, confidence=900, provenance="absmax", calibrated_on="int8"
        ),
        source="vllm#50702, int8_per_token_head",
        fidelity="[R] one page an act",
    ),
)
_MANIFEST = Manifest(
    kind="reuse",
    actions=does("publish", "hit", "expire", authority_copy="none"),
    evidence=Evidence(
        target="near-reuse", horizon=1, confidence=900, provenance="same tokens", calibrated_on="prompts"
    ),
    source="vllm#50702, prefix caching",
    fidelity="[R] entries are freed in the order of the index",
)
REUSE = Policy(
    name="prefix-pool", version="1", rule=reset_the_payload, workload=("queue", "text"), manifest=_MANIFEST
)
REUSE_REPAIRED = Policy(
    name="prefix-pool", version="2", rule=reset_the_scales_too, workload=("queue", "text"), manifest=_MANIFEST
)

REPORT = Report(
    name="vllm#50702",
    title="a cached block is given to another request with the scales of its previous owner beside it",
    url="https://github.com/vllm-project/vllm/issues/50702",
    invariant="I6",
    policies=(SCHEDULER, QUANT, REUSE),
    repaired={"prefix-pool": REUSE_REPAIRED},
    trace=(
        (ARRIVE, 0, 8),
        (ACT, 0, 0),
        (ACT, 1, 0),
        (ACT, 2, 0),
        (FINISH, 0, 0),
        (ACT, 2, 0),
        (ARRIVE, 0, 1),
        (ACT, 1, 0),
    ),
    also=("I8",),
)
