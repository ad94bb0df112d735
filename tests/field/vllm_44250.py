"""vllm#44250: an external store keeps prefixes by their tokens alone; adapters compute other bytes for the same tokens.

With one model behind it the store is exact, and adapters alone share nothing.  Together a session that is served
with one adapter is given what another one computed.  Simplified [R]: one page an act, three adapters in turn,
and a store that never forgets.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, FINISH, QUEUE, TEXT, TICK
from tests.field.report import Report

ADAPTERS = 3
AT_ONCE = 2


def serve_in_turn(s: State, k: Int) -> None:
    """Serves a session that waits, and has no adapter yet, with the next adapter."""
    target = -1
    for r in each(NR):
        target = ite(and_(target < 0, waiting(s, r), get(s, R_ADAPTER, r) == 0), r, target)
    last = get(s, NOTE, k)
    following = ite(last >= ADAPTERS, 1, last + 1)
    served = serve_as(s, target >= 0, k, slot(target), following, get(s, R_SCHEME, slot(target)))
    put_if(s, served, NOTE, k, following)


def store_and_look_up(s: State, k: Int, covers: Int) -> None:
    """Looks up the first page that a session waits for, and stores the first computed page that it hasn't."""
    for p in each(NP):
        skip(to_do(s, p))
        hit(s, to_do(s, p), k, p, covers)
    new = -1
    for p in each(NP):
        stored = or_(get(s, MARK, k * NP + p) == 1, page_in_flight(s, p))
        whole = and_(present(s, p), complete_page(s, p), settled(s, p))
        new = ite(and_(new < 0, whole, not_(stored)), p, new)
    page = slot(new)
    spill(s, and_(new >= 0, own_in_flight(s, k) < AT_ONCE), k, page, covers, 0)
    put_if(s, new >= 0, MARK, k * NP + page, 1)


def store_by_tokens(s: State, k: Int) -> None:
    """Its key has everything that one model's bytes depend on, and no adapter."""
    store_and_look_up(s, k, KEY_ALL - KEY_ADAPTER)


def store_by_tokens_and_adapter(s: State, k: Int) -> None:
    """The repair: the adapter is part of the key."""
    store_and_look_up(s, k, KEY_ALL)


ADAPTER = Policy(
    name="adapter-router",
    version="1",
    rule=serve_in_turn,
    workload=("queue",),
    manifest=Manifest(
        kind="schedule",
        actions=does("serve_as", authority_copy="none"),
        evidence=Evidence(
            target="answer", horizon=1, confidence=1000, provenance="the request", calibrated_on="its adapter"
        ),
        source="vllm#44250, requests for several adapters of one base model",
        fidelity="[R] adapters in turn",
    ),
)
_MANIFEST = Manifest(
    kind="offload",
    actions=does("spill", "hit", authority_copy="device"),
    evidence=Evidence(
        target="near-reuse", horizon=1, confidence=1000, provenance="tokens", calibrated_on="shared prefixes"
    ),
    source="vllm#44250, an external prefix store behind a connector",
    fidelity="[R] one store an act, nothing is evicted",
)
STORE = Policy(
    name="external-store",
    version="1",
    rule=store_by_tokens,
    workload=("queue", "text"),
    manifest=_MANIFEST,
)
STORE_REPAIRED = Policy(
    name="external-store",
    version="2",
    rule=store_by_tokens_and_adapter,
    workload=("queue", "text"),
    manifest=_MANIFEST,
)

REPORT = Report(
    name="vllm#44250",
    title="an external store keyed by tokens gives one adapter's pages to another",
    url="https://github.com/vllm-project/vllm/issues/44250",
    invariant="I7",
    policies=(ADAPTER, STORE),
    repaired={"external-store": STORE_REPAIRED},
    trace=(
        (TEXT, 0, 1),
        (ARRIVE, 0, 1),
        (ACT, 1, 0),
        (TICK, 8, 0),
        (FINISH, 0, 0),
        (QUEUE, 0, 1),
        (ACT, 0, 0),
        (ACT, 1, 0),
    ),
)
