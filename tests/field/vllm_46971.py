"""vllm#46971: an offload tier counts drafted tokens when it moves its cursor, but stores accepted blocks only.

Blocks that were full only with drafts are passed over; the next store goes on behind them.  The prefix on the host
has a hole, a lookup stops there, and the tier goes on saying that it serves all that is behind its cursor.  Without
drafts every full block is accepted.  Simplified [R]: drafts are whole pages; what the tier claims is said at once.
"""

from __future__ import annotations

from fuzzkv.api import *
from fuzzkv.semantics.schedule import ACT, ARRIVE, VERIFY
from tests.field.report import Report


def store_behind_cursor(s: State, k: Int, drafts_count: int) -> None:
    """Stores each session's full pages from the cursor on as far as room goes, stores again what failed, and says
    how long a prefix the tier serves.
    """
    for r in each(NR):
        home = k * NP + r * PAGES
        lost, accepted = 0, 0
        for i in each(PAGES):
            p = r * PAGES + i
            skip(get(s, OWNED, p) == 1)
            failed = and_(get(s, MARK, k * NP + p) == 1, get(s, HOST, p) < 0)
            again = begin_store(s, and_(failed, settled(s, p)), k, p)
            lost = lost + ite(and_(failed, not_(again)), 1, 0)
            full = complete_page(s, p)
            accepted = accepted + ite(and_(full, settled(s, p)), 1, 0)
            next_one = and_(full, get(s, DUE, home) == i)
            stored = begin_store(s, and_(next_one, settled(s, p)), k, p)
            put_if(s, stored, MARK, k * NP + p, 1)
            passed = or_(stored, and_(next_one, not_(settled(s, p)), drafts_count > 0))
            add_if(s, passed, DUE, home, 1)
        behind = get(s, DUE, home)
        serves = ite(behind < accepted, behind, accepted)
        report(s, and_(get(s, R_ACTIVE, r) == 1, lost == 0, serves > 0), k, r, serves)


def count_drafts(s: State, k: Int) -> None:
    """The cursor goes to the last block that the scheduled tokens fill."""
    store_behind_cursor(s, k, 1)


def count_stored(s: State, k: Int) -> None:
    """The repair: the cursor moves over what was stored."""
    store_behind_cursor(s, k, 0)


def draft_a_page(s: State, k: Int) -> None:
    """Writes drafts ahead for every running session that has none."""
    for r in each(NR):
        draft(s, running(s, r), k, r, TOKENS)


_MANIFEST = Manifest(
    kind="offload",
    actions=does("begin_store", "report", authority_copy="device"),
    evidence=Evidence(
        target="near-reuse", horizon=1, confidence=900, provenance="tokens", calibrated_on="shared prefixes"
    ),
    source="vllm#46971, a connector that stores blocks behind a cursor",
    fidelity="[R] all sessions in one act; a failed store is tried again",
)
CURSOR = Policy(name="cursor-offload", version="1", rule=count_drafts, manifest=_MANIFEST)
CURSOR_REPAIRED = Policy(name="cursor-offload", version="2", rule=count_stored, manifest=_MANIFEST)
DRAFTS = Policy(
    name="draft-ahead",
    version="1",
    rule=draft_a_page,
    workload=("verify",),
    manifest=Manifest(
        kind="schedule",
        actions=does("draft", authority_copy="none"),
        evidence=Evidence(
            target="next-access",
            horizon=1,
            confidence=700,
            provenance="draft model",
            calibrated_on="acceptance rate",
        ),
        source="vllm#46971, speculative decoding",
        fidelity="[R] a page of drafts a turn",
    ),
)

REPORT = Report(
    name="vllm#46971",
    title="drafts move the offload cursor over blocks that are never stored",
    url="https://github.com/vllm-project/vllm/issues/46971",
    invariant="I15",
    policies=(CURSOR, DRAFTS),
    repaired={"cursor-offload": CURSOR_REPAIRED},
    trace=((ARRIVE, 0, 1), (ACT, 1, 0), (ACT, 0, 0), (VERIFY, 0, 4), (ACT, 0, 0)),
)
