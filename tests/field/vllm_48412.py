"""vllm#48412: an offload tier lays the pool out across layers; per-token-head scales still go where they lay before.

Each is clean without the other: no load or pressure is needed, the first quantised page is wrong.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE
from tests.field.report import Report

PLAIN, CROSS_LAYER = 0, 1


def lay_out_across_layers(s: State, k: Int) -> None:
    """At its first act the tier asks for cells that hold all layers of a block; later it stores cold pages."""
    relayout(s, get(s, NOTE, k) == 0, k, CROSS_LAYER)
    put_if(s, True, NOTE, k, 1)
    cold = -1
    for p in each(NP):
        fresh = and_(present(s, p), get(s, HOST, p) < 0, not_(page_in_flight(s, p)))
        cold = ite(and_(cold < 0, fresh, get(s, LAST, p) + 16 <= get(s, NOW, 0)), p, cold)
    begin_store(s, and_(cold >= 0, own_in_flight(s, k) == 0), k, slot(cold))


def quantise_one(s: State, k: Int, layout: Int) -> None:
    """Encodes the first page that isn't yet: its scales go where they lie in a pool of this layout."""
    target = -1
    for p in each(NP):
        plain = and_(present(s, p), get(s, D_CODED, slot(get(s, DEV, p))) == 0)
        target = ite(and_(target < 0, plain, not_(page_in_flight(s, p))), p, target)
    page = slot(target)
    write_scale(s, target >= 0, k, page, layout)
    encode(s, target >= 0, k, page)


def quantise_plain_cells(s: State, k: Int) -> None:
    """Computes the place of the scales for the layout that it knows."""
    quantise_one(s, k, PLAIN)


def quantise_these_cells(s: State, k: Int) -> None:
    """The repair: asks the pool for its layout."""
    quantise_one(s, k, get(s, LAYOUT, 0))


OFFLOAD = Policy(
    name="cross-layer-offload",
    version="1",
    rule=lay_out_across_layers,
    manifest=Manifest(
        kind="offload",
        actions=does("relayout", "begin_store"),
        evidence=Evidence(
            target="near-reuse", horizon=1, confidence=900, provenance="last access", calibrated_on="recency"
        ),
        source="vllm#48412, the offloading connector's cross-layer blocks",
        fidelity="[R] one store an act",
    ),
)
_MANIFEST = Manifest(
    kind="quant",
    actions=does("write_scale", "encode", authority_copy="none", reversibility="irreversible"),
    evidence=Evidence(
        target="reconstruction", horizon=1, confidence=900, provenance="absmax", calibrated_on="int8"
    ),
    source="vllm#48412, int8_per_token_head",
    fidelity="[R] one page an act",
)
QUANT = Policy(name="per-head-quant", version="1", rule=quantise_plain_cells, manifest=_MANIFEST)
QUANT_REPAIRED = Policy(name="per-head-quant", version="2", rule=quantise_these_cells, manifest=_MANIFEST)

REPORT = Report(
    name="vllm#48412",
    title="per-token-head scales land on a payload in a pool that the offload tier has laid out across layers",
    url="https://github.com/vllm-project/vllm/issues/48412",
    invariant="I5",
    policies=(OFFLOAD, QUANT),
    repaired={"per-head-quant": QUANT_REPAIRED},
    trace=((ARRIVE, 0, 1), (ACT, 0, 0), (ACT, 1, 0)),
)
